"""How far annotators agree, how good each one is, whether a result can be trusted, and what to label next."""

from crowdprism.diagnostics.agreement import (
    AgreementReport,
    agreement,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    raw_agreement,
)
from crowdprism.diagnostics.annotator_accounts import (
    AnnotatorReport,
    CopyingSuspicion,
    annotator_report,
    copying,
    similar_annotators,
)
from crowdprism.diagnostics.bounds import nearest_anchors, nearest_specialists
from crowdprism.diagnostics.calibration import Calibration, calibration, fit_temperature, with_temperature
from crowdprism.diagnostics.co_labelling import (
    AnnotatorAgreement,
    CoLabellingGraph,
    Coverage,
    PairwiseAgreement,
    annotator_agreement,
    co_labelling_graph,
    cohen_kappa,
    coverage,
    pairwise_agreement,
    scott_pi,
)
from crowdprism.diagnostics.findings import Finding, Findings, Severity
from crowdprism.diagnostics.identifiability import examine
from crowdprism.diagnostics.item_accounts import ItemReport, LabelQuality, item_report, label_quality
from crowdprism.diagnostics.label_evidence import matching
from crowdprism.diagnostics.next_labels import Suggestion, suggest
from crowdprism.diagnostics.scattering import Scattering, confusion_rows, scattering

__all__ = ["AgreementReport", "agreement", "fleiss_kappa", "gwet_ac1", "krippendorff_alpha", "raw_agreement"]
__all__ += ["AnnotatorReport", "CopyingSuspicion", "annotator_report", "copying", "similar_annotators"]
__all__ += ["nearest_anchors", "nearest_specialists"]
__all__ += ["Calibration", "calibration", "fit_temperature", "with_temperature"]
__all__ += ["AnnotatorAgreement", "CoLabellingGraph", "Coverage", "PairwiseAgreement"]
__all__ += ["annotator_agreement", "co_labelling_graph", "cohen_kappa", "coverage", "pairwise_agreement", "scott_pi"]
__all__ += ["Finding", "Findings", "Severity", "examine"]
__all__ += ["ItemReport", "LabelQuality", "item_report", "label_quality", "matching"]
__all__ += ["Suggestion", "suggest", "Scattering", "confusion_rows", "scattering"]

"""Diagnostics: how far annotators agree, who can be compared, and what the data can tell."""

from crowdprism.diagnostics.agreement import (
    AgreementReport,
    agreement,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    raw_agreement,
)
from crowdprism.diagnostics.annotator_accounts import AnnotatorReport, annotator_report, similar_annotators
from crowdprism.diagnostics.calibration import Calibration, calibration, fit_temperature, with_temperature
from crowdprism.diagnostics.co_labelling import CoLabellingGraph, Coverage, co_labelling_graph, coverage
from crowdprism.diagnostics.copying import CopyingSuspicion, copying
from crowdprism.diagnostics.crowdlab import LabelQuality, label_quality
from crowdprism.diagnostics.findings import Finding, Findings
from crowdprism.diagnostics.identifiability import examine
from crowdprism.diagnostics.item_accounts import ItemReport, item_report
from crowdprism.diagnostics.next_labels import Suggestion, suggest
from crowdprism.diagnostics.pair_agreement import (
    AnnotatorAgreement,
    PairwiseAgreement,
    annotator_agreement,
    cohen_kappa,
    pairwise_agreement,
    scott_pi,
)
from crowdprism.diagnostics.scattering import Scattering, confusion_rows, scattering
from crowdprism.diagnostics.specialists import nearest_anchors, nearest_specialists
from crowdprism.diagnostics.uncertainty import Intervals, annotator_intervals, result_intervals

__all__ = [
    "AgreementReport",
    "AnnotatorAgreement",
    "AnnotatorReport",
    "Calibration",
    "CoLabellingGraph",
    "CopyingSuspicion",
    "Coverage",
    "Finding",
    "Findings",
    "Intervals",
    "ItemReport",
    "LabelQuality",
    "PairwiseAgreement",
    "Scattering",
    "Suggestion",
    "agreement",
    "annotator_agreement",
    "annotator_intervals",
    "annotator_report",
    "calibration",
    "co_labelling_graph",
    "cohen_kappa",
    "confusion_rows",
    "copying",
    "coverage",
    "examine",
    "fit_temperature",
    "fleiss_kappa",
    "gwet_ac1",
    "item_report",
    "krippendorff_alpha",
    "label_quality",
    "nearest_anchors",
    "nearest_specialists",
    "pairwise_agreement",
    "raw_agreement",
    "result_intervals",
    "scattering",
    "scott_pi",
    "similar_annotators",
    "suggest",
    "with_temperature",
]

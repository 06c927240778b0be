"""Diagnostics: how far annotators agree, who can be compared, and what the data can tell."""

from crowdprism.diagnostics.agreement import (
    AgreementReport,
    agreement,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    raw_agreement,
)
from crowdprism.diagnostics.co_labelling import CoLabellingGraph, Coverage, co_labelling_graph, coverage
from crowdprism.diagnostics.pair_agreement import (
    AnnotatorAgreement,
    PairwiseAgreement,
    annotator_agreement,
    cohen_kappa,
    pairwise_agreement,
    scott_pi,
)

__all__ = [
    "AgreementReport",
    "AnnotatorAgreement",
    "CoLabellingGraph",
    "Coverage",
    "PairwiseAgreement",
    "agreement",
    "annotator_agreement",
    "co_labelling_graph",
    "cohen_kappa",
    "coverage",
    "fleiss_kappa",
    "gwet_ac1",
    "krippendorff_alpha",
    "pairwise_agreement",
    "raw_agreement",
    "scott_pi",
]

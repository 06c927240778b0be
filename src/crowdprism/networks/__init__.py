"""Torch modules and pure functions: backbones, annotators' confusions, losses, volume terms, crowd heads."""

from __future__ import annotations

from crowdprism.networks import torch_extra as torch_extra

# isort: split
from crowdprism.networks.annotator_layer import (
    FreeConfusions,
    PairTable,
    RowTable,
    diagonal_confusions,
    make_annotator_layer,
    suitable_form,
)
from crowdprism.networks.build import NETWORKS, Dropout, build_network
from crowdprism.networks.heads import CrowdHead, EpochView, GeometricHead, TargetHead
from crowdprism.networks.losses import (
    Batch,
    confusion_gram,
    confusion_trace,
    coupled_cross_entropy,
    joint_cross_entropy,
    log_columns,
    log_volume,
    prediction_gram,
)

__all__ = ["Batch", "CrowdHead", "Dropout", "EpochView", "FreeConfusions", "GeometricHead", "NETWORKS", "PairTable"]
__all__ += ["RowTable", "TargetHead", "build_network", "confusion_gram", "confusion_trace", "coupled_cross_entropy"]
__all__ += ["diagonal_confusions", "joint_cross_entropy", "log_columns", "log_volume", "make_annotator_layer"]
__all__ += ["prediction_gram", "suitable_form"]

"""Torch modules and pure functions: backbones, annotators' confusions, losses, volume terms, crowd heads."""

from __future__ import annotations

from crowdprism.networks import torch_extra as torch_extra

# isort: split
from crowdprism.networks.annotator_layer import FreeConfusions, RowTable, diagonal_confusions, make_annotator_layer
from crowdprism.networks.build import NETWORKS, Dropout, build_network
from crowdprism.networks.heads import CrowdHead, EpochView, GeometricHead
from crowdprism.networks.losses import Batch, coupled_cross_entropy

__all__ = ["Batch", "CrowdHead", "Dropout", "EpochView", "FreeConfusions", "GeometricHead", "NETWORKS", "RowTable"]
__all__ += ["build_network", "coupled_cross_entropy", "diagonal_confusions", "make_annotator_layer"]

"""Instance-dependent confusions: a second network says how each annotator confuses the classes of this very item.

Zhang, Tanno, Xu, Jin, Jacob, Ciccarelli, Barkhof and Alexander, "Disentangling human error from the ground truth in
segmentation of medical images", NeurIPS 2020: confusions C(item, annotator), and their trace as a penalty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from crowdprism.classifiers.annot_mix import AnnotatorMixHead, AnnotMix
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks import Batch, CrowdHead, confusion_trace
from crowdprism.networks.build import EmbeddingTap
from crowdprism.parameters import Real


class SecondNetworkHead(AnnotatorMixHead):
    """The confusions of annot-mix without mixing; their mean trace is kept small, so that errors stay in them."""

    strength: float = 0.0
    latest: Tensor | None = None  # (annotation, true class, given label) of the step

    def log_confusions_of(self, annotator: Tensor, embedding: Tensor) -> Tensor:
        self.latest = super().log_confusions_of(annotator, embedding)
        return self.latest

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        if not self.strength or self.latest is None or not len(batch.label):
            return {}
        return {"trace": self.strength * confusion_trace(self.latest.exp()) / len(self.latest)}

    @torch.no_grad()
    def confusions(self) -> Tensor:
        found = super().confusions()
        self.latest = None
        return found


@dataclass(kw_only=True, eq=False, repr=False)
class InstanceConfusions(AnnotMix):
    """Train a classifier, and beside it a network from items and annotators to confusion matrices.

    For annotators whose errors depend on the item, not only on its class. `confusions_` are those of the average item.

    Parameters
    ----------
    strength
        Weight of the mean trace of the confusions; the paper has 0.01.
    start_diagonal
        Probability of a right label at the start.
    alpha
        As in `AnnotMix`; 0, so that nothing is mixed.
    """

    name: ClassVar[str] = "instance-confusions"
    rate_ratio: ClassVar[float] = 0.1  # a second network as quick as the first would explain the classes away
    _allowed: ClassVar = {"strength": Real(0)}

    alpha: float = 0.0
    strength: float = 0.01

    def _make_head_for(self, network: nn.Module, problem: Problem) -> CrowdHead:
        sizes = problem.n_annotators, problem.n_classes
        head = SecondNetworkHead(self, EmbeddingTap(network), *sizes, seed=problem.seed, member=problem.member)
        head.strength = self.strength
        head.mixer[0].share = 0.0  # type: ignore[index]  # dropout is annot-mix's
        return head

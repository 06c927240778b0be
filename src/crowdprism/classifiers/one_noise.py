"""VolMinNet and T-Revision: labels of one noisy source, whose one confusion matrix is learned with the classifier.

Li, Liu, Han, Niu and Sugiyama, "Provably end-to-end label-noise learning without anchor points", ICML 2021 (VolMinNet);
Xia, Liu, Wang, Han, Gong, Niu and Sugiyama, "Are anchor points really indispensable in label-noise learning?", NeurIPS
2019 (T-Revision). Made for one noisy annotator; labels of several count as labels of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks import Batch, CrowdHead, EpochView, confusion_gram, diagonal_confusions, log_volume
from crowdprism.networks.losses import coupled_cross_entropy, label_cross_entropy, log_columns
from crowdprism.parameters import PROBABILITY, Real

# Anchors of a class are this part of an even share of the items. For ten classes these are the best 3 % of all; the
# authors' code takes the last of them alone, which small data make unstable.
ANCHOR_SHARE = 0.3
SMALLEST = 1e-6  # entries of a revised matrix stay above this


class OneMatrixHead(CrowdHead):
    """-log Σ_k f_k T[k, label] with the same matrix for every label, plus `strength` times log |det T|."""

    def __init__(self, n_annotators: int, start: Tensor, *, strength: float = 0.0) -> None:
        super().__init__()
        self.n_annotators, self.strength = n_annotators, strength
        self.logits = nn.Parameter(start.log())

    def log_matrix(self) -> Tensor:
        """(true class, given label), rows sum to one."""
        return torch.log_softmax(self.logits, dim=-1)

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        columns = log_columns(self.log_matrix().unsqueeze(0), torch.zeros_like(batch.annotator), batch.label)
        return coupled_cross_entropy(log_class_probs, columns, batch.item, batch.weight)

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        if not self.strength:
            return {}
        # log det(T T') is twice log |det T|.
        return {"volume": self.strength * log_volume(confusion_gram(self.log_matrix().exp().unsqueeze(0))) / 2}

    @torch.no_grad()
    def confusions(self) -> Tensor:
        return self.log_matrix().exp().expand(self.n_annotators, -1, -1)


class RevisionHead(OneMatrixHead):
    """First plain training on the labels; then a matrix read off at anchor points, and a revision learned on top.

    The anchors of a class are the items to which the network gives it with the highest probability.
    """

    def __init__(self, n_annotators: int, n_classes: int, *, anchor_epoch: int) -> None:
        super().__init__(n_annotators, torch.ones(n_classes, n_classes))
        self.logits.requires_grad_(False)
        self.revision = nn.Parameter(torch.zeros(n_classes, n_classes))
        self.anchored: Tensor
        self.register_buffer("anchored", torch.eye(n_classes))
        self.anchor_epoch, self.revising = anchor_epoch, False

    def start_epoch(self, epoch: int) -> None:
        self.revising = epoch >= self.anchor_epoch

    def log_matrix(self) -> Tensor:
        revised = (self.anchored + self.revision).clamp_min(SMALLEST)
        return revised.log() - revised.sum(dim=1, keepdim=True).log()

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        if self.revising:
            return super().loss(log_class_probs, batch)
        plain = label_cross_entropy(log_class_probs.index_select(0, batch.item), batch.label, batch.weight)
        return plain + 0.0 * self.revision.sum()

    def end_epoch(self, view: EpochView) -> None:
        if view.epoch + 1 == self.anchor_epoch:
            n_items, n_classes = view.log_class_probs.shape
            n_anchors = max(1, round(ANCHOR_SHARE * n_items / n_classes))
            best = view.log_class_probs.argsort(dim=0, descending=True, stable=True)[:n_anchors]  # (anchor, true class)
            self.anchored.copy_(view.log_class_probs.exp()[best].mean(dim=0))


@dataclass(kw_only=True, eq=False, repr=False)
class VolMinNet(CrowdClassifier):
    """Learn a classifier and one confusion matrix of all labels, the matrix with the smallest volume that fits.

    For one noisy annotator. `GeoCrowdNet` is for several.

    Parameters
    ----------
    strength
        Weight of log |det T|. The paper has 1e-4 for images and a hundred epochs; short fits need more.
    start_diagonal
        Probability of a right label at the start.
    """

    name: ClassVar[str] = "volminnet"
    _allowed: ClassVar = {"strength": Real(0), "start_diagonal": PROBABILITY}

    strength: float = 0.05
    start_diagonal: float = 0.6

    def _make_head(self, problem: Problem) -> CrowdHead:
        start = diagonal_confusions(1, problem.n_classes, self.start_diagonal)[0]
        return OneMatrixHead(problem.n_annotators, start, strength=self.strength)


@dataclass(kw_only=True, eq=False, repr=False)
class TRevision(CrowdClassifier):
    """Train on the labels as they are, estimate one confusion matrix at anchor points, then train on through it.

    For one noisy annotator. The matrix is revised while training goes on, by forward correction (the paper's
    Forward-R).

    Parameters
    ----------
    first_share
        Share of the epochs before the matrix is estimated.
    """

    name: ClassVar[str] = "t-revision"
    rate_ratio: ClassVar[float] = 0.03  # revisions are small, and the paper's rate for them is tiny
    _allowed: ClassVar = {"first_share": PROBABILITY}

    first_share: float = 0.3

    def _make_head(self, problem: Problem) -> CrowdHead:
        anchor_epoch = max(1, round(self.first_share * self.epochs))
        return RevisionHead(problem.n_annotators, problem.n_classes, anchor_epoch=anchor_epoch)

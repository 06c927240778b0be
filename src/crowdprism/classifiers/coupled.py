"""Coupled cross-entropy with other terms than GeoCrowdNet's: TraceReg, COINNet, VolMinNet and T-Revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem, Run, imbalance_advice
from crowdprism.errors import UnsuitableDataError
from crowdprism.networks import Batch, CrowdHead, EpochView, RowTable, coupled_cross_entropy, losses
from crowdprism.networks.annotator_layer import FreeConfusions, PairTable, diagonal_confusions
from crowdprism.networks.losses import confusion_trace, label_cross_entropy, log_columns, log_volume
from crowdprism.parameters import PROBABILITY, OneOf, Real, Whole

SOFTPLUS_DIAGONAL, SOFTPLUS_REST = 1.0, -5.0  # the authors' start 6 I - 5: a diagonal of about 0.96


class TraceHead(CrowdHead):
    """-log Σ_k f_k C[k, label] per annotation, plus strength times the sum (or mean) of all traces.

    Where only touched rows are updated, a row's trace is divided by its `touch_rate`.
    """

    def __init__(self, method: TraceReg, n_annotators: int, n_classes: int, *, touch_rate: Tensor) -> None:
        super().__init__()
        self.positive = method.positive
        self.vote_epochs, self.voting = method.vote_epochs, method.vote_epochs > 0
        self.strength = method.strength / n_annotators if method.reduction == "mean" else method.strength
        eye = torch.eye(n_classes)
        start = SOFTPLUS_REST + (SOFTPLUS_DIAGONAL - SOFTPLUS_REST) * eye if self.positive == "softplus" else eye
        self.table = RowTable(start.expand(n_annotators, -1, -1))
        self.touch_rate = nn.Buffer(touch_rate.float(), persistent=False)

    def log_confusions(self, values: Tensor) -> Tensor:
        """Rows of free numbers -> log probabilities: softmax, or softplus divided by its sum."""
        if self.positive == "softmax":
            return losses.log_rows(values)
        lifted = functional.softplus(values)
        return lifted.log() - lifted.sum(dim=-1, keepdim=True).log()

    def start_epoch(self, epoch: int) -> None:
        self.voting = epoch < self.vote_epochs

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        if self.voting:
            return label_cross_entropy(log_class_probs.index_select(0, batch.item), batch.label, batch.weight)
        columns = log_columns(self.log_confusions(self.table.rows(batch)), self.table.place(batch), batch.label)
        return coupled_cross_entropy(log_class_probs, columns, batch.item, batch.weight)

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        if self.voting or not self.strength:
            return {}
        confusions = self.log_confusions(self.table.rows(batch)).exp()
        if self.table.touched_only:
            confusions = confusions / self.touch_rate.index_select(0, batch.touched).view(-1, 1, 1)
        return {"trace": self.strength * confusion_trace(confusions)}

    @torch.no_grad()
    def confusions(self) -> Tensor:
        return self.log_confusions(self.table.values).exp()


@dataclass(kw_only=True, eq=False, repr=False)
class TraceReg(CrowdClassifier):
    """Train through confusion matrices whose diagonal is kept as small as the annotations allow.

    Tanno, Saeedi, Sankaranarayanan, Alexander and Silberman, "Learning from noisy labels by regularized estimation of
    annotator confusion", CVPR 2019. Where the average confusion is diagonally dominant this singles out the true ones.

    Parameters
    ----------
    strength
        Weight of the trace; the paper has 0.01.
    reduction
        `"mean"` over annotators as in the paper, or `"sum"`, with which the term grows with the number of annotators.
    positive
        `"softplus"`: rows are softplus of free numbers, normalised, from 6 I - 5 (the paper; a diagonal of 0.96).
        `"softmax"`: from identity logits, as in the comparison of Ibrahim et al. (2023).
    vote_epochs
        Epochs at the start that train the network on the labels themselves; 0 in the paper, 20 in the comparison.
    **training
        Parameters of `CrowdClassifier`; during `warm_start` (a share of all steps) the trace is left out.
    """

    name: ClassVar[str] = "tracereg"
    _allowed: ClassVar = {
        "strength": Real(0),
        "reduction": OneOf("mean", "sum"),
        "positive": OneOf("softplus", "softmax"),
        "vote_epochs": Whole(0),
    }

    strength: float = 0.01
    reduction: Literal["mean", "sum"] = "mean"
    positive: Literal["softplus", "softmax"] = "softplus"
    vote_epochs: int = 0

    def _make_head(self, problem: Problem) -> CrowdHead:
        touch_rate = torch.from_numpy(problem.flat.touch_rate(problem.batch_size))
        return TraceHead(self, problem.n_annotators, problem.n_classes, touch_rate=touch_rate)


SMALLEST = 1e-10  # probabilities are kept this far from 0 and 1, and squared norms this far above 0
NORM_POWER = 0.2  # of the squared norm: an l_{2,p} penalty with p = 0.4, so that few items are outliers
OUTLIER_RATE = 0.1  # outlier terms are probabilities, not logits: they move at the network's rate, not ten times it


class OutlierHead(CrowdHead):
    """P(label) = C_mᵀ f(x) + e, where e sums to zero; stored for the annotations that were made."""

    item_state = ("outliers.values",)

    def __init__(
        self, confusions: Tensor, item: Tensor, n_items: int, strength: float, outlier_strength: float
    ) -> None:
        super().__init__()
        self.layer = FreeConfusions(confusions)
        self.strength, self.outlier_strength, self.n_items = strength, outlier_strength, n_items
        allowed = np.isfinite(outlier_strength)
        self.outliers = PairTable(torch.zeros(len(item), confusions.shape[-1])) if allowed else None
        self.item = nn.Buffer(item, persistent=False)

    def terms(self, free: Tensor) -> Tensor:
        """(annotation, label) outlier terms from free numbers; they sum to zero."""
        scaled = OUTLIER_RATE * free
        return scaled - scaled.mean(dim=1, keepdim=True)

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        if self.outliers is None:
            return coupled_cross_entropy(log_class_probs, self.layer.log_columns(batch), batch.item, batch.weight)
        terms = self.terms(self.outliers.rows(batch))
        confusions = self.layer.block_log_confusions(batch).exp()
        chosen = confusions.index_select(0, self.layer.table.place(batch))  # (annotation, true class, given label)
        probs = log_class_probs.exp().index_select(0, batch.item).unsqueeze(1)
        explained = torch.bmm(probs, chosen).squeeze(1) + terms.index_select(0, self.outliers.place(batch))
        kept = explained.clamp(SMALLEST, 1 - SMALLEST)
        log_likelihood = (kept.gather(1, batch.label.unsqueeze(1)).squeeze(1) / kept.sum(dim=1)).log()
        return -log_likelihood.sum() if batch.weight is None else -(log_likelihood * batch.weight).sum()

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        parts: dict[str, Tensor] = {}
        if self.strength:
            parts["volume"] = -self.strength * log_volume(losses.prediction_gram(log_class_probs.exp()))
        if self.outliers is not None and self.outlier_strength:
            terms = self.terms(self.outliers.rows(batch))
            rows = batch.item[: len(batch.annotation)]  # without the repeats of mixup
            norms = terms.new_zeros(len(batch.index)).index_add(0, rows, terms.square().sum(dim=1))
            parts["outliers"] = self.outlier_strength * (norms + SMALLEST).pow(NORM_POWER).mean()
        return parts

    @torch.no_grad()
    def scores(self) -> Tensor:
        """(n_items,) norm of each item's outlier terms."""
        norms = torch.zeros(self.n_items, device=self.item.device)
        if self.outliers is None:
            return norms
        return norms.index_add(0, self.item, self.terms(self.outliers.values).square().sum(dim=1)).sqrt()

    @torch.no_grad()
    def confusions(self) -> Tensor:
        return self.layer.confusions()


@dataclass(kw_only=True, eq=False, repr=False)
class COINNet(CrowdClassifier):
    """Train through confusion matrices, and let single annotations deviate from them at a price.

    Nguyen, Ibrahim and Fu, "Noisy label learning with instance-dependent outliers: identifiability via crowd wisdom",
    NeurIPS 2024.

    Parameters
    ----------
    strength
        Weight of the volume of the predictions, as in GeoCrowdNet(F); the paper has 0.01.
    outlier_strength
        Price of outlier terms, per item; the paper has 0.01. Infinity allows none, which leaves GeoCrowdNet(F).
    start_diagonal
        Probability of a right label at the start, whatever the number of classes; the paper has identity logits.
    **training
        Parameters of `CrowdClassifier`. The paper: Adam at 1e-3, batches of 512, 150 epochs, one-cycle.

    Attributes
    ----------
    outlier_scores_
        (n_items,) how far each item's annotations are from what the confusions explain; not stored by `save`.
    """

    name: ClassVar[str] = "coinnet"
    _allowed: ClassVar = {
        "outlier_strength": Real(0, infinite=True),
        "start_diagonal": PROBABILITY,
        "strength": Real(0),
    }

    strength: float = 0.01
    outlier_strength: float = 0.01
    start_diagonal: float = 0.6

    def _check_parameters(self, problem: Problem) -> None:
        n_active = int((problem.annotations.labels_per_annotator > 0).sum())
        if n_active < 2 and np.isfinite(self.outlier_strength):
            raise UnsuitableDataError(
                "coinnet tells outliers from confusion by comparing annotators, and needs at least two who label; "
                f"there is {n_active}. Use geocrowdnet-f, which needs only one."
            )

    def _advice(self, problem: Problem) -> Iterable[str]:
        if self.strength:
            way_out = "Use strength=0, or geocrowdnet without a regulariser."
            yield from imbalance_advice(problem.annotations, "the volume of the predictions", way_out)

    def _make_head(self, problem: Problem) -> CrowdHead:
        start = diagonal_confusions(problem.n_annotators, problem.n_classes, self.start_diagonal)
        item, strengths = torch.from_numpy(problem.flat.item), (self.strength, self.outlier_strength)
        return OutlierHead(start, item, problem.flat.n_items, *strengths)

    def _after_training(self, run: Run) -> None:
        assert isinstance(run.head, OutlierHead)
        if run.problem.member == 0:
            scores = run.head.scores()[: run.problem.n_given]
            self.outlier_scores_: NDArray[np.float64] = scores.double().cpu().numpy()


# Anchors of a class are this part of an even share of the items. For ten classes these are the best 3 % of all; the
# authors' code takes the last of them alone, which small data make unstable.
ANCHOR_SHARE = 0.3
SMALLEST_REVISED = 1e-6  # entries of a revised matrix stay above this


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
        return {"volume": self.strength * log_volume(losses.confusion_gram(self.log_matrix().exp().unsqueeze(0))) / 2}

    @torch.no_grad()
    def confusions(self) -> Tensor:
        return self.log_matrix().exp().expand(self.n_annotators, -1, -1)


class RevisionHead(OneMatrixHead):
    """Plain training first; then a matrix read off at anchors, the surest items of each class, and a revision of it."""

    def __init__(self, n_annotators: int, n_classes: int, *, anchor_epoch: int) -> None:
        super().__init__(n_annotators, torch.ones(n_classes, n_classes))
        self.logits.requires_grad_(False)
        self.revision = nn.Parameter(torch.zeros(n_classes, n_classes))
        self.anchored = nn.Buffer(torch.eye(n_classes))
        self.anchor_epoch, self.revising = anchor_epoch, False

    def start_epoch(self, epoch: int) -> None:
        self.revising = epoch >= self.anchor_epoch

    def log_matrix(self) -> Tensor:
        revised = (self.anchored + self.revision).clamp_min(SMALLEST_REVISED)
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

    Li, Liu, Han, Niu and Sugiyama, "Provably end-to-end label-noise learning without anchor points", ICML 2021. For one
    noisy annotator; labels of several count as labels of one. `GeoCrowdNet` is for several.

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

    Xia, Liu, Wang, Han, Gong, Niu and Sugiyama, "Are anchor points really indispensable in label-noise learning?",
    NeurIPS 2019. For one noisy annotator; labels of several count as labels of one. The matrix is revised while
    training goes on, by forward correction (the paper's Forward-R).

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

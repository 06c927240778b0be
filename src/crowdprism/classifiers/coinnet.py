"""COINNet: GeoCrowdNet with an outlier term for annotations that no confusion matrix explains.

Nguyen, Ibrahim and Fu, "Noisy label learning with instance-dependent outliers: identifiability via crowd wisdom",
NeurIPS 2024.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem, Run
from crowdprism.classifiers.starting_values import imbalance_advice
from crowdprism.errors import UnsuitableDataError
from crowdprism.networks import Batch, CrowdHead, coupled_cross_entropy, log_volume, prediction_gram
from crowdprism.networks.annotator_layer import FreeConfusions, PairTable, diagonal_confusions
from crowdprism.parameters import PROBABILITY, Real

SMALLEST = 1e-10  # probabilities are kept this far from 0 and 1, and squared norms this far above 0
NORM_POWER = 0.2  # of the squared norm: an l_{2,p} penalty with p = 0.4, so that few items are outliers
OUTLIER_RATE = 0.1  # outlier terms are probabilities, not logits: they move at the network's rate, not ten times it


class OutlierHead(CrowdHead):
    """P(label) = C_mᵀ f(x) + e, where e sums to zero and belongs to a single annotation.

    Terms are stored for the annotations that were made, not for all items x annotators.
    """

    item_state = ("outliers.values",)

    def __init__(
        self, confusions: Tensor, item: Tensor, n_items: int, *, strength: float, outlier_strength: float
    ) -> None:
        super().__init__()
        self.layer = FreeConfusions(confusions)
        self.strength, self.outlier_strength, self.n_items = strength, outlier_strength, n_items
        allowed = np.isfinite(outlier_strength)
        self.outliers = PairTable(torch.zeros(len(item), confusions.shape[-1])) if allowed else None
        self.item: Tensor
        self.register_buffer("item", item, persistent=False)

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
        likelihood = kept.gather(1, batch.label.unsqueeze(1)).squeeze(1) / kept.sum(dim=1)
        log_likelihood = likelihood.log()
        return -log_likelihood.sum() if batch.weight is None else -(log_likelihood * batch.weight).sum()

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        parts: dict[str, Tensor] = {}
        if self.strength:
            parts["volume"] = -self.strength * log_volume(prediction_gram(log_class_probs.exp()))
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
        "strength": Real(0),
        "outlier_strength": Real(0, infinite=True),
        "start_diagonal": PROBABILITY,
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
        item = torch.from_numpy(problem.flat.item)
        return OutlierHead(
            start, item, problem.flat.n_items, strength=self.strength, outlier_strength=self.outlier_strength
        )

    def _after_training(self, run: Run) -> None:
        assert isinstance(run.head, OutlierHead)
        if run.problem.member == 0:
            scores = run.head.scores()[: run.problem.n_given]
            self.outlier_scores_: NDArray[np.float64] = scores.double().cpu().numpy()

"""Max-MIG: the classifier and a combination of the labels are trained to know as much of each other as possible.

Cao, Xu, Kong and Wang, "Max-MIG: an information theoretic approach for joint learning from crowds", ICLR 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem, imbalance_advice, item_votes, vote_class_shares
from crowdprism.errors import UnsuitableDataError
from crowdprism.networks import Batch, CrowdHead, EpochView, RowTable
from crowdprism.parameters import OneOf
from crowdprism.results.confusion import confusion_counts, normalize_rows

SMALLEST_SCORE = 1e-4  # added inside logarithms and divisions, as the authors do
START_SMOOTHING = 0.01  # added to the confusions of the vote before their logarithm, as the authors do

# For each f: the score of a pair that belongs together, ∂f(R), and of one that does not, f*(∂f(R)), where f* is the
# convex conjugate. Both are 0 apart at R = 1: predictions that say nothing gain nothing.
Scores = Callable[[Tensor], tuple[Tensor, Tensor]]
DIVERGENCES: dict[str, Scores] = {
    "kl": lambda ratio: (1 + (ratio + SMALLEST_SCORE).log(), ratio + SMALLEST_SCORE),
    "reverse-kl": lambda ratio: (-1 / (ratio + SMALLEST_SCORE), -1 + (ratio + SMALLEST_SCORE).log()),
    "pearson": lambda ratio: (2 * (ratio - 1), ratio.square() - 1),
    "hellinger": lambda ratio: (1 - (ratio + SMALLEST_SCORE).rsqrt(), (ratio + SMALLEST_SCORE).sqrt() - 1),
    "jensen-shannon": lambda ratio: (
        (2 * (ratio + SMALLEST_SCORE) / (1 + ratio + SMALLEST_SCORE)).log(),
        ((1 + ratio + SMALLEST_SCORE) / 2).log(),
    ),
    # The sign function has no gradient; any function within -1..1 gives a lower bound, and tanh is one that learns.
    "tvd": lambda ratio: (torch.tanh(ratio - 1), torch.tanh(ratio - 1)),
}


def negative_information_gain(
    class_probs: Tensor,  # (item, class) of the classifier
    combined: Tensor,  # (item, class) of the combined labels
    prior: Tensor,  # (class,)
    divergence: str = "kl",
) -> Tensor:
    """-(mean over items of ∂f(R_ii)) + (mean over pairs i≠j of f*(∂f(R_ij))), R_ij = Σ_k h_k(i) g_k(j) / prior_k."""
    ratio = (class_probs / prior) @ combined.T
    together, apart = DIVERGENCES[divergence](ratio)
    outside = apart.sum() - apart.diagonal().sum()
    return -together.diagonal().mean() + outside / (len(ratio) * (len(ratio) - 1))


class MutualInformationHead(CrowdHead):
    """Combines an item's labels as softmax(Σ V_m[:, label] + log prior), and scores it against the classifier."""

    def __init__(self, start: Tensor, prior: Tensor, *, divergence: str, refresh_prior: bool) -> None:
        super().__init__()
        self.divergence, self.refresh_prior = divergence, refresh_prior
        self.table = RowTable(start)  # (annotator, class, given label): plays log P(label | class)
        self.prior = nn.Buffer(prior.float())

    def combined(self, batch: Batch, group: Tensor, n_groups: int) -> Tensor:
        """(group, class) class probabilities by the annotations alone."""
        columns = self.table.rows(batch)[self.table.place(batch), :, batch.label]
        if batch.weight is not None:
            columns = columns * batch.weight.unsqueeze(1)
        start = self.prior.log().expand(n_groups, -1)
        return torch.softmax(start.index_add(0, group, columns), dim=1)

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        labelled, group = torch.unique(batch.item, return_inverse=True)
        if len(labelled) < 2:  # a lone item has no pair to be told apart from
            return 0.0 * log_class_probs.sum()
        combined = self.combined(batch, group, len(labelled))
        class_probs = log_class_probs.exp().index_select(0, labelled)
        return len(labelled) * negative_information_gain(class_probs, combined, self.prior, self.divergence)

    def count(self, batch: Batch) -> float:
        return float(batch.n_labelled)

    def end_epoch(self, view: EpochView) -> None:
        if self.refresh_prior:
            self.prior.copy_(view.log_class_probs.exp().mean(dim=0))

    @torch.no_grad()
    def confusions(self) -> Tensor:
        return torch.softmax(self.table.values, dim=-1)


@dataclass(kw_only=True, eq=False, repr=False)
class MaxMIG(CrowdClassifier):
    """Train two views of each item, its features and its labels, to share as much information as possible.

    Only the start at the votes' confusions fixes the order of classes. Batches need several items of each class.

    Parameters
    ----------
    divergence
        Which f-mutual information: `"kl"` (the paper's choice), `"reverse-kl"`, `"pearson"`, `"hellinger"`,
        `"jensen-shannon"` or `"tvd"` (total variation).
    prior
        Class shares: `"uniform"` as in the authors' code, shares of the `"votes"`, or of the classifier's
        `"predictions"`, taken anew after each epoch.
    **training
        Parameters of `CrowdClassifier`. The paper (LabelMe): Adam at 1e-4 for both parts, batches of 64, 20 epochs.
    """

    name: ClassVar[str] = "max-mig"
    _allowed: ClassVar = {"divergence": OneOf(*DIVERGENCES), "prior": OneOf("uniform", "votes", "predictions")}

    divergence: Literal["kl", "reverse-kl", "pearson", "hellinger", "jensen-shannon", "tvd"] = "kl"
    prior: Literal["uniform", "votes", "predictions"] = "uniform"

    def _check_parameters(self, problem: Problem) -> None:
        n_labelled = int((problem.annotations.labels_per_item > 0).sum())
        in_batch = min(problem.batch_size, problem.flat.n_items) * n_labelled / problem.flat.n_items
        if in_batch < problem.n_classes:
            raise UnsuitableDataError(
                f"max-mig compares the items of a batch with each other and needs at least as many annotated items in "
                f"it as there are classes ({problem.n_classes}); a batch of {problem.batch_size} has "
                f"{in_batch:.1f} on average ({n_labelled} of {problem.flat.n_items} items are annotated). "
                "Give a larger batch_size, leave out items without annotations, or use geocrowdnet: it needs neither."
            )

    def _advice(self, problem: Problem) -> Iterable[str]:
        if self.prior == "uniform":
            way_out = "Use prior='votes', or geocrowdnet without a regulariser."
            yield from imbalance_advice(problem.annotations, "max-mig with prior='uniform'", way_out)

    def _make_head(self, problem: Problem) -> CrowdHead:
        annotations = problem.annotations
        shares = np.full(problem.n_classes, 1 / problem.n_classes)
        if self.prior != "uniform":
            shares = np.maximum(vote_class_shares(annotations), SMALLEST_SCORE)
        voted = normalize_rows(confusion_counts(annotations, item_votes(annotations)))
        start = torch.from_numpy(np.log(voted + START_SMOOTHING)).float()
        prior, refresh = torch.from_numpy(shares / shares.sum()), self.prior == "predictions"
        return MutualInformationHead(start, prior, divergence=self.divergence, refresh_prior=refresh)

"""What training starts from, by the annotations alone: votes as targets, and annotators' first confusions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crowdprism.aggregators import make_aggregator
from crowdprism.aggregators.majority_vote import vote_shares, vote_totals
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import plain
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks.annotator_layer import diagonal_confusions, identity_diagonal
from crowdprism.results.confusion import confusion_counts, normalize_rows, pooled_confusion

STARTS = ("diagonal", "identity", "soft-vote", "dawid-skene")
RARE_CLASS = 0.5  # a class with less than this part of an even share of the votes makes the crowd imbalanced
PRIOR_LABELS = 4.0  # an annotator's counts are joined by this many labels per class from the whole crowd


def item_votes(annotations: Annotations) -> NDArray[np.float64]:
    """(n_items, n_classes) vote shares; even where an item has no annotations."""
    return vote_shares(vote_totals(annotations), np.full(annotations.n_classes, 1 / annotations.n_classes))


def vote_class_shares(annotations: Annotations) -> NDArray[np.float64]:
    """(n_classes,) mean over annotated items of their vote shares."""
    return np.asarray(item_votes(annotations)[annotations.labels_per_item > 0].mean(axis=0))


def is_imbalanced(annotations: Annotations) -> bool:
    return bool(vote_class_shares(annotations).min() < RARE_CLASS / annotations.n_classes)


def imbalance_advice(annotations: Annotations, cause: str, way_out: str) -> Iterable[str]:
    """Return a warning where votes are imbalanced and a method draws predictions towards equally frequent classes."""
    if is_imbalanced(annotations):
        shares = vote_class_shares(annotations)
        rare = plain(annotations.classes[shares.argmin()])
        yield (
            f"Votes are imbalanced (class {rare!r} has {shares.min():.1%} of the votes; an even share is "
            f"{1 / len(shares):.1%}), and {cause} draws predictions towards equally frequent classes: rare classes may "
            f"be predicted far too often. {way_out}"
        )


def vote_targets(problem: Problem) -> tuple[Tensor, Tensor]:
    targets, used = problem.item_targets(item_votes(problem.annotations), problem.annotations.labels_per_item > 0)
    return targets.float(), used


def start_confusions(start: str, annotations: Annotations, *, diagonal: float) -> Tensor:
    """Return the confusions that training starts from: (annotator, true class, given label).

    `"diagonal"`: the same for all, with `diagonal` as probability of a right label whatever the number of classes.
    `"identity"`: logits of the reference implementation, whose diagonal is e / (e + n_classes - 1).
    `"soft-vote"`, `"dawid-skene"`: counted from that aggregator's class probabilities and shrunk to the crowd's.
    """
    shape = (annotations.n_annotators, annotations.n_classes)
    if start == "diagonal":
        return diagonal_confusions(*shape, diagonal)
    if start == "identity":
        return diagonal_confusions(*shape, identity_diagonal(annotations.n_classes))
    aggregator = make_aggregator("majority-vote" if start == "soft-vote" else "dawid-skene", use_gold=False)
    probabilities = aggregator.fit(annotations).result_.class_probabilities
    return torch.from_numpy(shrunk_confusions(annotations, probabilities)).float()


def shrunk_confusions(annotations: Annotations, class_probabilities: NDArray[Any]) -> NDArray[np.float64]:
    """Confusions counted from class probabilities, each row joined by `PRIOR_LABELS` labels of the pooled row."""
    counts = confusion_counts(annotations, class_probabilities)
    pooled = pooled_confusion(counts + 1.0 / annotations.n_classes)  # no zeros: logits must be finite
    return np.asarray(normalize_rows(counts + PRIOR_LABELS * pooled))

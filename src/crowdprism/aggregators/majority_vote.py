"""Majority vote: the label that most annotators gave."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import IncrementalAggregator
from crowdprism.aggregators.vote_confusions import confusions_against
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.results import FitResult
from crowdprism.seeding import stream

Ties = Literal["lowest", "random", "split"]
TIES = ("lowest", "random", "split")
NO_MATRICES = "Full confusion matrices would not fit in memory."


def vote_totals(annotations: Annotations, weight: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Sum of weights per item and label: (n_items, n_classes). `weight` is per annotation, else the stored one.

    Examples
    --------
    >>> vote_totals(Annotations.from_dense([[0, 1, 1]])).tolist()
    [[1.0, 2.0]]
    """
    if weight is None:
        weight = annotations.weight
    cell = annotations.item.astype(np.int64) * annotations.n_classes + annotations.label
    totals = np.bincount(cell, weights=weight, minlength=annotations.n_items * annotations.n_classes)
    return totals.astype(np.float64).reshape(annotations.n_items, annotations.n_classes)


def vote_shares(totals: NDArray[Any], prior: NDArray[Any]) -> NDArray[np.float64]:
    """Votes divided by their sum; items without votes get the prior."""
    sums = totals.sum(axis=1, keepdims=True)
    return np.where(sums > 0, totals / np.where(sums > 0, sums, 1.0), prior)


def decide(totals: NDArray[Any], ties: Ties, seed: Any = 0) -> NDArray[np.float64]:
    """Turn votes into one-hot rows; where several classes share the maximum, by the stated rule.

    `"lowest"` takes the class that comes first, `"random"` one of them by the seed, `"split"` gives each an equal
    share. None of the rules depends on the order of annotations.
    """
    winners = totals == totals.max(axis=1, keepdims=True)
    if ties == "split":
        return np.asarray(winners / winners.sum(axis=1, keepdims=True))
    if ties == "random":
        chosen = np.argmax(winners * (1.0 + stream(seed, "ties").random(winners.shape)), axis=1)
    else:
        chosen = np.argmax(winners, axis=1)
    one_hot = np.zeros(totals.shape)
    one_hot[np.arange(len(totals)), chosen] = 1.0
    return one_hot


class MajorityVote(IncrementalAggregator):
    """The label that most annotators gave, every annotator counting the same.

    Parameters
    ----------
    voting
        `"soft"`: probabilities are vote shares. `"hard"`: one-hot on the winner.
    ties
        For `"hard"` voting: `"split"` the probability evenly (the default: honest about not knowing), take the
        `"lowest"` class, or one at `"random"`. `labels()` of soft or split probabilities names the first class.
    random_state
        Seed for random ties.

    Examples
    --------
    >>> a = Annotations.from_triplets([1, 1, 1], ["ann", "bob", "cy"], ["cat", "dog", "dog"])
    >>> MajorityVote().fit(a).result_.labels().tolist()
    ['dog']
    """

    name: ClassVar[str] = "majority-vote"

    def __init__(self, voting: Literal["soft", "hard"] = "soft", ties: Ties = "split", random_state: int = 0) -> None:
        self.voting = voting
        self.ties = ties
        self.random_state = random_state

    def _aggregate(self, annotations: Annotations) -> FitResult:
        if self.voting not in ("soft", "hard"):
            raise InvalidParameterError(f'voting must be "soft" or "hard", not {self.voting!r}.')
        if self.ties not in TIES:
            raise InvalidParameterError(f"ties must be one of {', '.join(TIES)}, not {self.ties!r}.")
        totals = vote_totals(annotations)
        uniform = np.full(annotations.n_classes, 1 / annotations.n_classes)
        shares = vote_shares(totals, uniform)
        labelled = totals.sum(axis=1) > 0  # annotations of weight 0 say nothing
        prior = shares[labelled].mean(axis=0) if labelled.any() else uniform
        probabilities = np.where(labelled[:, None], shares, prior)
        if self.voting == "hard":
            probabilities = np.where(labelled[:, None], decide(totals, self.ties, self.random_state), prior)
        confusions = confusions_against(annotations, probabilities)
        return self._build_result(
            annotations,
            probabilities,
            confusions=confusions,
            class_prior=prior,
            seed=self.random_state,
            warnings=(NO_MATRICES,) if confusions is None else (),
        )

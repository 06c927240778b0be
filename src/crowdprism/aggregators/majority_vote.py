"""Votes: the label that most annotators gave, and a vote in which annotators count by how often they agree with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import NO_ROOM, IncrementalAggregator, with_gold_classes
from crowdprism.aggregators.copies import Dependence, count_once
from crowdprism.aggregators.out_of_core import OutOfCore
from crowdprism.annotations import Annotations
from crowdprism.parameters import Allowed, OneOf
from crowdprism.progress import progress
from crowdprism.results import FitResult
from crowdprism.results.confusion import confusion_counts, confusions_fit, normalize_rows
from crowdprism.seeding import stream

Ties = Literal["lowest", "random", "split"]
NO_MATRICES = "Full confusion matrices would not fit in memory."
HALVE_STEP_EVERY = 20  # as in the zero-based skill method, so that annotators on the edge settle
TIE_DIGITS = 12  # weighted sums are added in different orders; equal to this many digits is a tie


def vote_totals(annotations: Annotations, weight: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Sum of weights per item and label: (n_items, n_classes). `weight` is per annotation, else the stored one."""
    if weight is None:
        weight = annotations.weight
    place = annotations.item.astype(np.int64) * annotations.n_classes + annotations.label
    totals = np.bincount(place, weights=weight, minlength=annotations.n_items * annotations.n_classes)
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


def mean_over_labelled(probabilities: NDArray[Any], labelled: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Mean class probabilities of the items of a mask; uniform where there are none: (n_classes,)."""
    n_classes = probabilities.shape[1]
    return probabilities[labelled].mean(axis=0) if labelled.any() else np.full(n_classes, 1 / n_classes)


def confusions_against(annotations: Annotations, class_probabilities: NDArray[Any]) -> NDArray[np.float64] | None:
    """Each annotator's confusions against class probabilities, or None where they would not fit in memory."""
    if not confusions_fit(annotations.n_annotators, annotations.n_classes):
        return None
    return np.asarray(normalize_rows(confusion_counts(annotations, class_probabilities)), dtype=np.float64)


@dataclass(eq=False, repr=False)
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
    dependence
        `"auto"` gives one vote to annotators who answer as one voice, as `DawidSkene` does; None gives each a vote;
        groups of names are the voices.

    Examples
    --------
    >>> a = Annotations.from_triplets([1, 1, 1], ["ann", "bob", "cy"], ["cat", "dog", "dog"])
    >>> MajorityVote().fit(a).result_.labels().tolist()
    ['dog']
    """

    name: ClassVar[str] = "majority-vote"
    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "voting": OneOf("soft", "hard"),
        "ties": OneOf("lowest", "random", "split"),
    }

    voting: Literal["soft", "hard"] = "soft"
    ties: Ties = "split"
    random_state: int = 0
    dependence: Dependence = "auto"

    def _aggregate(self, annotations: Annotations) -> FitResult:
        return count_once(annotations, self.dependence, self._vote)

    def _vote(self, annotations: Annotations) -> FitResult:
        if isinstance(annotations, OutOfCore):
            return self._build_result(annotations, **annotations.vote(self))
        totals = vote_totals(annotations)
        shares = vote_shares(totals, np.full(annotations.n_classes, 1 / annotations.n_classes))
        labelled = totals.sum(axis=1) > 0  # annotations of weight 0 say nothing
        prior = mean_over_labelled(with_gold_classes(shares, annotations), labelled)
        answers = decide(totals, self.ties, self.random_state) if self.voting == "hard" else shares
        probabilities = with_gold_classes(np.where(labelled[:, None], answers, prior), annotations)
        confusions = confusions_against(annotations, probabilities)
        return self._build_result(
            annotations,
            probabilities,
            confusions=confusions,
            class_prior=prior,
            seed=self.random_state,
            warnings=(NO_MATRICES,) if confusions is None else (),
        )


@dataclass(eq=False, repr=False)
class WeightedVote(IncrementalAggregator):
    """Vote in which annotators count by their agreement with the vote itself: once (Wawa) or repeatedly.

    The skill of an annotator is the share of labels that agree with the current answer.

    Parameters
    ----------
    iterations, tolerance
        1 iteration (the default) is Wawa: skills against the majority vote, then one weighted vote. More repeat the two
        steps, with a step size that halves every 20 rounds (the zero-based skill method has 100), until no skill moves
        by more than `tolerance`.
    ties
        The answer where several classes have as many votes: `"split"` counts each by an equal part, so that nothing
        depends on the order of rows or classes; `"lowest"` takes the class that comes first, as crowd-kit does.
    dependence
        Who is counted once, as in `MajorityVote`.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, -1, 0]])
    >>> result = WeightedVote().fit(a).result_
    >>> result.labels().tolist(), result.skills.round(2).tolist()
    ([0, 1, 0, 1], [0.88, 1.0, 0.38])
    """

    name: ClassVar[str] = "weighted-vote"
    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "ties": OneOf("split", "lowest"),
    }

    iterations: int = 1
    tolerance: float = 1e-6
    ties: Literal["split", "lowest"] = "split"
    dependence: Dependence = "auto"

    def _aggregate(self, annotations: Annotations) -> FitResult:
        return count_once(annotations, self.dependence, self._vote)

    def _vote(self, annotations: Annotations) -> FitResult:
        if isinstance(annotations, OutOfCore):
            return self._build_result(annotations, **annotations.vote(self))
        skills = np.ones(annotations.n_annotators)
        step, changes = 1.0, []
        with progress("weighted vote", total=self.iterations) as bar:
            for iteration in range(1, self.iterations + 1):
                if iteration % HALVE_STEP_EVERY == 0:
                    step /= 2
                answers = with_gold_classes(decide(skill_votes(annotations, skills), self.ties), annotations)
                change = step * (agreement_with(annotations, answers) - skills)
                skills = skills + change
                changes.append(float(np.abs(change).max(initial=0.0)))
                bar.advance(note=f"change {changes[-1]:.1e}")
                if changes[-1] <= self.tolerance:
                    break
        shares = vote_shares(
            skill_votes(annotations, skills), np.full(annotations.n_classes, 1 / annotations.n_classes)
        )
        shares = with_gold_classes(shares, annotations)
        labelled = vote_totals(annotations).sum(axis=1) > 0
        prior = mean_over_labelled(shares, labelled)
        probabilities = np.where(labelled[:, None], shares, prior)
        confusions = confusions_against(annotations, probabilities)
        return self._build_result(
            annotations,
            probabilities,
            confusions=confusions,
            skills=skills,
            class_prior=prior,
            history={"largest_skill_change": changes},
            warnings=(NO_ROOM,) if confusions is None else (),
        )


def agreement_with(annotations: Annotations, answers: NDArray[Any]) -> NDArray[np.float64]:
    """(n_annotators,) mean probability of their labels by `answers` (n_items, n_classes); chance without labels."""
    agreed = answers[annotations.item, annotations.label]
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
    total = np.bincount(annotations.annotator, weights=weight, minlength=annotations.n_annotators)
    right = np.bincount(annotations.annotator, weights=weight * agreed, minlength=annotations.n_annotators)
    return np.where(total > 0, right / np.where(total > 0, total, 1.0), 1 / annotations.n_classes)


def skill_votes(annotations: Annotations, skills: NDArray[Any]) -> NDArray[np.float64]:
    """(n_items, n_classes) votes in which each annotation counts its weight times its annotator's skill."""
    own = 1.0 if annotations.weight is None else annotations.weight
    return np.round(vote_totals(annotations, own * skills[annotations.annotator]), TIE_DIGITS)

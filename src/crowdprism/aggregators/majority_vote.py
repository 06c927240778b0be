"""Votes: the label that most annotators gave, and a vote in which annotators count by how often they agree with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import NO_ROOM, IncrementalAggregator, with_gold_classes
from crowdprism.aggregators.blocks import Block
from crowdprism.aggregators.copies import Dependence, count_once
from crowdprism.aggregators.em import Expectation, FloatArray
from crowdprism.aggregators.expectation import AnnotationPass, ConfusionPass, VotePass
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


def vote_totals(annotations: Annotations, weight: NDArray[Any] | None = None) -> FloatArray:
    """Sum of weights per item and label: (n_items, n_classes). `weight` is per annotation, else the stored one."""
    weight = annotations.weight if weight is None else weight
    place = annotations.item.astype(np.int64) * annotations.n_classes + annotations.label
    totals = np.bincount(place, weights=weight, minlength=annotations.n_items * annotations.n_classes)
    return totals.astype(np.float64).reshape(annotations.n_items, annotations.n_classes)


def vote_shares(totals: NDArray[Any], prior: NDArray[Any]) -> FloatArray:
    """Votes divided by their sum; items without votes get the prior."""
    sums = totals.sum(axis=1, keepdims=True)
    return np.where(sums > 0, totals / np.where(sums > 0, sums, 1.0), prior)


def decide(totals: NDArray[Any], ties: Ties, seed: Any = 0, *, first: int = 0) -> FloatArray:
    """Turn votes into one-hot rows; where several classes share the maximum, by the stated rule.

    `"lowest"` takes the class that comes first, `"random"` one of them by the seed and the item's position (that of the
    first row is `first`), `"split"` gives each an equal share. None of the rules depends on the order of annotations.
    """
    winners = totals == totals.max(axis=1, keepdims=True)
    if ties == "split":
        return np.asarray(winners / winners.sum(axis=1, keepdims=True))
    if ties == "random":
        draws = stream(seed, "ties")
        draws.bit_generator.advance(first * totals.shape[1])  # type: ignore[attr-defined]
        chosen = np.argmax(winners * (1.0 + draws.random(winners.shape)), axis=1)
    else:
        chosen = np.argmax(winners, axis=1)
    return np.asarray(np.eye(totals.shape[1])[chosen])


def mean_of_labelled(probabilities: FloatArray, labelled: NDArray[np.bool_]) -> FloatArray:
    """(n_classes,) mean class probabilities of the items of a mask; uniform where there are none."""
    n_classes = probabilities.shape[1]
    return probabilities[labelled].mean(axis=0) if labelled.any() else np.full(n_classes, 1 / n_classes)


def by_votes(annotations: Annotations, decoded: FloatArray, labelled: NDArray[np.bool_]) -> dict[str, Any]:
    """Parts of a result that decides each item; items that are not `labelled` get the mean of the others."""
    decoded = with_gold_classes(decoded, annotations)
    prior = mean_of_labelled(decoded, labelled)
    probabilities, confusions = np.where(labelled[:, None], decoded, prior), None
    if confusions_fit(annotations.n_annotators, annotations.n_classes):
        confusions = np.asarray(normalize_rows(confusion_counts(annotations, probabilities)), dtype=np.float64)
    parts = {"class_probabilities": probabilities, "class_prior": prior, "confusions": confusions}
    return {**parts, "warnings": (NO_ROOM,) if confusions is None else ()}


def counting_pass(annotations: Annotations) -> AnnotationPass:
    """Passes with counts of confusions where these fit in memory, else by annotator."""
    fits = confusions_fit(annotations.n_annotators, annotations.n_classes)
    return ConfusionPass(annotations) if fits else VotePass(annotations)


def counted(evidence: AnnotationPass, final: Expectation) -> dict[str, Any]:
    """The parts of a result that the last pass of a vote gives."""
    parts: dict[str, Any] = {"class_probabilities": final.kept, "confusions": None}
    if isinstance(evidence, ConfusionPass):
        parts["confusions"] = np.asarray(normalize_rows(evidence.cells.dense(final.counts)), dtype=np.float64)
    return parts


def answers(
    skills: FloatArray | None,  # (n_annotators,) or None where every annotator counts the same
    ties: Ties | None,  # rule of `decide` for one class per item, or None for shares of votes
    prior: FloatArray | None,  # (n_classes,) of items without votes
    block: Block,
    first: int,
    last: int,
    *,
    seed: Any = 0,
) -> FloatArray:
    """(items, n_classes) what annotators say of items, each counting by their skill."""
    votes = block.votes(first, last, skills)
    votes = votes if skills is None else np.round(votes, TIE_DIGITS)
    found = normalize_rows(votes) if ties is None else decide(votes, ties, seed, first=block.place + first)
    if prior is not None:
        found = np.where(block.annotated(first, last)[:, None], found, prior)
    return block.with_gold(found, first, last)


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
        evidence = counting_pass(annotations)
        prior = evidence.count_votes().class_shares()
        rule = self.ties if self.voting == "hard" else None
        final = evidence.count_rows(partial(answers, None, rule, prior, seed=self.random_state), keep=True)
        parts = counted(evidence, final)
        notes = (NO_MATRICES,) if parts["confusions"] is None else ()
        return self._build_result(annotations, class_prior=prior, seed=self.random_state, warnings=notes, **parts)


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
    >>> result = WeightedVote().fit([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, -1, 0]]).result_
    >>> result.labels().tolist(), result.skills.round(2).tolist()
    ([0, 1, 0, 1], [0.88, 1.0, 0.38])
    """

    name: ClassVar[str] = "weighted-vote"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"ties": OneOf("split", "lowest")}
    iterations: int = 1
    tolerance: float = 1e-6
    ties: Literal["split", "lowest"] = "split"
    dependence: Dependence = "auto"

    def _aggregate(self, annotations: Annotations) -> FitResult:
        return count_once(annotations, self.dependence, self._vote)

    def _vote(self, annotations: Annotations) -> FitResult:
        by_annotator, uniform = VotePass(annotations), np.full(annotations.n_classes, 1 / annotations.n_classes)
        total = by_annotator.total
        skills, step, changes = np.ones(annotations.n_annotators), 1.0, []
        with progress("weighted vote", total=self.iterations) as bar:
            for iteration in range(1, self.iterations + 1):
                if iteration % HALVE_STEP_EVERY == 0:
                    step /= 2
                right = by_annotator.count_rows(partial(answers, skills, self.ties, None)).counts
                change = step * (np.where(total > 0, right / np.where(total > 0, total, 1.0), uniform[0]) - skills)
                skills = skills + change
                changes.append(float(np.abs(change).max(initial=0.0)))
                bar.advance(note=f"change {changes[-1]:.1e}")
                if changes[-1] <= self.tolerance:
                    break
        evidence = counting_pass(annotations)
        prior = evidence.count_rows(partial(answers, skills, None, uniform)).class_shares()
        parts = counted(evidence, evidence.count_rows(partial(answers, skills, None, prior), keep=True))
        return self._build_result(
            annotations,
            skills=skills,
            class_prior=prior,
            history={"largest_skill_change": changes},
            warnings=(NO_ROOM,) if parts["confusions"] is None else (),
            **parts,
        )

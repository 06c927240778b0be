"""Weighted vote: annotators count by how often they agree with the answer; one pass (Wawa) or repeated."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import IncrementalAggregator
from crowdprism.aggregators.majority_vote import decide, vote_shares, vote_totals
from crowdprism.aggregators.vote_confusions import NO_ROOM, confusions_against
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.progress import progress
from crowdprism.results import FitResult

HALVE_STEP_EVERY = 20  # as in the zero-based skill method, so that annotators on the edge settle
TIE_DIGITS = 12  # weighted sums are added in different orders; equal to this many digits is a tie


def agreement_with(annotations: Annotations, answers: NDArray[Any], unknown: float) -> NDArray[np.float64]:
    """Mean probability that `answers` (n_items, n_classes) gives to each annotator's labels: (n_annotators,).

    Annotators without annotations get `unknown`.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 1], [1, 1]])
    >>> agreement_with(a, np.array([[1.0, 0.0], [0.0, 1.0]]), 0.5).tolist()
    [1.0, 0.5]
    """
    agreed = answers[annotations.item, annotations.label]
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
    total = np.bincount(annotations.annotator, weights=weight, minlength=annotations.n_annotators)
    right = np.bincount(annotations.annotator, weights=weight * agreed, minlength=annotations.n_annotators)
    return np.where(total > 0, right / np.where(total > 0, total, 1.0), unknown)


def skill_votes(annotations: Annotations, skills: NDArray[Any]) -> NDArray[np.float64]:
    """Votes in which each annotation counts its weight times its annotator's skill: (n_items, n_classes).

    Whoever gave the winning label of some item has a skill above zero, so no annotated item is left without votes.
    """
    own = 1.0 if annotations.weight is None else annotations.weight
    return np.round(vote_totals(annotations, own * skills[annotations.annotator]), TIE_DIGITS)


class WeightedVote(IncrementalAggregator):
    """Vote in which annotators count by their agreement with the vote itself: once (Wawa) or repeatedly.

    The skill of an annotator is the share of labels that agree with the current answer.

    Parameters
    ----------
    iterations
        1 (the default) is Wawa: skills against the majority vote, then one weighted vote. More repeats the two
        steps, with a step size that halves every 20 rounds (the zero-based skill method has 100), until no
        skill moves by more than `tolerance`.
    tolerance
        Largest change of a skill at which repetition stops.
    ties
        The answer where several classes have as many votes: `"split"` counts each by an equal part, so that nothing
        depends on the order of rows or classes; `"lowest"` takes the class that comes first, as crowd-kit does.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, -1, 0]])
    >>> result = WeightedVote().fit(a).result_
    >>> result.labels().tolist(), result.skills.round(2).tolist()
    ([0, 1, 0, 1], [0.88, 1.0, 0.38])
    """

    name: ClassVar[str] = "weighted-vote"

    def __init__(
        self, iterations: int = 1, tolerance: float = 1e-6, ties: Literal["split", "lowest"] = "split"
    ) -> None:
        self.iterations = iterations
        self.tolerance = tolerance
        self.ties = ties

    def _aggregate(self, annotations: Annotations) -> FitResult:
        if self.iterations < 1:
            raise InvalidParameterError(f"iterations must be at least 1, not {self.iterations}.")
        if self.ties not in ("split", "lowest"):
            raise InvalidParameterError(f'ties must be "split" or "lowest", not {self.ties!r}.')
        unknown = 1 / annotations.n_classes
        skills = np.ones(annotations.n_annotators)
        step, changes = 1.0, []
        with progress("weighted vote", total=self.iterations) as bar:
            for iteration in range(1, self.iterations + 1):
                if iteration % HALVE_STEP_EVERY == 0:
                    step /= 2
                answers = decide(skill_votes(annotations, skills), self.ties)
                change = step * (agreement_with(annotations, answers, unknown) - skills)
                skills = skills + change
                changes.append(float(np.abs(change).max(initial=0.0)))
                bar.advance(note=f"change {changes[-1]:.1e}")
                if changes[-1] <= self.tolerance:
                    break
        return self._voted(annotations, skills, changes)

    def _voted(self, annotations: Annotations, skills: NDArray[Any], changes: list[float]) -> FitResult:
        uniform = np.full(annotations.n_classes, 1 / annotations.n_classes)
        labelled = vote_totals(annotations).sum(axis=1) > 0
        shares = vote_shares(skill_votes(annotations, skills), uniform)
        prior = shares[labelled].mean(axis=0) if labelled.any() else uniform
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

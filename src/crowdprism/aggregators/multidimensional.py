"""The multidimensional wisdom of crowds: items have several qualities, and annotators look at them in their own way.

Welinder, Branson, Belongie and Perona, NIPS 2010. An item is a point around -1 (class no) or +1 (yes) on the first axis
and around 0 on the others. An annotator has a direction and a threshold, and says yes with probability
Phi(<direction, point> - threshold). Reliable annotators have long directions; those who look along other axes form
schools of thought. More than two classes are solved one against the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.em import TOLERANCE, FloatArray
from crowdprism.aggregators.kos import two_class_problems, weights_of
from crowdprism.aggregators.majority_vote import by_votes
from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.parameters import Allowed, Real, Whole
from crowdprism.progress import progress
from crowdprism.results import FitResult
from crowdprism.results.confusion import normalize_rows
from crowdprism.seeding import stream


def least_squares(
    group: NDArray[Any],  # (n_rows,)
    rows: FloatArray,  # (n_rows, n_columns)
    target: FloatArray,  # (n_rows,)
    weight: FloatArray,  # (n_rows,)
    center: FloatArray,  # (n_groups, n_columns) where the solution lies without rows
    *,
    pull: float,  # weight of the center
) -> FloatArray:
    """Solve a small ridge regression for each group: (n_groups, n_columns)."""
    n_groups, n_columns = center.shape
    gram = np.empty((n_groups, n_columns, n_columns))
    right = np.empty((n_groups, n_columns))
    for one in range(n_columns):
        weighted = weight * rows[:, one]
        right[:, one] = np.bincount(group, weights=weighted * target, minlength=n_groups)
        for other in range(one + 1):
            gram[:, one, other] = np.bincount(group, weights=weighted * rows[:, other], minlength=n_groups)
            gram[:, other, one] = gram[:, one, other]
    gram += pull * np.eye(n_columns)
    return np.asarray(np.linalg.solve(gram, (right + pull * center)[..., None])[..., 0])


@dataclass(frozen=True)
class Views:
    """Points of items, directions and thresholds of annotators, of one two-class problem."""

    point: FloatArray  # (n_items, n_dimensions)
    direction: FloatArray  # (n_annotators, n_dimensions)
    threshold: FloatArray  # (n_annotators,)


@dataclass(frozen=True)
class SignedLabels:
    """The labels of one two-class problem."""

    item: NDArray[Any]
    annotator: NDArray[Any]
    sign: FloatArray  # (n_annotations,) 1 for yes, -1 for no
    weight: FloatArray  # (n_annotations,)
    known: FloatArray  # (n_items,) 1 or -1 where gold says so, else 0
    half_odds: float  # half the log odds of yes before anything is seen
    spread: float  # of items of one class around their center

    def clearance(self, views: Views) -> FloatArray:
        """(n_annotations,) by how much the annotator sees the item above the threshold."""
        seen = (views.direction[self.annotator] * views.point[self.item]).sum(axis=1)
        return np.asarray(seen - views.threshold[self.annotator])

    def leaning(self, views: Views) -> FloatArray:
        """(n_items,) half the log odds of yes given the point."""
        return np.asarray(views.point[:, 0] / self.spread**2 + self.half_odds)

    def objective(self, views: Views) -> float:
        """Log posterior density of the views, up to a constant; an iteration never lowers it."""
        from scipy.special import log_ndtr

        fit = (self.weight * log_ndtr(self.sign * self.clearance(views))).sum()
        lean = self.leaning(views)
        toward = np.where(self.known != 0, self.known * lean, np.logaddexp(lean, -lean)).sum()
        points = np.square(views.point).sum() / (2 * self.spread**2)
        people = np.square(views.direction - axis(views.direction.shape)).sum() + np.square(views.threshold).sum()
        return float(fit + toward - points - people / 2)

    def improve(self, views: Views) -> Views:
        """One round of EM over the classes and over what annotators perceived: first items, then annotators."""
        center = np.zeros_like(views.point)
        center[:, 0] = np.where(self.known != 0, self.known, np.tanh(self.leaning(views)))
        direction, threshold = views.direction[self.annotator], views.threshold[self.annotator]
        above = self.perceived(views) + threshold
        point = least_squares(self.item, direction, above, self.weight, center, pull=self.spread**-2)
        perceived = self.perceived(Views(point, views.direction, views.threshold))
        rows = np.concatenate([point[self.item], -np.ones((len(self.item), 1))], axis=1)
        usual = axis((len(views.threshold), rows.shape[1]))
        people = least_squares(self.annotator, rows, perceived, self.weight, usual, pull=1.0)
        return Views(point, people[:, :-1], people[:, -1])

    def perceived(self, views: Views) -> FloatArray:
        """(n_annotations,) mean of the noisy clearance that each annotator had, given what they answered."""
        from scipy.special import log_ndtr

        clearance = self.clearance(views)
        log_density = -np.square(clearance) / 2 - np.log(2 * np.pi) / 2
        return np.asarray(clearance + self.sign * np.exp(log_density - log_ndtr(self.sign * clearance)))


def axis(shape: tuple[int, ...]) -> FloatArray:
    """Rows that point along the first axis."""
    rows = np.zeros(shape)
    rows[:, 0] = 1.0
    return rows


@dataclass(eq=False, repr=False)
class MultidimensionalCrowd(Aggregator):
    """Place items in a space of a few dimensions in which every annotator has a direction and a threshold.

    For two classes and annotators who judge by different standards. Class probabilities are those of the item's most
    probable point; `result_.skills` has the length of each annotator's direction along the class axis.

    Parameters
    ----------
    n_dimensions
        Of the space; 1 leaves a skill and a threshold per annotator.
    spread
        Standard deviation of items of one class around their center; the paper has 0.8.
    max_iter, tolerance
        The climb ends after `max_iter` rounds, or when the objective gains less than `tolerance` per annotation.
    random_state
        Seed of the items' first places on the further axes.

    Examples
    --------
    >>> result = MultidimensionalCrowd().fit([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]]).result_
    >>> result.labels().tolist(), bool(result.skills[0] > result.skills[2])
    ([0, 1, 0, 1, 0], True)
    """

    name: ClassVar[str] = "multidimensional"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"n_dimensions": Whole(1), "spread": Real(0, above=True)}
    n_dimensions: int = 2
    spread: float = 0.8
    max_iter: int = 50
    tolerance: float = TOLERANCE
    random_state: int = 0

    def _aggregate(self, annotations: Annotations) -> FitResult:
        from scipy.special import expit

        weight = weights_of(annotations)
        yes, skills, history = [], [], []
        problems = two_class_problems(annotations, "nominal")
        with progress("multidimensional crowd", total=len(problems)) as bar:
            for place, sign in enumerate(problems):
                labels = self._labels(annotations, sign, weight, chosen=place if len(problems) > 1 else 1)
                views, objective = self._climb(labels, annotations)
                yes.append(expit(2 * labels.leaning(views)))
                skills.append(views.direction[:, 0])
                history.extend(objective)
                bar.advance()
        columns = np.stack(yes, axis=1) if len(yes) > 1 else np.stack([1 - yes[0], yes[0]], axis=1)
        labelled = np.bincount(annotations.item, weights=weight, minlength=annotations.n_items) > 0
        return self._build_result(
            annotations,
            skills=np.mean(skills, axis=0),
            history={"objective": history},
            seed=self.random_state,
            **by_votes(annotations, normalize_rows(columns), labelled),
        )

    def _labels(self, annotations: Annotations, sign: Any, weight: FloatArray, *, chosen: int) -> SignedLabels:
        gold, known = known_classes(annotations), np.zeros(annotations.n_items)
        if gold is not None:
            known[gold >= 0] = np.where(gold == chosen, 1.0, -1.0)[gold >= 0]
        # One pseudo-label each way, so that the odds of a class that nobody chose stay finite.
        said_yes, said_no = ((weight * (sign == side)).sum() + 1 for side in (1, -1))
        half_odds = float(np.log(said_yes / said_no) / 2)
        return SignedLabels(annotations.item, annotations.annotator, sign, weight, known, half_odds, self.spread)

    def _climb(self, labels: SignedLabels, annotations: Annotations) -> tuple[Views, list[float]]:
        n_items, n_annotators = annotations.n_items, annotations.n_annotators
        start = stream(self.random_state, "points of items").normal(0, self.spread, (n_items, self.n_dimensions))
        votes = np.bincount(labels.item, weights=labels.weight, minlength=n_items)
        vote = np.bincount(labels.item, weights=labels.weight * labels.sign, minlength=n_items)
        start[:, 0] = vote / np.where(votes > 0, votes, 1.0)
        views = Views(start, axis((n_annotators, self.n_dimensions)), np.zeros(n_annotators))
        objective = [labels.objective(views)]
        for _ in range(self.max_iter):
            views = labels.improve(views)
            objective.append(labels.objective(views))
            if objective[-1] - objective[-2] < self.tolerance * max(labels.weight.sum(), 1.0):
                break
        return views, objective[1:]

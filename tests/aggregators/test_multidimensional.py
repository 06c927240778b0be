"""The multidimensional wisdom of crowds: its climb, its stationary points, and crowds with schools of thought."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from crowdprism.aggregators import MajorityVote, MultidimensionalCrowd
from crowdprism.aggregators.multidimensional import SignedLabels, Views, axis, least_squares
from crowdprism.annotations import Annotations


def small_problem(seed: int = 0, known: float = 0.0) -> tuple[SignedLabels, Views]:
    rng = np.random.default_rng(seed)
    item, annotator = (side.ravel() for side in np.indices((12, 4)))
    sign = rng.choice([-1.0, 1.0], size=48)
    gold = np.where(np.arange(12) < 3, known, 0.0)
    labels = SignedLabels(item, annotator, sign, rng.uniform(0.5, 2, 48), gold, 0.2, 0.8)
    return labels, Views(rng.normal(size=(12, 2)), axis((4, 2)), np.zeros(4))


def test_small_regressions_equal_those_of_linear_algebra() -> None:
    rng = np.random.default_rng(0)
    rows, target, weight = rng.normal(size=(30, 2)), rng.normal(size=30), rng.uniform(1, 2, 30)
    group, center = rng.integers(3, size=30), rng.normal(size=(3, 2))
    found = least_squares(group, rows, target, weight, center, pull=0.7)
    for place in range(3):
        x, y, w = rows[group == place], target[group == place], weight[group == place]
        left = x.T @ (w[:, None] * x) + 0.7 * np.eye(2)
        assert found[place] == pytest.approx(np.linalg.solve(left, x.T @ (w * y) + 0.7 * center[place]))


@pytest.mark.parametrize("known", [0.0, -1.0])
def test_the_objective_never_falls_and_ends_where_no_small_step_helps(known: float) -> None:
    labels, views = small_problem(known=known)
    reached = [labels.objective(views)]
    for _ in range(400):
        views = labels.improve(views)
        reached.append(labels.objective(views))
    assert (np.diff(reached) >= -1e-9).all()
    for part in ("point", "direction", "threshold"):
        values = getattr(views, part)
        for place in np.ndindex(values.shape):
            step = np.zeros_like(values)
            step[place] = 1e-4
            up, down = (labels.objective(replace(views, **{part: values + side * step})) for side in (1, -1))
            assert abs(up - down) / 2e-4 < 1e-2


def test_schools_of_thought_are_told_apart() -> None:
    # Three annotators judge by the class, two by something else that the labels of the first do not show.
    rng = np.random.default_rng(3)
    truth, other = rng.choice([-1.0, 1.0], size=(2, 300))
    clear = np.stack([truth, truth, truth, other, other], axis=1) * 1.3
    yes = rng.random(clear.shape) < norm.cdf(clear)
    a = Annotations.from_dense(yes.astype(int))
    result = MultidimensionalCrowd().fit(a).result_
    accuracy = float((result.labels() == (truth > 0)).mean())
    votes = float((MajorityVote().fit(a).result_.labels() == (truth > 0)).mean())
    assert accuracy > votes + 0.03
    assert result.skills[:3].min() > result.skills[3:].max() + 0.3


def test_an_annotator_with_a_high_threshold_is_not_taken_for_a_spammer() -> None:
    rng = np.random.default_rng(4)
    truth = np.tile([-1.0, 1.0], 150)
    threshold = np.array([0.0, 0.0, 0.0, 1.5])
    yes = rng.random((300, 4)) < norm.cdf(1.5 * truth[:, None] - threshold)
    result = MultidimensionalCrowd(n_dimensions=1).fit(Annotations.from_dense(yes.astype(int))).result_
    assert result.skills[3] > 0.6 * result.skills[:3].min()

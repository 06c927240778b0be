"""GLAD ends at a maximum of its objective."""

from __future__ import annotations

import math

import numpy as np
import pytest
from small_crowds import N_CLASSES, posterior, rows_of

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations


def glad_objective(annotations: Annotations, ability: np.ndarray, log_ease: np.ndarray) -> float:
    """Log likelihood plus log priors, item by item."""
    value = -0.5 * float(((ability - 1) ** 2).sum() + ((log_ease - 1) ** 2).sum())
    for i in range(annotations.n_items):
        scores = [-math.log(N_CLASSES)] * N_CLASSES
        for i2, m, c, w in rows_of(annotations):
            if i2 == i:
                right = 1 / (1 + math.exp(-ability[m] * math.exp(log_ease[i])))
                for k in range(N_CLASSES):
                    scores[k] += w * math.log(right if c == k else (1 - right) / (N_CLASSES - 1))
        value += posterior(scores)[1]
    return value


def test_glad_ends_where_finite_differences_of_its_objective_vanish(annotations: Annotations) -> None:
    model = make_aggregator("glad", max_iter=3000, tolerance=1e-13, n_sweeps=5).fit(annotations)
    ability, log_ease = model.result_.skills, -np.log(model.difficulty_)
    top = glad_objective(annotations, ability, log_ease)
    assert model.result_.history["objective"][-1] == pytest.approx(top, rel=1e-9)
    for array in (ability, log_ease):
        for position in range(0, len(array), 5):
            array = array.copy()
            slopes = []
            for step in (1e-4, -1e-4):
                moved = array.copy()
                moved[position] += step
                point = (moved, log_ease) if len(array) == len(ability) else (ability, moved)
                slopes.append(glad_objective(annotations, *point))
            assert abs(slopes[0] - slopes[1]) / 2e-4 < 2e-3

"""GLAD ends at a maximum of its objective."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations

N_ITEMS, N_ANNOTATORS, N_CLASSES = 30, 6, 3


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def annotations(request: pytest.FixtureRequest) -> Annotations:
    rng = np.random.default_rng(3)
    item, annotator = np.repeat(np.arange(N_ITEMS), 4), rng.integers(0, N_ANNOTATORS, 4 * N_ITEMS)
    truth = rng.integers(0, N_CLASSES, N_ITEMS)
    label = np.where(rng.random(len(item)) < 0.65, truth[item], rng.integers(0, N_CLASSES, len(item)))
    weight = rng.uniform(0.2, 2.0, len(item)) if request.param else None
    names = {"classes": range(N_CLASSES), "item_names": range(N_ITEMS + 1), "annotator_names": range(N_ANNOTATORS + 1)}
    return Annotations.from_triplets(item, annotator, label, weight=weight, **names)


def rows_of(annotations: Annotations) -> list[tuple[int, int, int, float]]:
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
    columns = (annotations.item, annotations.annotator, annotations.label, weight)
    return [(int(i), int(m), int(c), float(w)) for i, m, c, w in zip(*columns, strict=True)]


def posterior(scores: list[float]) -> tuple[list[float], float]:
    top = max(scores)
    total = sum(math.exp(score - top) for score in scores)
    return [math.exp(score - top) / total for score in scores], top + math.log(total)


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

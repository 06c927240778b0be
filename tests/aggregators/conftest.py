"""A crowd of thirty items, with and without weights."""

from __future__ import annotations

import numpy as np
import pytest
from small_crowds import N_ANNOTATORS, N_CLASSES, N_ITEMS

from crowdprism.annotations import Annotations


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def annotations(request: pytest.FixtureRequest) -> Annotations:
    rng = np.random.default_rng(3)
    item, annotator = np.repeat(np.arange(N_ITEMS), 4), rng.integers(0, N_ANNOTATORS, 4 * N_ITEMS)
    truth = rng.integers(0, N_CLASSES, N_ITEMS)
    label = np.where(rng.random(len(item)) < 0.65, truth[item], rng.integers(0, N_CLASSES, len(item)))
    weight = rng.uniform(0.2, 2.0, len(item)) if request.param else None
    names = {"classes": range(N_CLASSES), "item_names": range(N_ITEMS + 1), "annotator_names": range(N_ANNOTATORS + 1)}
    return Annotations.from_triplets(item, annotator, label, weight=weight, **names)

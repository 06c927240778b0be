"""The objective of every EM method rises or stays, whatever the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.results import FitResult

FULL_LENGTH = {"max_iter": 12, "tolerance": 0.0}
METHODS = [
    ("dawid-skene", {"prior_strength": 0.0}),
    ("dawid-skene", {"prior_strength": 4.0}),
    ("dawid-skene", {"prior_strength": 0.3, "class_prior": "uniform"}),
    ("fast-dawid-skene", {"prior_strength": 0.0}),
    ("fast-dawid-skene", {"prior_strength": 2.0}),
    ("one-coin", {"prior_strength": 0.0, "class_prior": "estimate"}),
    ("one-coin", {}),
    ("zencrowd", {}),
    ("glad", {}),
    ("mace", {"n_restarts": 2}),
    ("mace", {"n_restarts": 2, "inference": "em"}),
    ("ibcc", {}),
    ("ebcc", {"n_subtypes": 3, "n_restarts": 2}),
]


@st.composite
def crowds(draw: st.DrawFn) -> Annotations:
    """Small crowds of every kind: repeats, weights of 0, items, annotators and classes without annotations."""
    n_items, n_annotators, n_classes = draw(st.tuples(st.integers(1, 8), st.integers(1, 5), st.integers(2, 4)))
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, n_items - 1),
                st.integers(0, n_annotators - 1),
                st.integers(0, n_classes - 1),
                st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.0]),
            ),
            min_size=1,
            max_size=40,
        )
    )
    item, annotator, label, weight = map(list, zip(*rows, strict=True))
    return Annotations.from_triplets(
        item,
        annotator,
        label,
        weight=weight if draw(st.booleans()) else None,
        classes=range(n_classes),
        item_names=range(n_items),
        annotator_names=range(n_annotators),
    )


def require_sound(result: FitResult) -> None:
    for array in (result.class_probabilities, result.confusions, result.class_prior, result.skills):
        if array is not None:
            assert np.isfinite(array).all()
    np.testing.assert_allclose(result.class_probabilities.sum(axis=1), 1.0, atol=1e-9)
    if result.confusions is not None:
        np.testing.assert_allclose(result.confusions.sum(axis=2), 1.0, atol=1e-9)


@pytest.mark.parametrize(("name", "params"), METHODS, ids=lambda value: str(value))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(annotations=crowds())
def test_the_objective_never_decreases_and_nothing_is_nan(name: str, params: dict, annotations: Annotations) -> None:
    result = make_aggregator(name, **{**FULL_LENGTH, **params}).fit(annotations).result_
    objective = np.array(result.history["objective"])
    assert np.isfinite(objective).all()
    assert (np.diff(objective) >= -1e-9 * (1 + np.abs(objective[0]))).all()
    require_sound(result)


@settings(max_examples=40, deadline=None)
@given(annotations=crowds())
def test_hybrid_rises_within_each_of_its_two_stages(annotations: Annotations) -> None:
    history = make_aggregator("dawid-skene", e_step="hybrid", **FULL_LENGTH).fit(annotations).result_.history
    objective, stage = np.array(history["objective"]), np.array(history["stage"])
    for which in (0.0, 1.0):
        part = objective[stage == which]
        assert (np.diff(part) >= -1e-9 * (1 + np.abs(objective[0]))).all()

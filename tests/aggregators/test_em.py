"""What every EM method keeps: a rising objective, invariances, weights, extremes of size, partial fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_crowds import made, mixed_crowd, simulated

from crowdprism.aggregators import make_aggregator
from crowdprism.aggregators.em import Expectation, sum_groups
from crowdprism.aggregators.moments import refine_by_em
from crowdprism.annotations import Annotations
from crowdprism.errors import ConvergenceWarning, InvalidParameterError
from crowdprism.results import FitResult

EM_METHODS = ["dawid-skene", "fast-dawid-skene", "one-coin", "zencrowd", "glad", "mace", "ibcc", "ebcc"]
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


@pytest.mark.parametrize("name", ["dawid-skene", "ibcc"])
def test_known_confusions_are_recovered(name: str) -> None:
    confusions = mixed_crowd()
    crowd, truth = simulated(confusions, n_items=4000, labels=5)
    result = made(name).fit(crowd).result_
    assert np.abs(result.confusions - confusions).max() < 0.06
    assert np.mean(result.class_probabilities.argmax(axis=1) == truth) > 0.93


@pytest.mark.parametrize("name", ["one-coin", "mace"])
def test_known_skills_are_recovered(name: str) -> None:
    skill = np.linspace(0.4, 0.95, 8)
    confusions = np.repeat(((1 - skill) / 2)[:, None], 9, axis=1).reshape(8, 3, 3)
    confusions[:, np.arange(3), np.arange(3)] = skill[:, None]
    crowd, _ = simulated(confusions, n_items=4000, labels=5)
    result = made(name).fit(crowd).result_
    np.testing.assert_allclose(np.diagonal(result.confusions, axis1=1, axis2=2).mean(axis=1), skill, atol=0.04)


@pytest.mark.parametrize("name", EM_METHODS)
def test_order_of_rows_and_names_of_annotators_do_not_matter(name: str) -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=60)
    rng = np.random.default_rng(2)
    rows = rng.permutation(crowd.n_annotations)
    renamed = rng.permutation(crowd.n_annotators)
    other = Annotations.from_triplets(
        crowd.item[rows], renamed[crowd.annotator[rows]], crowd.label[rows], classes=range(crowd.n_classes)
    )
    params = {"n_restarts": 1} if name == "mace" else {}  # further starts draw per annotator
    first, second = (made(name, **params).fit(data).result_ for data in (crowd, other))
    np.testing.assert_allclose(first.class_probabilities, second.class_probabilities, atol=1e-6)
    if first.confusions is not None:
        np.testing.assert_allclose(first.confusions, second.confusions[renamed], atol=1e-6)


@pytest.mark.parametrize("name", EM_METHODS)
def test_names_of_classes_do_not_matter(name: str) -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=60)
    swap = np.array([2, 0, 1])
    other = Annotations.from_triplets(crowd.item, crowd.annotator, swap[crowd.label], classes=range(3))
    first, second = (made(name).fit(data).result_.class_probabilities for data in (crowd, other))
    np.testing.assert_allclose(first, second[:, swap], atol=1e-6)


@pytest.mark.parametrize("name", [*EM_METHODS, "majority-vote"])
def test_weight_two_is_the_annotation_twice_and_weight_zero_its_absence(name: str) -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=40)
    weight = np.random.default_rng(5).choice([0.0, 1.0, 2.0], crowd.n_annotations)
    names = {"item_names": range(41), "annotator_names": range(9), "classes": range(3)}
    weighted = Annotations.from_triplets(crowd.item, crowd.annotator, crowd.label, weight=weight, **names)
    times = weight.astype(int)
    repeated = Annotations.from_triplets(
        *(np.repeat(column, times) for column in (crowd.item, crowd.annotator, crowd.label)), **names
    )
    first, second = (made(name).fit(data).result_ for data in (weighted, repeated))
    np.testing.assert_allclose(first.class_probabilities, second.class_probabilities, atol=1e-6)


@pytest.mark.parametrize("name", EM_METHODS)
def test_items_without_annotations_get_the_class_prior(name: str) -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=50)
    more = Annotations.from_triplets(
        crowd.item, crowd.annotator, crowd.label, item_names=range(52), annotator_names=range(9), classes=range(4)
    )
    result = made(name).fit(more).result_
    np.testing.assert_allclose(result.class_probabilities[50:], [result.class_prior] * 2, atol=1e-9)


@pytest.mark.parametrize("name", EM_METHODS)
def test_ten_thousand_annotators_with_one_label_each(name: str) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 2000)
    item = np.repeat(np.arange(2000), 5)
    label = np.where(rng.random(10_000) < 0.8, truth[item], rng.integers(0, 3, 10_000))
    crowd = Annotations.from_triplets(item, np.arange(10_000), label)
    result = made(name, **({"n_restarts": 1} if name in ("ebcc", "mace") else {})).fit(crowd).result_
    votes = made("majority-vote").fit(crowd).result_.class_probabilities
    agreement = np.mean(result.class_probabilities.argmax(axis=1) == votes.argmax(axis=1))
    assert agreement > 0.97


@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "mace", "ibcc", "glad"])
def test_a_thousand_classes(name: str) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 1000, 1500)
    item = np.repeat(np.arange(1500), 3)
    label = np.where(rng.random(4500) < 0.9, truth[item], rng.integers(0, 1000, 4500))
    crowd = Annotations.from_triplets(item, np.tile(np.arange(3), 1500), label, classes=range(1000))
    result = made(name, max_iter=4, tolerance=0.0, **({"n_restarts": 1} if name == "mace" else {})).fit(crowd).result_
    assert np.mean(result.class_probabilities.argmax(axis=1) == truth) > 0.95


@pytest.mark.parametrize("name", EM_METHODS)
def test_one_annotator_is_believed(name: str) -> None:
    crowd = Annotations.from_triplets(range(6), ["ann"] * 6, [0, 1, 1, 0, 2, 2])
    assert made(name).fit(crowd).result_.labels().tolist() == [0, 1, 1, 0, 2, 2]


@pytest.mark.parametrize("name", EM_METHODS)
def test_a_class_nobody_uses_gets_no_item(name: str) -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=50)
    more = Annotations.from_triplets(crowd.item, crowd.annotator, crowd.label, classes=range(4))
    probabilities = made(name).fit(more).result_.class_probabilities
    assert np.isfinite(probabilities).all()
    assert not (probabilities.argmax(axis=1) == 3).any()


@pytest.mark.parametrize("name", EM_METHODS)
def test_disconnected_crowds_are_each_served(name: str) -> None:
    first, truth = simulated(mixed_crowd(), n_items=150, seed=0)
    second, more_truth = simulated(mixed_crowd(seed=4), n_items=150, seed=1)
    both = Annotations.from_triplets(
        np.concatenate([first.item, second.item + 150]),
        np.concatenate([first.annotator, second.annotator + 8]),
        np.concatenate([first.label, second.label]),
    )
    found = made(name).fit(both).result_.class_probabilities.argmax(axis=1)
    assert np.mean(found[:150] == truth) > 0.8
    assert np.mean(found[150:] == more_truth) > 0.8


@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "majority-vote"])
def test_partial_fit_equals_a_refit(name: str) -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=200, labels=5)
    first, second = crowd.split_annotations(0.4, seed=3)
    params = {} if name == "majority-vote" else {"tolerance": 1e-12, "max_iter": 3000}
    at_once = made(name, **params).fit(first.concat(second)).result_
    in_steps = made(name, **params).partial_fit(first).partial_fit(second).result_
    np.testing.assert_allclose(in_steps.class_probabilities, at_once.class_probabilities, atol=1e-4)
    np.testing.assert_allclose(in_steps.confusions, at_once.confusions, atol=1e-4)


@pytest.mark.parametrize("name", EM_METHODS)
def test_the_same_fit_twice_is_identical(name: str) -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=60)
    first, second = (made(name).fit(crowd).result_ for _ in range(2))
    np.testing.assert_array_equal(first.class_probabilities, second.class_probabilities)
    assert first.history == second.history


def test_a_fit_that_is_cut_short_warns_and_says_so_in_the_result() -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=200)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        result = made("dawid-skene", max_iter=2).fit(crowd).result_
    assert "max_iter=2" in result.warnings[0]
    assert made("dawid-skene", max_iter=2, tolerance=0.0).fit(crowd).result_.warnings == ()


def test_a_fit_stops_early_once_it_has_settled() -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=200)
    assert len(made("dawid-skene").fit(crowd).result_.history["objective"]) < 60


def test_em_without_iterations_applies_the_given_parameters() -> None:
    crowd = Annotations.from_dense([[0, 1]])
    confusions = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.5, 0.5], [0.2, 0.8]]])
    found = refine_by_em(crowd, confusions, np.array([0.5, 0.5]), pseudo_counts=np.zeros((2, 2)), max_iter=0)
    np.testing.assert_allclose(found["class_probabilities"][0], np.array([0.9 * 0.5, 0.4 * 0.8]) / (0.45 + 0.32))


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("dawid-skene", {"prior_strength": -1.0}),
        ("dawid-skene", {"e_step": "firm"}),
        ("dawid-skene", {"class_prior": [0.5]}),
        ("dawid-skene", {"max_iter": 0}),
        ("one-coin", {"initial_accuracy": 1.5}),
        ("mace", {"inference": "mcmc"}),
        ("ebcc", {"n_subtypes": 0}),
        ("ibcc", {"right_prior": 0.0}),
        ("glad", {"n_sweeps": 0}),
    ],
)
def test_senseless_parameters_are_refused(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        make_aggregator(name, **params).fit(Annotations.from_dense([[0, 1], [1, 1]]))


def test_small_data_load_no_compiler_and_no_torch() -> None:
    import subprocess
    import sys

    program = (
        "import sys; from crowdprism.aggregators import make_aggregator; "
        "from crowdprism.annotations.container import Annotations; "
        "make_aggregator('dawid-skene').fit(Annotations.from_dense([[0, 1], [1, 1]])); "
        "print([name for name in ('numba', 'torch', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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


def test_a_given_class_prior_is_taken_as_shares_of_its_sum() -> None:
    annotations, _ = simulated(np.tile(np.full((3, 3), 0.2) + 0.4 * np.eye(3), (5, 1, 1)))
    shares = make_aggregator("dawid-skene", class_prior=[0.2, 0.3, 0.5]).fit(annotations).result_
    counts = make_aggregator("dawid-skene", class_prior=[2, 3, 5]).fit(annotations).result_
    np.testing.assert_allclose(counts.class_prior, [0.2, 0.3, 0.5])
    np.testing.assert_allclose(counts.class_probabilities, shares.class_probabilities)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_groups_add_up_in_their_order_on_any_number_of_threads(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDPRISM_THREADS", threads)
    values = np.random.default_rng(0).normal(size=(9, 2))

    def work(first: int, last: int) -> Expectation:
        return Expectation(
            float(first), values[first:last].sum(axis=0), np.array([last - first, 1.0]), values[first:last]
        )

    found = sum_groups(work, [(0, 2), (2, 3), (3, 7), (7, 9)], 16)
    assert found.log_likelihood == 0 + 2 + 3 + 7
    assert found.counts == pytest.approx(values.sum(axis=0))
    assert found.class_totals.tolist() == [9, 4]
    assert np.array_equal(found.class_probabilities, values)

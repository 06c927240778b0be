"""What users may rely on: reductions, invariances, weights, extremes of size, returning annotators, partial fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.aggregators.expectation import cells_of
from crowdprism.aggregators.moments import refine_by_em
from crowdprism.annotations import Annotations
from crowdprism.errors import ConvergenceWarning, InvalidParameterError, UnsuitableDataError
from crowdprism.results import confusion

EM_METHODS = ["dawid-skene", "fast-dawid-skene", "one-coin", "zencrowd", "glad", "mace", "ibcc", "ebcc"]
QUICK: dict[str, dict[str, Any]] = {"ebcc": {"n_subtypes": 2, "n_restarts": 2}, "mace": {"n_restarts": 2}}


def made(name: str, **params: Any) -> Any:
    return make_aggregator(name, **{**QUICK.get(name, {}), **params})


def simulated(
    confusions: np.ndarray, *, n_items: int = 400, per_item: int = 4, seed: int = 0
) -> tuple[Annotations, np.ndarray]:
    """Annotations drawn from given confusions, and the true classes."""
    rng = np.random.default_rng(seed)
    n_annotators, n_classes, _ = confusions.shape
    truth = rng.integers(0, n_classes, n_items)
    item = np.repeat(np.arange(n_items), per_item)
    annotator = np.concatenate([rng.choice(n_annotators, per_item, replace=False) for _ in range(n_items)])
    steps = confusions[annotator, truth[item]].cumsum(axis=1)
    label = (rng.random(len(item))[:, None] > steps[:, :-1]).sum(axis=1)
    return Annotations.from_triplets(item, annotator, label, classes=range(n_classes)), truth


def mixed_crowd(n_annotators: int = 8, n_classes: int = 3, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    diagonal = rng.uniform(0.5, 0.9, (n_annotators, n_classes))
    confusions = rng.dirichlet(np.ones(n_classes), (n_annotators, n_classes)) * (1 - diagonal)[:, :, None]
    confusions[:, np.arange(n_classes), np.arange(n_classes)] += diagonal
    return confusions


def few_labels_each() -> Annotations:
    """Annotators who use few of many labels."""
    rng = np.random.default_rng(0)
    item, annotator = np.repeat(np.arange(40), 4), rng.integers(0, 6, 160)
    return Annotations.from_triplets(item, annotator, (item % 3) * 5 + rng.integers(0, 2, 160), classes=range(20))


@pytest.mark.parametrize("name", ["dawid-skene", "fast-dawid-skene"])
def test_with_one_label_per_item_dawid_skene_equals_majority_vote(name: str) -> None:
    rng = np.random.default_rng(0)
    crowd = Annotations.from_triplets(np.arange(200), rng.integers(0, 7, 200), rng.integers(0, 4, 200))
    expected = made("majority-vote").fit(crowd).result_.class_probabilities
    np.testing.assert_allclose(made(name).fit(crowd).result_.class_probabilities, expected, atol=1e-9)


def test_ebcc_with_one_subtype_equals_ibcc() -> None:
    crowd, _ = simulated(mixed_crowd())
    ibcc, ebcc = made("ibcc").fit(crowd).result_, made("ebcc", n_subtypes=1, n_restarts=3).fit(crowd).result_
    np.testing.assert_array_equal(ibcc.class_probabilities, ebcc.class_probabilities)
    assert ibcc.history["objective"] == ebcc.history["objective"]


def test_ebcc_keeps_the_restart_with_the_highest_bound() -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=100)
    history = made("ebcc", n_restarts=4).fit(crowd).result_.history
    assert len(history["restarts"]) == 4
    assert history["objective"][-1] == max(history["restarts"])


@pytest.mark.parametrize("name", ["dawid-skene", "ibcc"])
def test_known_confusions_are_recovered(name: str) -> None:
    confusions = mixed_crowd()
    crowd, truth = simulated(confusions, n_items=4000, per_item=5)
    result = made(name).fit(crowd).result_
    assert np.abs(result.confusions - confusions).max() < 0.06
    assert np.mean(result.class_probabilities.argmax(axis=1) == truth) > 0.93


@pytest.mark.parametrize("name", ["one-coin", "mace"])
def test_known_skills_are_recovered(name: str) -> None:
    skill = np.linspace(0.4, 0.95, 8)
    confusions = np.repeat(((1 - skill) / 2)[:, None], 9, axis=1).reshape(8, 3, 3)
    confusions[:, np.arange(3), np.arange(3)] = skill[:, None]
    crowd, _ = simulated(confusions, n_items=4000, per_item=5)
    result = made(name).fit(crowd).result_
    np.testing.assert_allclose(result.annotator_accuracy, skill, atol=0.04)


def test_an_adversary_is_used_and_not_ignored_by_dawid_skene() -> None:
    good, adversary = np.array([[0.7, 0.3], [0.3, 0.7]]), np.array([[0.03, 0.97], [0.97, 0.03]])
    crowd, truth = simulated(np.stack([good] * 4 + [adversary]), n_items=2000, per_item=5)
    with_adversary = made("dawid-skene").fit(crowd).result_
    without = made("dawid-skene").fit(crowd.drop_annotators([4])).result_

    def accuracy(result: Any) -> float:
        return float(np.mean(result.class_probabilities.argmax(axis=1) == truth))

    assert with_adversary.confusions[4, 0, 1] > 0.9
    assert accuracy(with_adversary) > accuracy(without) + 0.1


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


def test_confusions_that_would_not_fit_are_left_out_and_accuracies_given(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = few_labels_each()
    full = made("dawid-skene").fit(crowd).result_
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 8 * crowd.n_annotators * 20**2 - 1)  # tables by cell still fit
    result = made("dawid-skene").fit(crowd).result_
    assert result.confusions is None
    assert result.warnings
    np.testing.assert_allclose(result.skills, full.annotator_accuracy, atol=1e-9)


def test_tables_that_would_not_fit_are_refused_and_one_coin_named(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=50)
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 100)
    with pytest.raises(UnsuitableDataError, match="one-coin"):
        made("dawid-skene").fit(crowd)


def test_cells_that_do_not_occur_change_nothing() -> None:
    """Annotators who use few of many labels: stored cells are few, and the fit equals that of full tables."""
    crowd = few_labels_each()
    cells = cells_of(crowd)
    assert not cells.complete
    result = made("dawid-skene", tolerance=0.0, max_iter=5).fit(crowd).result_
    gain = np.diff(result.history["objective"])
    assert (gain >= -1e-9).all()
    np.testing.assert_allclose(result.confusions.sum(axis=2), 1.0)
    no_prior = np.zeros((20, 20))
    again = refine_by_em(crowd, result.confusions, result.class_prior, pseudo_counts=no_prior, max_iter=0)
    assert np.isfinite(again.class_probabilities).all()


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
    crowd, _ = simulated(mixed_crowd(), n_items=200, per_item=5)
    first, second = crowd.split_annotations(0.4, seed=3)
    params = {} if name == "majority-vote" else {"tolerance": 1e-12, "max_iter": 3000}
    at_once = made(name, **params).fit(first.concat(second)).result_
    in_steps = made(name, **params).partial_fit(first).partial_fit(second).result_
    np.testing.assert_allclose(in_steps.class_probabilities, at_once.class_probabilities, atol=1e-4)
    np.testing.assert_allclose(in_steps.confusions, at_once.confusions, atol=1e-4)


def test_partial_fit_takes_new_items_annotators_and_classes() -> None:
    model = made("dawid-skene").fit(Annotations.from_triplets([1, 1, 2], ["a", "b", "a"], ["x", "x", "y"]))
    model.partial_fit(Annotations.from_triplets([2, 3, 3], ["c", "c", "a"], ["y", "z", "z"]))
    assert model.result_.items.tolist() == [1, 2, 3]
    assert model.result_.labels().tolist() == ["x", "y", "z"]


def test_partial_fit_needs_fewer_iterations_than_a_refit() -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=500)
    few = crowd.n_annotations // 100
    keep = np.arange(crowd.n_annotations) >= few
    model = made("dawid-skene", tolerance=1e-8).fit(crowd.select(keep)).partial_fit(crowd.select(~keep))
    anew = made("dawid-skene", tolerance=1e-8).fit(crowd)
    assert len(model.result_.history["objective"]) < len(anew.result_.history["objective"])


def test_initial_confusions_decide_between_mirror_images() -> None:
    crowd = Annotations.from_dense([[0, 1], [1, 0]] * 20, annotator_names=["ann", "bob"])
    liar = {"ann": [[0.1, 0.9], [0.9, 0.1]], "bob": [[0.9, 0.1], [0.1, 0.9]]}
    result = made("dawid-skene", initial_confusions=liar, prior_strength=0.0).fit(crowd).result_
    assert result.labels().tolist() == [1, 0] * 20
    as_array = np.array([liar["ann"], liar["bob"]])
    same = made("dawid-skene", initial_confusions=as_array, prior_strength=0.0).fit(crowd).result_
    np.testing.assert_array_equal(same.class_probabilities, result.class_probabilities)


def test_initial_confusions_with_rows_that_do_not_sum_to_one_are_refused() -> None:
    crowd = Annotations.from_dense([[0, 1], [1, 0]])
    with pytest.raises(InvalidParameterError, match="sum to one"):
        made("dawid-skene", initial_confusions=np.ones((2, 2, 2))).fit(crowd)
    with pytest.raises(InvalidParameterError, match="None of the names"):
        made("dawid-skene", initial_confusions={"zoe": np.eye(2)}).fit(crowd)


def test_a_returning_annotator_is_known_from_the_past() -> None:
    confusions = np.stack([np.array([[0.95, 0.05], [0.05, 0.95]])] * 3 + [np.array([[0.1, 0.9], [0.9, 0.1]])])
    crowd, _ = simulated(confusions, n_items=300, per_item=4)
    past = made("dawid-skene").fit(crowd).result_
    today = Annotations.from_triplets(["i", "j"], [3, 3], [0, 1], classes=[0, 1])
    assert made("dawid-skene").fit(today).result_.labels().tolist() == [0, 1]
    assert made("dawid-skene", past_result=past).fit(today).result_.labels().tolist() == [1, 0]


def test_a_past_result_without_counts_is_refused() -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=30)
    past = made("glad").fit(crowd).result_
    with pytest.raises(InvalidParameterError, match="no counts"):
        made("dawid-skene", past_result=past).fit(crowd)


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
    np.testing.assert_allclose(found.class_probabilities[0], np.array([0.9 * 0.5, 0.4 * 0.8]) / (0.45 + 0.32))


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

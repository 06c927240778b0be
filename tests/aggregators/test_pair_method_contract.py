"""What weighted vote, KOS, MMSR and the methods of moments all keep: invariances, weights, odd crowds, no NaN."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import AGGREGATORS, make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.errors import UnsuitableDataError
from crowdprism.simulate import per_item, simulate_annotations

NAMES = ["weighted-vote", "kos", "mmsr", "spectral-em", "multispa", "multispa-kl", "symnmf"]
EAGERNESS = np.linspace(1, 3, 9)  # different numbers of annotations, so that no two annotators are alike

TRUTH = np.random.default_rng(0).integers(3, size=500)


@pytest.fixture(scope="module")
def crowd() -> Annotations:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=500)
    assert np.array_equal(truth, TRUTH)
    rows = rng.random((9, 3, 3)) + 2.5 * np.eye(3)
    confusions = rows / rows.sum(axis=2, keepdims=True)
    return simulate_annotations(truth, confusions, per_item(500, 9, labels=6, share=EAGERNESS)).with_gold(None)


def fitted(name: str, a: Annotations, **params):
    result = make_aggregator(name, **params).fit(a).result_
    assert np.isfinite(result.class_probabilities).all()
    assert result.class_probabilities.sum(axis=1) == pytest.approx(np.ones(a.n_items))
    assert (result.class_probabilities >= 0).all()
    for part in (result.confusions, result.class_prior):
        assert np.isfinite(part).all()
        assert part.sum(axis=-1) == pytest.approx(np.ones(part.shape[:-1]))
    assert result.skills is None or np.isfinite(result.skills).all()
    return result


@pytest.mark.parametrize("name", NAMES)
def test_every_method_is_registered_under_its_own_name(name) -> None:
    assert AGGREGATORS[name].name == name


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_mostly_right_and_the_same_seed_gives_the_same_result(name, crowd) -> None:
    first, second = fitted(name, crowd), fitted(name, crowd)
    assert (first.labels() == TRUTH).mean() > 0.9
    assert np.array_equal(first.class_probabilities, second.class_probabilities)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_rows_does_not_matter(name, crowd) -> None:
    order = np.random.default_rng(1).permutation(crowd.n_annotations)
    shuffled = Annotations.from_triplets(crowd.item[order], crowd.annotator[order], crowd.label[order])
    assert np.array_equal(fitted(name, shuffled).class_probabilities, fitted(name, crowd).class_probabilities)


@pytest.mark.parametrize("name", NAMES)
def test_the_names_of_annotators_do_not_matter(name, crowd) -> None:
    renamed = Annotations.from_triplets(crowd.item, 8 - crowd.annotator, crowd.label)
    first, second = fitted(name, crowd), fitted(name, renamed)
    assert second.class_probabilities == pytest.approx(first.class_probabilities, abs=1e-4)
    assert second.confusions[::-1] == pytest.approx(first.confusions, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_names_of_classes_do_not_matter(name, crowd) -> None:
    renamed = Annotations.from_triplets(crowd.item, crowd.annotator, 2 - crowd.label)
    first, second = fitted(name, crowd), fitted(name, renamed)
    assert second.class_probabilities[:, ::-1] == pytest.approx(first.class_probabilities, abs=1e-4)
    assert second.confusions[:, ::-1, ::-1] == pytest.approx(first.confusions, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_items_without_annotations_get_the_prior(name, crowd) -> None:
    more = Annotations.from_triplets(crowd.item, crowd.annotator, crowd.label, item_names=range(502))
    result = fitted(name, more)
    assert result.class_probabilities[-1] == pytest.approx(result.class_prior, abs=1e-6)
    assert result.class_probabilities[:500] == pytest.approx(fitted(name, crowd).class_probabilities, abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_equal_weights_change_nothing_and_weight_zero_is_absence(name, crowd) -> None:
    def weighted(weight):
        return Annotations.from_triplets(crowd.item, crowd.annotator, crowd.label, weight=weight)

    plain = fitted(name, crowd).class_probabilities
    ones = fitted(name, weighted(np.ones(crowd.n_annotations))).class_probabilities
    assert ones == pytest.approx(plain, abs=1e-6)
    silent = np.random.default_rng(2).random(crowd.n_annotations) < 0.2
    without = fitted(name, crowd.select(~silent)).class_probabilities
    assert fitted(name, weighted(np.where(silent, 0.0, 1.0))).class_probabilities == pytest.approx(without, abs=1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "kos"])
def test_weight_two_is_saying_it_twice(name, crowd) -> None:
    # KOS is left out: there each answer is an edge of its own, and messages leave out only the edge they take.
    twice = np.random.default_rng(3).random(crowd.n_annotations) < 0.3
    rows = [np.concatenate([values, values[twice]]) for values in (crowd.item, crowd.annotator, crowd.label)]
    repeated = Annotations.from_triplets(*rows)
    weighted = Annotations.from_triplets(crowd.item, crowd.annotator, crowd.label, weight=np.where(twice, 2.0, 1.0))
    first, second = fitted(name, repeated), fitted(name, weighted)
    assert second.class_probabilities == pytest.approx(first.class_probabilities, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_weight_counts(name, crowd) -> None:
    heavy = np.where(crowd.annotator == 0, 50.0, 1.0)
    weighted = Annotations.from_triplets(crowd.item, crowd.annotator, crowd.label, weight=heavy)
    change = np.abs(fitted(name, weighted).class_probabilities - fitted(name, crowd).class_probabilities)
    assert change.max() > 0.05


@pytest.mark.parametrize("name", NAMES)
def test_a_class_nobody_uses_gets_almost_no_probability_or_is_refused(name, crowd) -> None:
    wider = Annotations.from_triplets(crowd.item, crowd.annotator, crowd.label, classes=[0, 1, 2, 3])
    if name == "spectral-em":
        with pytest.raises(UnsuitableDataError, match="3 of 4 classes"):
            fitted(name, wider)
        return
    result = fitted(name, wider)
    assert (result.labels() == fitted(name, crowd).labels()).mean() > 0.97
    assert result.class_probabilities[:, 3].mean() < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_one_annotator_is_believed_or_refused(name) -> None:
    alone = Annotations.from_dense([[0], [1], [1], [2]])
    if name == "weighted-vote":
        assert fitted(name, alone).labels().tolist() == [0, 1, 1, 2]
    else:
        with pytest.raises(UnsuitableDataError, match=r"dawid-skene|majority-vote"):
            fitted(name, alone)


@pytest.mark.parametrize("name", NAMES)
def test_crowds_that_share_no_item_are_both_labelled(name, crowd) -> None:
    other = Annotations.from_triplets(crowd.item + 500, crowd.annotator + 9, crowd.label)
    result = fitted(name, crowd.concat(other))
    right = result.labels() == np.tile(TRUTH, 2)
    assert right[:500].mean() > 0.9
    assert right[500:].mean() > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_kept_with_the_result(name, crowd) -> None:
    method = make_aggregator(name).fit(crowd)
    assert method.result_.parameters == method.get_params()
    assert repr(method) == f"{type(method).__name__}()"


@pytest.mark.parametrize("name", ["weighted-vote", "mmsr"])
def test_a_thousand_classes_and_many_annotators_need_no_full_matrices(name) -> None:
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(1500), 3)
    truth = rng.integers(1000, size=1500)
    label = np.where(rng.random(4500) < 0.8, truth[item], rng.integers(1000, size=4500))
    annotator = rng.integers(400, size=4500)
    a = Annotations.from_triplets(item, annotator, label, classes=range(1000))
    result = make_aggregator(name).fit(a).result_
    assert result.confusions is None
    assert "would not fit in memory" in result.warnings[-1]
    assert (result.labels() == truth).mean() > 0.85


@pytest.mark.parametrize("name", NAMES)
def test_ten_thousand_annotators_of_one_label_each_are_labelled_or_refused(name) -> None:
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(2000), 5)
    truth = rng.integers(3, size=2000)
    label = np.where(rng.random(10_000) < 0.7, truth[item], rng.integers(3, size=10_000))
    a = Annotations.from_triplets(item, np.arange(10_000), label)
    if name in ("kos", "multispa", "multispa-kl", "symnmf"):
        with pytest.raises(UnsuitableDataError, match="dawid-skene"):
            fitted(name, a)
    else:
        assert (fitted(name, a).labels() == truth).mean() > 0.85

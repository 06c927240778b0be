"""Evidence about annotators by closed forms, intervals by their coverage, and results matched with annotations."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.diagnostics.label_evidence import (
    annotator_intervals,
    centre_likelihood,
    class_probabilities_without,
    dirichlet_multinomial,
    item_sums,
    matching,
    result_intervals,
)
from crowdprism.errors import InvalidParameterError, UnsuitableDataError
from crowdprism.results import FitResult
from crowdprism.simulate import per_item, simulate_annotations


def varied_crowd(
    seed: int, n_classes: int, n_items: int, n_annotators: int
) -> tuple[Annotations, np.ndarray, np.ndarray]:
    """Annotations, class probabilities that the true classes were drawn from, and the true confusions."""
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.full(n_classes, 0.2), size=n_items)
    truth = (shares.cumsum(axis=1) < random.random((n_items, 1))).sum(axis=1).clip(0, n_classes - 1)
    lean = 1 + 6 * (1 + random.random((n_annotators, 1, 1))) * np.eye(n_classes)
    confusions = random.standard_gamma(lean * np.ones((n_annotators, n_classes, n_classes)))
    confusions /= confusions.sum(axis=2, keepdims=True)
    pairs = per_item(n_items, n_annotators, labels=3, seed=seed)
    return simulate_annotations(truth, confusions, pairs, seed=seed), shares, confusions


def covered(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return (low <= truth) & (truth <= high)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_intervals_given_class_probabilities_cover_as_often_as_they_say(n_classes: int) -> None:
    accuracies, entries = [], []
    for seed in range(5):
        annotations, shares, confusions = varied_crowd(seed, n_classes, 500, 20)
        even = np.full(n_classes, 1 / n_classes)
        found = annotator_intervals(annotations, shares, class_prior=even, n_draws=200, seed=seed)
        truth = np.einsum("mkk->m", confusions) / n_classes
        accuracies.append(covered(found.accuracy_low, found.accuracy_high, truth))
        entries.append(covered(found.confusion_low, found.confusion_high, confusions))
    assert 0.90 <= np.mean(accuracies) <= 0.99
    assert 0.90 <= np.mean(entries) <= 0.99


def test_intervals_of_a_fit_without_features_cover_as_often_as_they_say() -> None:
    accuracies, entries = [], []
    for seed in range(5):
        annotations, _, confusions = varied_crowd(seed, 4, 600, 20)
        result = make_aggregator("dawid-skene", use_gold=False).fit(annotations).result_
        found = result_intervals(result, annotations, class_prior=np.full(4, 0.25), n_draws=200, seed=seed)
        truth = np.einsum("mkk->m", confusions) / 4
        accuracies.append(covered(found.accuracy_low, found.accuracy_high, truth))
        entries.append(covered(found.confusion_low, found.confusion_high, confusions))
    assert 0.90 <= np.mean(accuracies) <= 0.99
    assert 0.90 <= np.mean(entries) <= 0.99


def test_annotations_are_taken_out_of_a_posterior_before_they_are_counted() -> None:
    annotations, shares, confusions = varied_crowd(0, 3, 200, 10)
    names = (annotations.items, annotations.annotators, annotations.classes)
    log = np.log(shares) + item_sums(annotations, np.log(confusions)[annotations.annotator, :, annotations.label])
    posterior = np.exp(log) / np.exp(log).sum(axis=1, keepdims=True)
    result = FitResult("by-hand", *names, posterior, confusions=confusions)
    options = {"class_prior": np.full(3, 1 / 3), "n_draws": 50}
    from_posterior = result_intervals(result, annotations, **options)
    from_features = annotator_intervals(annotations, shares, start=confusions, **options)
    assert from_posterior.accuracy == pytest.approx(from_features.accuracy, abs=0.01)
    counted_twice = annotator_intervals(annotations, posterior, start=confusions, **options)
    assert np.abs(counted_twice.accuracy - from_features.accuracy).max() > 0.02


def test_more_annotations_give_narrower_intervals() -> None:
    few, many = (
        annotator_intervals(annotations, shares, n_draws=100)
        for annotations, shares, _ in (varied_crowd(0, 3, 150, 10), varied_crowd(0, 3, 1500, 10))
    )
    ratio = (few.accuracy_high - few.accuracy_low).mean() / (many.accuracy_high - many.accuracy_low).mean()
    assert ratio == pytest.approx(np.sqrt(10), rel=0.3)


def test_the_same_seed_gives_the_same_intervals() -> None:
    annotations, shares, _ = varied_crowd(0, 3, 100, 5)
    first, second = (annotator_intervals(annotations, shares, n_draws=20, seed=3) for _ in range(2))
    assert np.array_equal(first.confusion_low, second.confusion_low)


def test_probabilities_of_counts_sum_to_one() -> None:
    tables = [np.array([[[n, 3 - n], [0, 0]]], dtype=float) for n in range(4)]
    chance = [np.exp(centre_likelihood(table, np.array([0.7]), 4.0))[0] for table in tables]
    assert np.dot(chance, [1, 3, 3, 1]) == pytest.approx(1)


def test_annotators_with_too_few_annotations_get_no_interval() -> None:
    annotations = Annotations.from_dense([[0, 0, 0]] + [[0, 0, -1]] * 19 + [[1, 1, -1]] * 20)
    found = annotator_intervals(annotations, np.eye(2)[np.arange(40) // 20], n_draws=20)
    assert found.enough.tolist() == [True, True, False]
    assert np.isnan(found.accuracy_low[2])
    assert np.isnan(found.confusion_high[2]).all()
    assert "1 of 3 annotators" in found.remarks[0]


def test_too_few_annotations_for_any_interval_are_an_error() -> None:
    annotations = Annotations.from_dense([[0, 1], [1, 1]])
    with pytest.raises(UnsuitableDataError, match="the most is 2"):
        annotator_intervals(annotations, np.full((2, 2), 0.5))


def test_class_probabilities_of_another_shape_are_an_error() -> None:
    with pytest.raises(InvalidParameterError, match=r"\(2, 2\)"):
        annotator_intervals(Annotations.from_dense([[0, 1], [1, 1]]), np.full((3, 2), 0.5))


def test_taking_an_annotation_out_leaves_prior_and_the_others() -> None:
    annotations = Annotations.from_dense([[0, 1]])
    confusions = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]])
    prior = np.array([0.3, 0.7])
    joint = prior * confusions[0, :, 0] * confusions[1, :, 1]
    result = FitResult(
        method="by-hand",
        items=annotations.items,
        annotators=annotations.annotators,
        classes=annotations.classes,
        class_probabilities=(joint / joint.sum())[None],
        confusions=confusions,
    )
    without_first = prior * confusions[1, :, 1]
    found = class_probabilities_without(result, annotations)[0]
    assert found == pytest.approx(without_first / without_first.sum())


def test_probabilities_of_all_label_sequences_sum_to_one() -> None:
    counts = np.array([[n, 3 - n] for n in range(4)], dtype=float)
    assert (np.exp(dirichlet_multinomial(counts)) * [1, 3, 3, 1]).sum() == pytest.approx(1)


def test_annotations_in_any_order_are_brought_into_the_order_of_the_result() -> None:
    rows = [("x", "ann", "cat"), ("y", "bob", "dog"), ("y", "ann", "dog"), ("z", "bob", "cat")]
    a = Annotations.from_triplets(*zip(*rows, strict=True), gold={"z": "dog"})
    result = make_aggregator("majority-vote", use_gold=False).fit(a).result_
    assert matching(result, a) is a
    turned = a.reindexed(items=["z", "x", "y"], annotators=["bob", "ann"], classes=["dog", "cat"])
    assert matching(result, turned) == a


def test_names_that_only_one_of_the_two_has_are_an_error() -> None:
    a = Annotations.from_triplets(["x", "y"], ["ann", "bob"], ["cat", "dog"])
    result = make_aggregator("majority-vote", use_gold=False).fit(a).result_
    with pytest.raises(InvalidParameterError, match="has 2 items, they have 1, and only one of the two has 'y'"):
        matching(result, a[:1])
    other = Annotations.from_triplets(["x", "y"], ["ann", "zoe"], ["cat", "dog"])
    with pytest.raises(InvalidParameterError, match="not those of this result: it has 2 annotators"):
        matching(result, other)

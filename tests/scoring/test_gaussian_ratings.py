from __future__ import annotations

import numpy as np
import pytest

from crowdprism.annotations import Annotations
from crowdprism.errors import UnsuitableDataError
from crowdprism.scoring.gaussian_ratings import RatedItems, RatingModel, rate, rating_values


def crowd(seed: int, n_items: int = 80, n_annotators: int = 12) -> tuple[Annotations, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = rng.normal(50, 10, n_items)
    bias, spread = rng.normal(0, 5, n_annotators), np.exp(rng.normal(1.5, 0.5, n_annotators))
    item = np.repeat(np.arange(n_items), 4)
    annotator = np.concatenate([rng.choice(n_annotators, 4, replace=False) for _ in range(n_items)])
    value = np.round(score[item] + bias[annotator] + spread[annotator] * rng.normal(size=len(item)), 3)
    annotations = Annotations.from_triplets(item, annotator, value)
    shift = np.average(bias, weights=annotations.labels_per_annotator)
    return annotations, score + shift, bias - shift


def test_intervals_hold_scores_and_biases_and_errors_are_below_those_of_means() -> None:
    held, biases, errors, means = [], [], [], []
    for seed in range(12):
        annotations, score, bias = crowd(seed)
        found = rate(annotations)
        held.append(((found.interval[:, 0] < score) & (score < found.interval[:, 1])).mean())
        biases.append(((found.bias_interval[:, 0] < bias) & (bias < found.bias_interval[:, 1])).mean())
        errors.append(np.abs(found.scores - score).mean())
        plain = np.bincount(annotations.item, rating_values(annotations)) / annotations.labels_per_item
        means.append(np.abs(plain - score).mean())
    assert 0.92 <= np.mean(held) <= 0.985
    assert 0.9 <= np.mean(biases) <= 0.985
    assert np.mean(errors) < 0.8 * np.mean(means)


def test_the_likelihood_is_that_of_the_normal_distribution_of_each_item() -> None:
    from scipy.stats import multivariate_normal

    annotations = Annotations.from_triplets([0, 0, 0, 1, 1], [0, 1, 2, 0, 2], [1.0, 2.5, 3.0, 0.5, 4.0])
    values = rating_values(annotations)
    model = RatingModel(1.5, 2.0, np.array([0.1, -0.2, 0.4]), np.array([0.5, 1.0, 2.0]), 1.0, 1.0)
    found = RatedItems(annotations, values).expect(model)
    expected, means = 0.0, []
    for own in (annotations.item == 0, annotations.item == 1):
        who, value = annotations.annotator[own], values[own]
        noise = np.diag(model.noise[who])
        expected += multivariate_normal(1.5 + model.bias[who], noise + 2.0).logpdf(value)
        means.append(1.5 + 2.0 * np.ones(len(who)) @ np.linalg.solve(noise + 2.0, value - 1.5 - model.bias[who]))
    assert found.log_likelihood == pytest.approx(expected)
    assert found.counts == pytest.approx(means)


def test_the_objective_never_decreases() -> None:
    from crowdprism.aggregators.em import climb

    annotations, _, _ = crowd(3)
    evidence = RatedItems(annotations, rating_values(annotations))
    start = RatingModel(50.0, 100.0, np.zeros(12), np.full(12, 30.0), 30.0, 30.0)
    start = evidence.maximize(start, evidence.expect(start))
    run = climb(evidence, start, evidence.maximize, title="", max_iter=60, tolerance=0)
    assert (np.diff(run.objective) > -1e-8).all()


def test_equal_annotators_give_shrunk_means() -> None:
    annotations = Annotations.from_triplets(["x", "x", "y", "y"], ["a", "b"] * 2, [1.0, 1.2, 9.0, 8.8])
    found = rate(annotations)
    assert found.scores == pytest.approx([1.1, 8.9], abs=0.1)
    assert found.icc > 0.9


def test_an_item_without_ratings_gets_the_mean_and_a_wide_interval() -> None:
    annotations = Annotations.from_triplets(
        ["x", "x", "y", "y"], ["a", "b"] * 2, [1.0, 2.0, 9.0, 8.0], item_names=["x", "y", "z"]
    )
    found = rate(annotations)
    assert found.scores[2] == pytest.approx(found.scores[:2].mean(), abs=0.5)
    widths = found.interval[:, 1] - found.interval[:, 0]
    assert widths[2] > 3 * widths[0]


def test_ratings_that_are_no_numbers_are_named() -> None:
    annotations = Annotations.from_triplets([1, 1, 2], ["a", "b", "a"], ["3.5", "n/a", "4"])
    with pytest.raises(UnsuitableDataError, match="1 of 3 ratings are no numbers: 'n/a'; the first is by annotator"):
        rate(annotations)


def test_row_order_does_not_matter() -> None:
    annotations, _, _ = crowd(5)
    values = rating_values(annotations)
    turn = np.random.default_rng(0).permutation(len(values))
    again = Annotations.from_triplets(annotations.item[turn], annotations.annotator[turn], values[turn])
    assert np.array_equal(rate(again).scores, rate(annotations).scores)

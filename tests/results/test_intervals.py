"""Intervals against known quantiles and by coverage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.results.intervals import accuracy_interval, beta_interval, confusion_interval


def test_the_interval_of_a_uniform_variable_cuts_equal_tails() -> None:
    np.testing.assert_allclose(beta_interval(1.0, 1.0, level=0.8), [0.1, 0.9])


def test_a_parameter_of_zero_is_certainty() -> None:
    assert beta_interval([0.0, 3.0], [2.0, 0.0]).tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_one_class_only_gives_the_interval_of_its_own_entry() -> None:
    posterior = np.array([[[7.0, 3.0], [1.0, 1.0]]])
    only_first = accuracy_interval(posterior, np.array([1.0, 0.0]))
    np.testing.assert_allclose(only_first[0], confusion_interval(posterior)[0, 0, 0], atol=1e-9)


def test_accuracy_intervals_cover_draws_from_the_posterior_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    prior = np.array([0.5, 0.3, 0.2])
    posterior = np.array([[[30.0, 4, 2], [3, 10, 1], [2, 1, 6]], [[3.0, 1, 1], [1, 2, 1], [1, 1, 2]]])
    ends = accuracy_interval(posterior, prior, level=0.9)
    for annotator in range(2):
        rows = [rng.dirichlet(posterior[annotator, k], 40_000)[:, k] for k in range(3)]
        draws = prior @ np.array(rows)
        low, high = ends[annotator]
        assert np.mean((draws >= low) & (draws <= high)) == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("name", ["dawid-skene", "ibcc"])
def test_intervals_cover_the_true_accuracies_of_a_simulated_crowd(name: str) -> None:
    rng = np.random.default_rng(1)
    n_items, n_annotators, covered = 600, 30, []
    for _ in range(4):
        accuracy = rng.uniform(0.6, 0.9, n_annotators)
        truth = rng.integers(0, 2, n_items)
        item = np.repeat(np.arange(n_items), 10)
        annotator = np.concatenate([rng.choice(n_annotators, 10, replace=False) for _ in range(n_items)])
        label = np.where(rng.random(len(item)) < accuracy[annotator], truth[item], 1 - truth[item])
        result = make_aggregator(name).fit(Annotations.from_triplets(item, annotator, label)).result_
        ends = result.annotator_accuracy_interval(level=0.95)
        assert ((ends[:, 0] <= result.annotator_accuracy) & (result.annotator_accuracy <= ends[:, 1])).all()
        covered.append(np.mean((ends[:, 0] <= accuracy) & (accuracy <= ends[:, 1])))
    assert np.mean(covered) > 0.88


def test_a_result_without_posterior_and_annotations_has_no_intervals() -> None:
    result = make_aggregator("majority-vote").fit(Annotations.from_dense([[0, 1], [1, 1]])).result_
    result = replace(result, annotations=None)
    assert result.confusion_interval() is None
    assert result.annotator_accuracy_interval() is None


def test_intervals_widen_with_the_level_and_narrow_with_counts() -> None:
    few, many = np.array([[[4.0, 1.0], [1.0, 4.0]]]), np.array([[[400.0, 100.0], [100.0, 400.0]]])
    prior = np.array([0.5, 0.5])

    def width(ends: np.ndarray) -> float:
        return float(ends[0, 1] - ends[0, 0])

    assert width(accuracy_interval(few, prior, level=0.5)) < width(accuracy_interval(few, prior, level=0.99))
    assert width(accuracy_interval(many, prior)) < width(accuracy_interval(few, prior)) / 5


@pytest.mark.parametrize("level", [0.0, 1.0, float("nan")])
def test_a_level_outside_zero_and_one_is_refused(level: float) -> None:
    with pytest.raises(InvalidParameterError):
        beta_interval(1.0, 1.0, level=level)

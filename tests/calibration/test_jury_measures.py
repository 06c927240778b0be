"""Measures of judges: closed forms and independent references."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from crowdprism.aggregators.majority_vote import decide
from crowdprism.calibration.jury_measures import (
    bootstrap_weights,
    chosen_panel,
    class_rates,
    effective_number,
    error_correlations,
    greedy_path,
    prevalence_from,
    vote_confusion,
    vote_counts,
    vote_scores,
)
from crowdprism.diagnostics.co_labelling import beyond_chance


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def test_kappa_is_that_of_scikit_learn_for_every_sample(random: np.random.Generator) -> None:
    truth, label = random.integers(0, 3, 50), random.integers(0, 3, 50)
    weights = bootstrap_weights(50, seed=1)[:5]
    right, named, true = class_rates(weights, label, truth, 3)
    found = beyond_chance(right, (named * true).sum(axis=1))
    for row, value in zip(weights, found, strict=True):
        assert value == pytest.approx(cohen_kappa_score(truth, label, sample_weight=row))


def test_kappa_is_unknown_where_only_one_class_occurs() -> None:
    ones = np.ones(5, dtype=int)
    right, named, true = class_rates(np.ones((1, 5)), ones, ones, 2)
    assert np.isnan(beyond_chance(right, (named * true).sum(axis=1))).all()


def test_error_correlations_are_those_of_numpy_on_shared_items(random: np.random.Generator) -> None:
    truth = random.integers(0, 2, 80)
    labels = np.where(random.random((80, 3)) < 0.7, truth[:, None], 1 - truth[:, None])
    labels[:20, 2] = -1
    weights = np.vstack([np.ones(80), bootstrap_weights(80, seed=0)[:2]])
    found, pairs = error_correlations(weights, labels, truth)
    assert pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    wrong = (labels != truth[:, None]).astype(float)
    for row, drawn in enumerate(weights):
        for place, (first, second) in enumerate(pairs):
            rows = np.repeat(np.arange(80), drawn.astype(int))
            rows = rows[(labels[rows, first] >= 0) & (labels[rows, second] >= 0)]
            assert found[row, place] == pytest.approx(np.corrcoef(wrong[rows, first], wrong[rows, second])[0, 1])


def test_a_judge_without_errors_or_with_few_shared_items_has_no_correlation() -> None:
    truth = np.zeros(30, dtype=int)
    labels = np.stack([truth, np.arange(30) % 2, np.where(np.arange(30) < 9, 1, -1)], axis=1)
    assert np.isnan(error_correlations(np.ones((1, 30)), labels, truth)[0]).all()


@pytest.mark.parametrize(("mean", "expected"), [(1.0, 1.0), (0.0, 5.0), (0.5, 5 / 3), (-0.2, 5.0)])
def test_copies_count_as_one_judge_and_independent_ones_as_all(mean: float, expected: float) -> None:
    assert effective_number(np.full((1, 10), mean), 5) == pytest.approx(expected)


def test_the_effective_number_is_unknown_without_any_correlation() -> None:
    assert np.isnan(effective_number(np.full((1, 3), np.nan), 3))
    assert effective_number(np.empty((1, 0)), 1) == 1


def test_ties_of_the_vote_are_shared_and_nobody_is_a_tie_of_all() -> None:
    labels = np.array([[0, 0, 1], [0, 1, 2], [0, 1, -1], [-1, -1, -1]])
    assert decide(vote_counts(labels, 3), "split").tolist() == [[1, 0, 0], [1 / 3] * 3, [0.5, 0.5, 0], [1 / 3] * 3]
    assert vote_scores(labels, np.array([0, 0, 2, 1]), 3).tolist() == pytest.approx([1, 1 / 3, 0, 1 / 3])


def test_the_path_takes_the_best_first_and_then_what_helps(random: np.random.Generator) -> None:
    truth = random.integers(0, 2, 2000)
    good = [np.where(random.random(2000) < 0.8, truth, 1 - truth) for _ in range(3)]
    labels = np.stack([1 - truth, *good, good[0]], axis=1)
    panels = greedy_path(labels, truth, 2)
    assert [len(panel) for panel in panels] == [1, 3, 5]
    assert 0 not in panels[1]
    assert not {1, 4} <= set(panels[1])  # a copy of a judge adds nothing to it
    panel, accuracy = chosen_panel(labels, truth, 2, seed=0)
    assert panel == panels[1]
    assert accuracy == pytest.approx(0.8**3 + 3 * 0.8**2 * 0.2, abs=0.03)


def test_of_equal_panels_the_smallest_is_chosen() -> None:
    truth = np.arange(50) % 2
    assert chosen_panel(np.stack([truth] * 4, axis=1), truth, 2, seed=0) == ([0], 1.0)


def test_prevalence_of_two_classes_is_the_estimate_of_rogan_and_gladen() -> None:
    sensitivity, specificity, voted = 0.9, 0.8, 0.4
    confusion = np.array([[specificity, 1 - specificity], [1 - sensitivity, sensitivity]])
    expected = (voted + specificity - 1) / (sensitivity + specificity - 1)
    assert prevalence_from(np.array([1 - voted, voted]), confusion) == pytest.approx([1 - expected, expected], abs=1e-6)
    assert prevalence_from(np.array([0.9, 0.1]), confusion) == pytest.approx([1, 0], abs=1e-6)  # below what errors give


def test_prevalence_inverts_the_confusion_of_the_vote(random: np.random.Generator) -> None:
    confusion = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.0, 0.1, 0.9]])
    true = np.array([0.2, 0.5, 0.3])
    assert prevalence_from(true @ confusion, confusion) == pytest.approx(true, abs=1e-6)


def test_the_confusion_of_the_vote_counts_and_adds_one_item_per_class() -> None:
    truth, votes = np.array([0, 0, 0, 1]), np.eye(2)[[0, 0, 1, 1]]
    found = vote_confusion(votes, truth, np.ones(4))
    assert found == pytest.approx(np.array([[2.75, 1.25], [0.25, 1.75]]) / [[4], [2]])

"""One orientation: confusions[annotator, true class, given label], rows sum to one."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.annotations import Annotations
from crowdprism.results.confusion import (
    annotator_accuracy,
    class_alignment,
    confusion_counts,
    confusion_error,
    mean_confusion,
    normalize_logs,
    normalize_rows,
    true_confusions,
)
from crowdprism.simulate import each_with_probability, one_coin, pair_flip, simulate_annotations


def slow_counts(annotations: Annotations, class_probabilities: np.ndarray) -> np.ndarray:
    counts = np.zeros((annotations.n_annotators, annotations.n_classes, annotations.n_classes))
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
    for row in range(annotations.n_annotations):
        person, label, item = annotations.annotator[row], annotations.label[row], annotations.item[row]
        for truth in range(annotations.n_classes):
            counts[person, truth, label] += weight[row] * class_probabilities[item, truth]
    return counts


def test_counts_equal_a_loop_over_annotations() -> None:
    random = np.random.default_rng(0)
    a = Annotations.from_triplets(
        random.integers(20, size=100),
        random.integers(5, size=100),
        random.integers(3, size=100),
        weight=random.random(100),
    )
    probabilities = random.dirichlet(np.ones(3), size=a.n_items)
    assert np.allclose(confusion_counts(a, probabilities), slow_counts(a, probabilities))


def test_rows_are_the_truth_as_in_scikit_learn() -> None:
    from sklearn.metrics import confusion_matrix

    truth, given = [0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 2, 2]
    a = Annotations.from_triplets(range(6), ["ann"] * 6, given, gold=dict(enumerate(truth)))
    assert np.allclose(true_confusions(a)[0], confusion_matrix(truth, given, normalize="true"))


def test_a_row_never_seen_becomes_uniform() -> None:
    assert normalize_rows(np.zeros((2, 4))).tolist() == [[0.25] * 4] * 2


def test_accuracy_is_the_prior_weighted_diagonal() -> None:
    confusions = np.array([[[0.9, 0.1], [0.4, 0.6]]])
    assert annotator_accuracy(confusions, np.array([0.25, 0.75])) == pytest.approx([0.25 * 0.9 + 0.75 * 0.6])


def test_alignment_undoes_any_relabelling_of_true_classes() -> None:
    truth = np.concatenate([one_coin([0.9, 0.6, 0.7], 5), pair_flip(1, 5, flip=0.3)])
    shuffled = truth[:, [3, 0, 4, 1, 2]]
    assert np.array_equal(shuffled[:, class_alignment(shuffled)], truth)
    assert np.array_equal(shuffled[:, class_alignment(shuffled, truth)], truth)
    assert confusion_error(shuffled, truth)["mean_squared"] == 0
    assert confusion_error(shuffled, truth, align=False)["mean_squared"] > 0.05


def test_error_measures_have_their_closed_forms() -> None:
    estimate, truth = np.full((3, 4, 4), 0.25), np.repeat(np.eye(4)[None], 3, axis=0)
    error = confusion_error(estimate, truth, align=False)
    squares = (0.75**2 + 3 * 0.25**2) / 4
    assert error["mean_squared"] == pytest.approx(squares)
    assert error["frobenius"] == pytest.approx(4 * squares)
    assert error["relative_l1"] == pytest.approx(1.5)


def test_gold_confusions_of_a_simulated_crowd_approach_the_true_ones() -> None:
    confusions = np.concatenate([one_coin([0.8, 0.5], 3), pair_flip(1, 3, flip=0.4)])
    truth = np.random.default_rng(2).integers(3, size=30_000)
    a = simulate_annotations(truth, confusions, each_with_probability(len(truth), 3, probability=0.9))
    assert np.abs(true_confusions(a) - confusions).max() < 0.02


def test_confusions_against_gold_need_gold() -> None:
    with pytest.raises(ValueError, match="no gold"):
        true_confusions(Annotations.from_dense([[0, 1]]))


def test_rows_of_logs_become_probabilities() -> None:
    assert np.allclose(normalize_logs(np.log(np.array([[1.0, 3.0], [1e-300, 1e-300]]))), [[0.25, 0.75], [0.5, 0.5]])


def test_the_crowd_of_annotators_without_labels_is_their_plain_mean() -> None:
    confusions = np.stack([np.eye(2), np.full((2, 2), 0.5)])
    assert np.allclose(mean_confusion(confusions, np.array([0, 0])), [[0.75, 0.25], [0.25, 0.75]])
    assert np.allclose(mean_confusion(confusions, np.array([3, 1])), [[0.875, 0.125], [0.125, 0.875]])

"""What is measured of a result without the truth, against sums written out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism import Annotations, FitResult
from crowdprism.comparison.measures import (
    MIXED_IN,
    agreement_with_others,
    gold_hits,
    held_out_log_likelihoods,
    mean_pairwise_agreement,
    share_of_held_out,
)


@pytest.fixture
def result() -> FitResult:
    a = Annotations.from_dense([[0, 1, -1], [1, 1, -1]], classes=[0, 1])
    return FitResult(
        method="by hand",
        items=a.items,
        annotators=a.annotators,
        classes=a.classes,
        class_probabilities=np.array([[0.9, 0.1], [0.2, 0.8]]),
        confusions=np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]]),
        labels_per_annotator=np.array([3, 1, 0]),
    )


def test_a_held_out_label_has_the_probability_of_its_column_under_the_posterior(result: FitResult) -> None:
    out = Annotations.from_dense([[0, -1, -1], [-1, 0, -1]], classes=[0, 1])
    by_hand = np.array([0.9 * 0.8 + 0.1 * 0.3, 0.2 * 0.6 + 0.8 * 0.1])
    expected = np.log((1 - MIXED_IN) * by_hand + MIXED_IN / 2)
    np.testing.assert_allclose(held_out_log_likelihoods(result, out), expected)


def test_someone_never_seen_is_the_average_annotator(result: FitResult) -> None:
    out = Annotations.from_dense([[-1, -1, 1], [-1, -1, -1]], classes=[0, 1])
    crowd = (3 * result.confusions[0] + result.confusions[1]) / 4
    probability = 0.9 * crowd[0, 1] + 0.1 * crowd[1, 1]
    np.testing.assert_allclose(
        held_out_log_likelihoods(result, out), [np.log((1 - MIXED_IN) * probability + MIXED_IN / 2)]
    )


def test_a_label_called_impossible_costs_a_bounded_amount(result: FitResult) -> None:
    sure = FitResult(
        "sure", result.items, result.annotators, result.classes, np.eye(2), confusions=np.stack([np.eye(2)] * 3)
    )
    out = Annotations.from_dense([[1, -1, -1], [-1, -1, -1]], classes=[0, 1])
    assert held_out_log_likelihoods(sure, out)[0] == pytest.approx(np.log(MIXED_IN / 2))


def test_a_method_without_confusions_has_no_likelihood(result: FitResult) -> None:
    bare = FitResult("bare", result.items, result.annotators, result.classes, result.class_probabilities)
    assert held_out_log_likelihoods(bare, Annotations.from_dense([[0, 1, 1], [1, 1, 0]])) is None


def test_agreement_counts_equal_labels() -> None:
    out = Annotations.from_dense([[0, 1], [1, 1]])
    assert share_of_held_out(np.array([0, 1]), out) == 0.75
    assert mean_pairwise_agreement([np.array([0, 1])]) is None
    assert agreement_with_others({"only": np.array([0])}) == {"only": None}


def test_gold_counts_only_where_somebody_labelled() -> None:
    a = Annotations.from_triplets([0, 1], ["x", "x"], [0, 1], item_names=[0, 1, 2], gold={0: 0, 1: 0, 2: 1})
    assert gold_hits(np.array([0, 1, 0]), a).tolist() == [True, False]
    assert gold_hits(np.array([0]), Annotations.from_dense([[0, 1]])) is None

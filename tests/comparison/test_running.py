"""Comparing methods: which comes first, and what happens when one fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import crowdprism as cp
from crowdprism import Annotations, FitResult
from crowdprism.comparison import running
from crowdprism.comparison.running import (
    MIXED_IN,
    agreement_with_others,
    gold_hits,
    held_out_log_likelihoods,
    mean_pairwise_agreement,
)
from crowdprism.errors import InvalidParameterError
from crowdprism.simulate import build_family, build_pattern, simulate_annotations


@pytest.fixture(scope="module")
def crowd() -> cp.Annotations:
    """Half of the annotators guess, so those who weigh annotators understand the crowd better."""
    truth = np.arange(300) % 3
    confusions = build_family("hammer-spammer", 20, 3, level=0.5, seed=1)
    pairs = build_pattern("per-item", len(truth), 20, amount=5, seed=1)
    return simulate_annotations(truth, confusions, pairs, seed=1)


def test_without_gold_the_method_that_predicts_held_out_labels_comes_first(crowd: cp.Annotations) -> None:
    found = cp.compare(replace(crowd, gold=None), methods=["majority-vote", "dawid-skene"], seeds=2)
    assert [row.method for row in found.rows] == ["dawid-skene", "majority-vote"]
    assert found.recommended == "dawid-skene"
    assert "held-out annotations" in found.reason
    assert all(row.accuracy is None for row in found.rows)
    assert "accuracy on gold" not in found.to_records()[0]


def test_with_gold_accuracy_decides(crowd: cp.Annotations) -> None:
    found = cp.compare(crowd, methods=["majority-vote", "dawid-skene"], seeds=1)
    assert found.rows[0].accuracy == pytest.approx(
        np.mean(found.results["dawid-skene"].labels() == crowd.classes[crowd.gold])
    )
    assert "items with gold" in found.reason
    assert found.rows[0].stability is None, "one seed has nothing to be compared with"


def test_the_same_call_gives_the_same_numbers(crowd: cp.Annotations) -> None:
    first, second = (cp.compare(crowd, methods=["mace", "glad"], seeds=2) for _ in range(2))
    for mine, yours in zip(first.rows, second.rows, strict=True):
        assert replace(mine, seconds=None) == replace(yours, seconds=None)


def test_a_method_that_fails_is_a_row_with_its_reason(crowd: cp.Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, *rest: object, **more: object) -> cp.FitResult:
        if name == "glad":
            raise ZeroDivisionError("by hand")
        return fitted(name, *rest, **more)

    fitted = running.fit_method
    monkeypatch.setattr(running, "fit_method", broken)
    found = cp.compare(crowd, methods=["glad", "majority-vote", "geocrowdnet"], seeds=1)
    assert [row.method for row in found.rows] == ["majority-vote", "geocrowdnet", "glad"]
    assert found.rows[1].failed == "It is a classifier and needs features of the items."
    assert found.rows[2].failed == "ZeroDivisionError: by hand"
    assert "only method" in found.reason


def test_ctrl_c_returns_what_was_measured(crowd: cp.Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    def impatient(name: str, *rest: object, **more: object) -> cp.FitResult:
        if name == "glad":
            raise KeyboardInterrupt
        return fitted(name, *rest, **more)

    fitted = running.fit_method
    monkeypatch.setattr(running, "fit_method", impatient)
    found = cp.compare(crowd, methods=["majority-vote", "glad", "mace"], seeds=1)
    assert found.interrupted
    assert [row.method for row in found.rows] == ["majority-vote"]


def test_classifiers_take_part_where_there_are_features(crowd: cp.Annotations) -> None:
    features = np.eye(3)[np.arange(300) % 3]
    settings = {"epochs": 20, "network": "linear"}
    blind = replace(crowd, gold=None)
    found = cp.compare(blind, features, methods=["geocrowdnet", "majority-vote"], seeds=1, settings=settings)
    assert found.recommended == "geocrowdnet"
    assert found.rows[0].log_likelihood > found.rows[1].log_likelihood


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"methods": ["dawid-skeen"]}, "dawid-skene"),
        ({"methods": []}, "empty"),
        ({"seeds": 0}, "at least 1"),
        ({"held_out": 1.0}, "above 0 and below 1"),
    ],
)
def test_wrong_parameters_are_refused(options: dict, told: str, crowd: cp.Annotations) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        cp.compare(crowd, **options)


def test_too_few_annotations_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="too few"):
        cp.compare([[0, 1]])


def test_one_item_is_enough_to_compare() -> None:
    found = cp.compare([[0, 1, 1, 1, 1, 1]], methods=["majority-vote"], seeds=1, held_out=0.2)
    assert found.recommended == "majority-vote"


def test_a_table_reads_as_text(crowd: cp.Annotations) -> None:
    found = cp.compare(crowd, methods=["majority-vote"], seeds=1)
    assert "majority-vote" in str(found)
    assert found.to_frame()["method"].to_list() == ["majority-vote"]


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


def test_one_labelling_agrees_with_no_other() -> None:
    assert mean_pairwise_agreement([np.array([0, 1])]) is None
    assert agreement_with_others({"only": np.array([0])}) == {"only": None}


def test_gold_counts_only_where_somebody_labelled() -> None:
    a = Annotations.from_triplets([0, 1], ["x", "x"], [0, 1], item_names=[0, 1, 2], gold={0: 0, 1: 0, 2: 1})
    assert gold_hits(np.array([0, 1, 0]), a).tolist() == [True, False]
    assert gold_hits(np.array([0]), Annotations.from_dense([[0, 1]])) is None

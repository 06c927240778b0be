"""Suggestions: closed forms, budget and capacity, and fewer labels than asking at random."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.diagnostics.next_labels import label_gain, suggest
from crowdprism.errors import InvalidParameterError
from crowdprism.results import FitResult
from crowdprism.simulate import demo_crowd, each_with_probability, one_coin, per_item, simulate_annotations

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from labelling_rounds import at_random, by_active_label_score, by_suggestion, replay


def fit(annotations: Annotations) -> FitResult:
    return make_aggregator("dawid-skene", use_gold=False).fit(annotations).result_


def by_hand(shares: np.ndarray, confusions: np.ndarray) -> tuple[FitResult, Annotations]:
    """A result with these numbers, and annotations in which only the last item was labelled, by everybody."""
    table = np.full((len(shares) + 1, len(confusions)), -1)
    table[-1] = np.arange(len(confusions)) % 2
    annotations = Annotations.from_dense(table, classes=range(shares.shape[1]))
    sure = np.eye(shares.shape[1])[:1]
    result = FitResult(
        method="by-hand",
        items=annotations.items,
        annotators=annotations.annotators,
        classes=annotations.classes,
        class_probabilities=np.vstack([shares, sure]),
        confusions=confusions,
    )
    return result, annotations


def test_gain_is_the_fall_of_entropy_worked_out_label_by_label() -> None:
    random = np.random.default_rng(0)
    shares, confusion = random.dirichlet(np.ones(3)), random.dirichlet(np.ones(3), size=3)

    def entropy(p: np.ndarray) -> float:
        return float(-(p * np.log2(p)).sum())

    expected = entropy(shares)
    for label in range(3):
        joint = shares * confusion[:, label]
        expected -= joint.sum() * entropy(joint / joint.sum())
    assert label_gain(shares[None], confusion[None])[0, 0] == pytest.approx(expected)


def test_the_unsure_item_goes_to_the_good_annotator() -> None:
    found = suggest(*by_hand(np.array([[0.5, 0.5], [0.99, 0.01]]), one_coin([0.6, 0.95], 2)), budget=1)
    assert (found.item.tolist(), found.annotator.tolist()) == ([0], [1])
    assert not found.stop
    assert found.expected_accuracy_after > found.expected_accuracy


def test_a_dear_annotator_must_be_worth_it() -> None:
    case = by_hand(np.array([[0.5, 0.5]]), one_coin([0.8, 0.95], 2))
    assert suggest(*case, budget=20, costs=[1.0, 1.5]).annotator.tolist() == [1]
    assert suggest(*case, budget=20, costs=[1.0, 9.0]).annotator.tolist() == [0]


def test_budget_capacity_and_labels_per_item_are_kept() -> None:
    case = by_hand(np.full((10, 2), 0.5), one_coin([0.9, 0.8, 0.7], 2))
    found = suggest(*case, budget=8, capacity=3)
    assert len(found) == 8
    assert np.bincount(found.annotator).tolist() == [3, 3, 2]
    assert len(set(found.item.tolist())) == 8
    twice = suggest(*case, budget=25, per_item=2)
    assert np.bincount(twice.item).tolist() == [2] * 10
    assert (twice.gain[10:] < twice.gain[:10].min()).all()


def test_nobody_is_asked_for_an_item_twice() -> None:
    result, annotations = by_hand(np.array([[0.5, 0.5]]), one_coin([0.9], 2))
    unsure = FitResult(
        method="by-hand",
        items=result.items,
        annotators=result.annotators,
        classes=result.classes,
        class_probabilities=np.full((2, 2), 0.5),
        confusions=result.confusions,
    )
    assert suggest(unsure, annotations, budget=5).item.tolist() == [0]


def test_it_says_when_to_stop() -> None:
    case = by_hand(np.array([[0.9, 0.1]]), one_coin([0.9], 2))
    assert "target" in suggest(*case, budget=1, target_accuracy=0.9).reason
    sure = by_hand(np.array([[1.0, 0.0]]), one_coin([0.9], 2))
    found = suggest(*sure, budget=1)
    assert found.stop
    assert "bits" in found.reason
    assert len(found.to_frame()) == 0


@pytest.mark.parametrize("wrong", [{"budget": 0}, {"budget": 1, "costs": [1.0, 2.0]}, {"budget": 1, "capacity": -1}])
def test_impossible_wishes_are_errors(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidParameterError):
        suggest(*by_hand(np.array([[0.5, 0.5]]), one_coin([0.9], 2)), **wrong)  # type: ignore[arg-type]


def saved(pool: Annotations, *, first: int, batch: int, at: int, seed: int = 0) -> tuple[float, float]:
    """Share of labels that suggestions and ActiveLab-style scores save against asking at random, at equal accuracy."""
    options = {"first": first, "batch": batch, "seed": seed}
    random = replay(pool, fit, at_random, n_rounds=at, **options)
    level = float(random.accuracy[-2:].mean())
    needed = random.labels_needed(level)
    curves = [replay(pool, fit, policy, n_rounds=at, **options) for policy in (by_suggestion, by_active_label_score)]
    suggestion, active = (1 - curve.labels_needed(level) / needed for curve in curves)
    return suggestion, active


@pytest.mark.filterwarnings("ignore::crowdprism.errors.ConvergenceWarning")
def test_suggestions_save_a_quarter_of_the_labels_of_a_varied_crowd() -> None:
    random = np.random.default_rng(0)
    crowd = one_coin(random.uniform(0.3, 0.9, 30), 4)
    pairs = each_with_probability(400, 30, probability=0.5)
    pool = simulate_annotations(random.integers(4, size=400), crowd, pairs)
    assert saved(pool, first=1, batch=100, at=12)[0] >= 0.25


@pytest.mark.filterwarnings("ignore::crowdprism.errors.ConvergenceWarning")
def test_suggestions_save_a_quarter_of_the_labels_of_the_demo_crowd() -> None:
    truth = np.random.default_rng(0).integers(10, size=400)
    pool = simulate_annotations(truth, demo_crowd().confusions, per_item(400, 40, labels=12))
    assert saved(pool, first=2, batch=100, at=12)[0] >= 0.25


@pytest.mark.filterwarnings("ignore::crowdprism.errors.ConvergenceWarning")
def test_suggestions_save_a_quarter_of_the_labels_of_textual_entailment() -> None:
    folder = os.environ.get("CROWDPRISM_DATA")
    if not folder:
        pytest.skip("CROWDPRISM_DATA is not set: no real annotations here")
    import polars as pl

    here = Path(folder) / "truth_inference" / "rte"
    rows, gold = pl.read_csv(here / "annotations.csv.gz"), pl.read_csv(here / "gold.csv.gz")
    truth = dict(zip(gold["item"].to_list(), gold["label"].to_list(), strict=True))
    pool = Annotations.from_triplets(rows["item"], rows["annotator"], rows["label"], gold=truth)
    assert saved(pool, first=1, batch=200, at=12)[0] >= 0.25


def test_no_annotator_is_asked_for_more_than_twice_an_equal_share() -> None:
    random = np.random.default_rng(0)
    truth = random.integers(2, size=200)
    error = np.array([0.02, 0.3, 0.3, 0.3, 0.3])
    votes = np.where(random.random((200, 5)) < error, 1 - truth[:, None], truth[:, None])
    votes[random.random((200, 5)) < 0.6] = -1
    a = Annotations.from_dense(votes)
    result = make_aggregator("dawid-skene", use_gold=False).fit(a).result_
    asked = suggest(result, a, budget=20)
    assert len(asked) == 20
    assert np.bincount(asked.annotator, minlength=5).max() <= 8
    assert np.bincount(suggest(result, a, budget=20, capacity=math.inf).annotator, minlength=5).max() > 8

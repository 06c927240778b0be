"""Weights of items, and training that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdprism.annotations import Annotations
from crowdprism.classifiers import CLASSIFIERS, CrowdClassifier, load_classifier, make_classifier
from crowdprism.errors import CrowdprismError, InvalidParameterError
from crowdprism.training.batches import drawn_visits

GIVEN = {"epochs": 2, "batch_size": 16, "network": "linear", "standardize": False, "dependence": None}
GIVEN |= {"input_noise": 0.0, "temperature": 1.0, "learning_rate": 0.05}  # classes in their order after two epochs
pytestmark = pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")


def crowd(n_items: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    truth = random.integers(3, size=n_items)
    X = (np.eye(3, 4)[truth] * 2 + random.normal(size=(n_items, 4))).astype(np.float32)
    table = np.where(random.random((n_items, 4)) < 0.75, truth[:, None], random.integers(0, 3, (n_items, 4)))
    return X, table, truth


def made(name: str = "geocrowdnet", **changes: Any) -> CrowdClassifier:
    return make_classifier(name, **{**GIVEN, **changes})


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_an_item_of_weight_two_counts_as_the_item_twice_and_one_of_weight_zero_is_absent(name: str) -> None:
    X, table, _ = crowd()
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    kept = np.flatnonzero(weight)
    repeated = np.concatenate([kept, np.repeat(kept, weight[kept] - 1)])
    by_weight = made(name).fit(X, Annotations.from_dense(table), sample_weight=weight)
    by_hand = made(name).fit(X[repeated], Annotations.from_dense(table[repeated]))
    np.testing.assert_array_equal(by_weight.predict_proba(X), by_hand.predict_proba(X))
    assert by_weight.result_.items.tolist() == kept.tolist()


def test_scaling_sees_no_item_of_weight_zero() -> None:
    X, table, _ = crowd()
    spoilt = X.copy()
    spoilt[0] = 1e9
    weight = np.r_[0.0, np.ones(len(X) - 1)]
    found, expected = (
        made(standardize=True).fit(*data, sample_weight=given)
        for data, given in (((spoilt, table), weight), ((X[1:], table[1:]), None))
    )
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def test_an_epoch_visits_items_as_often_as_their_weights_say() -> None:
    share = np.array([1.0, 0.25, 0.25, 0.5, 1.0])
    visits = [drawn_visits(share, np.random.default_rng(seed)) for seed in range(2000)]
    assert {len(one) for one in visits} == {3}
    np.testing.assert_allclose(np.bincount(np.concatenate(visits)) / 2000, share, atol=0.05)


def test_broken_weights_train_and_differ_from_whole_ones() -> None:
    X, table, _ = crowd()
    half, whole = (made(epochs=4).fit(X, table, sample_weight=np.full(len(X), weight)) for weight in (0.5, 1.0))
    assert half.result_.n_items == len(X)
    assert np.abs(half.predict_proba(X) - whole.predict_proba(X)).max() > 0


@pytest.mark.parametrize("weight", [np.zeros(40), -np.ones(40), np.full(40, np.nan), np.ones(39)])
def test_weights_that_make_no_sense_are_refused(weight: np.ndarray) -> None:
    X, table, _ = crowd()
    with pytest.raises(InvalidParameterError, match="sample_weight"):
        made().fit(X, table, sample_weight=weight)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_training_goes_on_from_where_it_was(name: str) -> None:
    X, table, _ = crowd()
    model = made(name).partial_fit(X, table, epochs=2)
    before = model.predict_proba(X)
    model.learning_rate = 0.0
    model.annotator_learning_rate = 0.0
    model.partial_fit(X[:20], Annotations.from_dense(table)[:20])
    assert model.result_.items.tolist() == list(range(20))
    assert len(model.histories_[0]["total"]) == 3
    np.testing.assert_allclose(model.predict_proba(X), before, atol=1e-6)


def test_many_short_calls_learn_as_one_fit_does() -> None:
    X, table, truth = crowd(200)
    model = made()
    for _ in range(15):
        model.partial_fit(X, table)
    assert np.mean(model.predict(X) == truth) > 0.85


def test_fit_begins_anew_after_partial_fit() -> None:
    X, table, _ = crowd()
    fresh, used = made().fit(X, table), made().partial_fit(X, table).fit(X, table)
    np.testing.assert_array_equal(fresh.predict_proba(X), used.predict_proba(X))


def test_classes_of_later_calls_are_announced_in_the_first() -> None:
    X, table, truth = crowd(90)
    first = truth < 2
    labels = Annotations.from_dense(table[:, :1])
    model = made().partial_fit(X[first], truth[first], classes=[0, 1, 2])
    model.partial_fit(X, truth)
    assert model.predict_proba(X).shape == (90, 3)
    with pytest.raises(CrowdprismError, match="annotator"):
        made().partial_fit(X, labels).partial_fit(X, Annotations.from_dense(table))


def test_a_loaded_model_cannot_go_on(tmp_path: Path) -> None:
    X, table, _ = crowd()
    made().fit(X, table).save(tmp_path / "run")
    with pytest.raises(InvalidParameterError, match="loaded model cannot go on"):
        load_classifier(tmp_path / "run").partial_fit(X, table)

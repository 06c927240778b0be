"""Calibration against closed forms, and temperatures that are known."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.annotations import Annotations
from crowdprism.diagnostics.calibration import (
    calibration,
    calibration_of,
    fit_gold_temperature,
    fit_temperature,
    with_temperature,
)
from crowdprism.errors import InvalidParameterError
from crowdprism.results import FitResult
from crowdprism.simulate import one_coin, per_item, simulate_annotations


def calibrated(n_items: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and true classes drawn from them."""
    random = np.random.default_rng(0)
    shares = random.dirichlet(np.ones(n_classes), size=n_items)
    return shares, (shares.cumsum(axis=1) < random.random((n_items, 1))).sum(axis=1)


def test_drawn_classes_make_probabilities_calibrated() -> None:
    found = calibration(*calibrated(50_000, 3))
    assert found.expected_calibration_error < 0.01
    assert found.accuracy == pytest.approx(found.mean_confidence, abs=0.01)


def test_always_sure_and_half_right_has_the_known_errors() -> None:
    shares = np.eye(2)[[0] * 10]
    truth = np.array([0, 1] * 5)
    found = calibration(shares, truth)
    assert found.expected_calibration_error == pytest.approx(0.5)
    assert found.brier_score == pytest.approx(1.0)
    assert "too high on average" in str(found)


def test_bins_hold_every_item_once() -> None:
    shares, truth = calibrated(1000, 4)
    assert calibration(np.vstack([shares, np.eye(4)]), np.append(truth, range(4))).curve.count.sum() == 1004


def test_masked_gold_is_left_out() -> None:
    gold = np.ma.MaskedArray([0, 1], mask=[False, True])
    assert calibration([[1.0, 0.0], [1.0, 0.0]], gold).n_items == 1


def test_no_gold_is_an_error() -> None:
    with pytest.raises(InvalidParameterError, match="No item"):
        calibration([[1.0, 0.0]], np.ma.MaskedArray([0], mask=[True]))
    annotations = Annotations.from_dense([[0, 1]])
    names = (annotations.items, annotations.annotators, annotations.classes)
    with pytest.raises(InvalidParameterError, match="no gold"):
        calibration_of(FitResult("by-hand", *names, np.full((1, 2), 0.5)), annotations)


def test_temperature_one_changes_nothing_and_large_ones_flatten() -> None:
    shares, _ = calibrated(10, 3)
    assert with_temperature(shares, 1.0) == pytest.approx(shares)
    assert with_temperature(shares, 1e6) == pytest.approx(np.full((10, 3), 1 / 3), abs=1e-4)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_held_out_annotations_find_the_temperature_without_gold(temperature: float) -> None:
    shares, truth = calibrated(4000, 3)
    crowd = one_coin([0.9, 0.8, 0.7], 3)
    held_out = simulate_annotations(truth, crowd, per_item(4000, 3, labels=2))
    found = fit_temperature(with_temperature(shares, 1 / temperature), crowd, held_out)
    assert found.value == pytest.approx(temperature, rel=0.1)
    assert found.after >= found.before


def test_gold_finds_how_much_too_sure_the_probabilities_are() -> None:
    shares, truth = calibrated(4000, 3)
    assert fit_gold_temperature(with_temperature(shares, 1 / 2.5), truth) == pytest.approx(2.5, rel=0.15)
    assert fit_gold_temperature(with_temperature(shares, 2.0), truth) == pytest.approx(1.0, abs=0.01)

"""Raykar's regression against weighted least squares, and its fixed point."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError, NotFittedError, UnsuitableDataError
from crowdprism.scoring.gaussian_ratings import PRIOR_RATINGS
from crowdprism.scoring.rating_regression import RatingRegression


def rated(seed: int = 0, n_items: int = 200) -> tuple[np.ndarray, Annotations, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, 3))
    spread = np.array([0.1, 0.5, 3.0])
    truth = X @ [1.0, -2.0, 0.5] + 4
    item, annotator = (side.ravel() for side in np.indices((n_items, 3)))
    ratings = np.round(truth[item] + spread[annotator] * rng.normal(size=len(item)), 3)
    return X, Annotations.from_triplets(item, annotator, ratings), spread


def test_coefficients_and_spreads_are_recovered() -> None:
    X, a, spread = rated()
    model = RatingRegression().fit(X, a)
    assert model.coef_ == pytest.approx([1.0, -2.0, 0.5], abs=0.03)
    assert model.intercept_ == pytest.approx(4, abs=0.03)
    assert model.spread_[1:] == pytest.approx(spread[1:], rel=0.25)
    assert model.spread_[0] < 0.5


def test_the_outcome_solves_both_equations() -> None:
    X, a, _ = rated(1)
    model = RatingRegression(ridge=0.0, max_iter=500, tolerance=1e-12).fit(X, a)
    values = np.array([float(name) for name in a.classes.tolist()])[a.label]
    residual = values - model.predict(X)[a.item]
    precision = 1 / np.square(model.spread_)[a.annotator]
    rows = np.column_stack([np.ones(len(X)), X])[a.item]
    assert rows.T @ (precision * residual) == pytest.approx(np.zeros(4), abs=1e-4 * precision.sum())
    squares = np.bincount(a.annotator, weights=residual**2)
    usual = (residual**2).mean()
    assert np.square(model.spread_) == pytest.approx(
        (squares + PRIOR_RATINGS * usual) / (200 + PRIOR_RATINGS), rel=1e-4
    )


def test_with_one_annotator_it_is_ordinary_least_squares() -> None:
    X, a, _ = rated(2)
    alone = a.select(a.annotator == 2)
    values = np.array([float(name) for name in alone.classes.tolist()])[alone.label]
    expected = np.linalg.lstsq(np.column_stack([np.ones(200), X]), values, rcond=None)[0]
    model = RatingRegression(ridge=0.0).fit(X, alone)
    assert [model.intercept_, *model.coef_] == pytest.approx(expected.tolist(), abs=1e-6)


def test_bad_input_is_named() -> None:
    X, a, _ = rated()
    with pytest.raises(InvalidParameterError, match=r"one row per item, \(200, n_features\)"):
        RatingRegression().fit(X[:5], a)
    with pytest.raises(NotFittedError):
        RatingRegression().predict(X)
    with pytest.raises(UnsuitableDataError, match="are no numbers"):
        RatingRegression().fit([[0.0]], Annotations.from_triplets([0, 0], ["a", "b"], ["good", "bad"]))

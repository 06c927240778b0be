"""Raykar's regression: ratings by annotators of unknown precision, explained by the items' features (JMLR 2010, 7).

By turns: weights by least squares with ratings counted by their annotator's precision, precisions from the residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from crowdprism.aggregators.em import FloatArray
from crowdprism.annotations import Annotations, as_annotations
from crowdprism.annotations.pairs import sums_by
from crowdprism.errors import InvalidParameterError, NotFittedError
from crowdprism.scoring.gaussian_ratings import PRIOR_RATINGS, TINY, rating_values


@dataclass
class RatingRegression:
    """Predict ratings from features, annotators counting by a precision that is learned.

    Parameters
    ----------
    ridge
        Weight of the squared coefficients, in units of one rating of the crowd's precision.
    max_iter, tolerance
        Rounds; they end when no prediction moves by more than `tolerance` standard deviations of the ratings.

    Attributes
    ----------
    coef_, intercept_
        (n_features,) and a number: the regression.
    spread_
        (n_annotators,) standard deviation of each annotator's noise.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> a = Annotations.from_dense((X @ [[2.0, 2.0]] + 1).astype(int))
    >>> RatingRegression(ridge=0.0).fit(X, a).predict([[4.0]]).round(1).tolist()
    [9.0]
    """

    ridge: float = 1e-3
    max_iter: int = 100
    tolerance: float = 1e-6
    coef_: FloatArray = field(init=False, repr=False)
    intercept_: float = field(init=False, repr=False)
    spread_: FloatArray = field(init=False, repr=False)

    def fit(self, X: Any, annotations: Any) -> Self:
        """Learn from features (n_items, n_features) and annotations whose labels are numbers."""
        data: Annotations = as_annotations(annotations)
        features = np.asarray(X, dtype=np.float64)
        if features.ndim != 2 or len(features) != data.n_items:
            raise InvalidParameterError(
                f"X must have one row per item, ({data.n_items}, n_features), not the shape {features.shape}."
            )
        values, who = rating_values(data), data.annotator
        weight = np.ones(len(values)) if data.weight is None else data.weight.astype(np.float64)
        rows = np.column_stack([np.ones(data.n_items), features])
        noise, before = np.full(data.n_annotators, max(float(values.var()), TINY)), np.full(data.n_items, np.inf)
        count = sums_by(who, weight, data.n_annotators)
        for _ in range(self.max_iter):
            solution = self._weights(rows, data.item, values, weight / noise[who] * noise.mean())
            found = rows @ solution
            squares = weight * np.square(values - found[data.item])
            usual = squares.sum() / max(weight.sum(), TINY)  # annotators with few ratings stay near the crowd's noise
            noise = (sums_by(who, squares, data.n_annotators) + PRIOR_RATINGS * usual) / (count + PRIOR_RATINGS) + TINY
            if np.abs(found - before).max(initial=0.0) <= self.tolerance * (values.std() + TINY):
                break
            before = found
        self.intercept_, self.coef_, self.spread_ = float(solution[0]), solution[1:], np.sqrt(noise)
        return self

    def _weights(self, rows: FloatArray, item: Any, values: FloatArray, precision: FloatArray) -> FloatArray:
        """Weighted least squares by item: the ratings of an item are one rating of their summed precision."""
        total, pulled = sums_by(item, precision, len(rows)), sums_by(item, precision * values, len(rows))
        penalty = np.diag(np.append(0.0, np.full(rows.shape[1] - 1, self.ridge)))
        return np.asarray(np.linalg.lstsq(rows.T @ (total[:, None] * rows) + penalty, rows.T @ pulled, rcond=None)[0])

    def predict(self, X: Any) -> FloatArray:
        """(n_items,) the rating that a noiseless annotator would give."""
        if not hasattr(self, "coef_"):
            raise NotFittedError("This RatingRegression is not fitted yet. Call fit(X, annotations) first.")
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.coef_ + self.intercept_)

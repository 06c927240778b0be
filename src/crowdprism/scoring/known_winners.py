"""Pairs whose better item is known: they hold the scores in that order, and tell how often judges are right.

A known winner has the higher score, however little the two differ: log density = log logistic(SHARPNESS * difference).
A known tie is half a win of either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.em import FloatArray
from crowdprism.annotations.pairs import sums_by
from crowdprism.scoring.comparisons import LEFT, RIGHT, SKIPPED, TIE
from crowdprism.scoring.many_items import laplacian

SHARPNESS = 8.0  # a known winner is held about a quarter of a unit of score ahead where judges say otherwise
SHARE = np.array([1.0, 0.0, 0.5])  # of the first item, by outcome
SWAPPED = np.array([RIGHT, LEFT, TIE])


@dataclass(frozen=True, eq=False)
class KnownWinners:
    """Known outcomes of pairs of items, the first with the lower code."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    outcome: NDArray[np.int64]  # as if the first stood left

    def log_density(self, theta: FloatArray) -> float:
        steep = SHARPNESS * (theta[self.first] - theta[self.second])
        return float((SHARE[self.outcome] * steep - np.logaddexp(0, steep)).sum())

    def gradient(self, theta: FloatArray) -> FloatArray:
        by_d = SHARPNESS * (SHARE[self.outcome] - self._expected(theta))
        return sums_by(self.first, by_d, len(theta)) - sums_by(self.second, by_d, len(theta))

    def information(self, theta: FloatArray) -> Any:
        """Sparse (n, n) for the n entries of theta, whose first are the scores; 0 without known pairs."""
        p = self._expected(theta)
        return laplacian(self.first, self.second, SHARPNESS**2 * p * (1 - p), len(theta)) if len(p) else 0

    def _expected(self, theta: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-np.logaddexp(0, SHARPNESS * (theta[self.second] - theta[self.first]))))

    def of_pairs(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n_pairs,) the known outcome of each pair as it was shown; SKIPPED where none is known."""
        if not len(self.first):
            return np.full(len(left), SKIPPED)
        first, second, outcome = self.first.tolist(), self.second.tolist(), self.outcome
        known = dict(zip(zip(first, second, strict=True), outcome.tolist(), strict=True))
        known |= dict(zip(zip(second, first, strict=True), SWAPPED[outcome].tolist(), strict=True))
        return np.array([known.get(pair, SKIPPED) for pair in zip(left.tolist(), right.tolist(), strict=True)])

    def n_ordered(self, scores: FloatArray) -> tuple[int, int]:
        """How many known winners have the higher of two scores, and how many there are; ties do not count."""
        right = np.sign(scores[self.first] - scores[self.second]) == 2 * SHARE[self.outcome] - 1
        return int(right[self.outcome != TIE].sum()), int((self.outcome != TIE).sum())

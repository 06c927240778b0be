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

    def __len__(self) -> int:
        return len(self.first)

    def _steep(self, theta: FloatArray) -> FloatArray:
        return SHARPNESS * (theta[self.first] - theta[self.second])

    def log_density(self, theta: FloatArray) -> float:
        steep = self._steep(theta)
        return float((SHARE[self.outcome] * steep - np.logaddexp(0, steep)).sum())

    def gradient(self, theta: FloatArray) -> FloatArray:
        by_d = SHARPNESS * (SHARE[self.outcome] - logistic(self._steep(theta)))
        return sums_by(self.first, by_d, len(theta)) - sums_by(self.second, by_d, len(theta))

    def information(self, theta: FloatArray) -> Any:
        """Sparse (n, n) for the n entries of theta, whose first are the scores; 0 without known pairs."""
        if not len(self):
            return 0
        p = logistic(self._steep(theta))
        return laplacian(self.first, self.second, SHARPNESS**2 * p * (1 - p), len(theta))

    def of_pairs(self, left: NDArray[np.int64], right: NDArray[np.int64], n_items: int) -> NDArray[np.int64]:
        """(n_pairs,) the known outcome of each pair as it was shown; SKIPPED where none is known."""
        if not len(self):
            return np.full(len(left), SKIPPED)
        key = np.minimum(left, right) * n_items + np.maximum(left, right)
        known = self.first * n_items + self.second
        place = np.minimum(np.searchsorted(known, key), len(self) - 1)
        outcome = np.where(left < right, self.outcome[place], SWAPPED[self.outcome[place]])
        return np.where(known[place] == key, outcome, SKIPPED)

    def n_ordered(self, scores: FloatArray) -> tuple[int, int]:
        """How many known winners have the higher of two scores, and how many there are; ties do not count."""
        ahead = (scores[self.first] - scores[self.second])[self.outcome != TIE]
        won = SHARE[self.outcome[self.outcome != TIE]] > 0
        return int((np.where(won, ahead, -ahead) > 0).sum()), len(ahead)


def logistic(values: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-np.logaddexp(0, -values)))

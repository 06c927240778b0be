"""Estimates with intervals, and the account of how far a result can be believed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

ANNOTATOR_LEVEL = 0.95  # of the intervals of annotators' accuracies
LEAST_NARROWING = 0.8  # answers that leave more than this share of the interval are not worth advising


@dataclass(frozen=True)
class Estimate:
    """A number with an interval that holds the truth in about `level` of all cases like this one."""

    value: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.value:.0%} ({self.low:.0%} to {self.high:.0%})"


@dataclass(frozen=True, eq=False)
class Account:
    """How far to believe a result; `crowdprism.calibration` makes it."""

    confidence: NDArray[np.float64]  # (n_items,) probability that each label is right; 1 or 0 where gold tells
    expected_accuracy: Estimate  # share of right labels among the annotated items
    annotators: Callable[..., tuple[NDArray[Any], NDArray[Any]]]  # their accuracy and its interval, of a `level`
    n_gold: int  # gold answers behind it; without any it rests on what other crowds reached
    n_more: int  # how many further answers to ask for
    half_width_after: float  # about how far the expected accuracy will then reach to either side

    @cached_property
    def _annotators(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.annotators(level=ANNOTATOR_LEVEL)

    @property
    def annotator_accuracy(self) -> NDArray[Any]:
        """(n_annotators,) share of right labels; NaN without annotations."""
        return self._annotators[0]

    @property
    def annotator_interval(self) -> NDArray[Any]:
        """(n_annotators, 2) interval of `annotator_accuracy` at a level of 95 %."""
        return self._annotators[1]

    def numbers(self) -> dict[str, Any]:
        """Everything but the arrays, for JSON."""
        return {
            "expected_accuracy": asdict(self.expected_accuracy),
            "n_gold": self.n_gold,
            "n_more": self.n_more,
            "half_width_after": self.half_width_after,
        }

    def sentence(self) -> str:
        """How right the labels are, and where that is known from."""
        known = f"by {self.n_gold:,} gold answers and what other crowds reached"
        if not self.n_gold:
            known = "by what other crowds reached; nothing here was checked against gold"
        return f"Expected right: {self.expected_accuracy}, {known}."

    def advice(self) -> str:
        """What further answers would tell; empty where they would tell little."""
        now = self.expected_accuracy
        if self.half_width_after >= LEAST_NARROWING * (now.high - now.low) / 2:
            return ""
        return f"{self.n_more} answers would narrow it to about ±{100 * self.half_width_after:.0f} points."

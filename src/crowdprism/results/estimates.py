"""Estimates with intervals, and the account of how far a result can be believed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ANNOTATOR_LEVEL = 0.95  # of the intervals of annotators' accuracies


@dataclass(frozen=True)
class Estimate:
    """A number with an interval that holds the truth in about `level` of all cases like this one."""

    value: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.value:.1%} ({self.low:.0%} to {self.high:.0%})"


@dataclass(frozen=True, eq=False)
class Account:
    """How far to believe a result; `crowdprism.calibration` makes it.

    Attributes
    ----------
    confidence
        (n_items,) probability that each item's label is right; 1 or 0 where gold tells.
    expected_accuracy
        Share of right labels among the annotated items.
    annotator_accuracy
        (n_annotators,) how often each annotator is right on the items they labelled; NaN without annotations.
    annotator_interval
        (n_annotators, 2) its interval at a level of 95 %.
    n_gold
        Number of gold answers behind it; without any it rests on what other crowds reached.
    """

    confidence: NDArray[np.float64]
    expected_accuracy: Estimate
    annotator_accuracy: NDArray[np.float64]
    annotator_interval: NDArray[np.float64]
    n_gold: int

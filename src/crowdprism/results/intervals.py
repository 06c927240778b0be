"""Estimates with intervals: the account of how far a result can be believed, and credible intervals of annotators.

The Dirichlet posteriors of confusion rows hold expected counts of true classes, so credible intervals say how much an
annotator's own number of labels leaves open; doubt about the items' classes enters only through these counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError

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
        others = {name: getattr(self, name) for name in ("n_gold", "n_more", "half_width_after")}
        return {"expected_accuracy": asdict(self.expected_accuracy), **others}

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


FloatArray = NDArray[np.float64]


def beta_interval(first: Any, second: Any, *, level: float = 0.95) -> FloatArray:
    """Central interval (..., 2) of Beta(first, second); Beta(0, b) is certainly 0, and Beta(a, 0) is 1."""
    from scipy.special import betaincinv

    require_level(level)
    first, second = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    open_ended = (first > 0) & (second > 0)
    safe_first, safe_second = (np.where(open_ended, part, 1.0)[..., None] for part in (first, second))
    ends = betaincinv(safe_first, safe_second, tails)
    certain = np.where(first > 0, 1.0, 0.0)[..., None]
    return np.where(open_ended[..., None], ends, certain)


def confusion_interval(posterior: NDArray[Any], *, level: float = 0.95) -> FloatArray:
    """Interval (n_annotators, true class, given label, 2) of each entry of Dirichlet rows, which is a Beta variable."""
    posterior = np.asarray(posterior, dtype=np.float64)
    rest = posterior.sum(axis=-1, keepdims=True) - posterior
    return beta_interval(posterior, np.maximum(rest, 0.0), level=level)


def accuracy_interval(posterior: NDArray[Any], class_prior: NDArray[Any], *, level: float = 0.95) -> FloatArray:
    """Interval (n_annotators, 2) of accuracy, the prior-weighted diagonal: a Beta of the same mean and variance."""
    posterior = np.asarray(posterior, dtype=np.float64)
    totals = posterior.sum(axis=2)
    known = totals > 0  # a row without any count tells nothing: as if uniform
    diagonal = np.einsum("mkk->mk", posterior)
    share = np.where(known, diagonal / np.where(known, totals, 1.0), 0.5)
    spread = np.where(known, share * (1 - share) / (totals + 1), 1 / 12)
    mean = share @ class_prior
    variance = spread @ np.square(class_prior)
    doubtful = variance > 0
    size = np.where(doubtful, mean * (1 - mean) / np.where(doubtful, variance, 1.0) - 1, 1.0)
    ends = beta_interval(mean * size, (1 - mean) * size, level=level)
    return np.where(doubtful[:, None], ends, mean[:, None])


def require_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidParameterError(f"level must lie between 0 and 1, not {level}.")

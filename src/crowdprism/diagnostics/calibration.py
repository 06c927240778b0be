"""Are probabilities calibrated? Comparison with gold, and temperature scaling without gold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.diagnostics.label_evidence import FloatArray
from crowdprism.errors import InvalidParameterError
from crowdprism.results import FitResult
from crowdprism.results.confusion import normalize_logs

N_BINS = 15
TEMPERATURES = (0.05, 20.0)
FLOOR = 1e-12
WRONG_GOLD_SHARE = 0.02  # of gold labels, taken to be wrong while a temperature is fitted to gold


@dataclass(frozen=True)
class ReliabilityCurve:
    """Mean confidence and accuracy in bins of equal width; empty bins are NaN."""

    edges: FloatArray  # (n_bins + 1,)
    confidence: FloatArray  # (n_bins,)
    accuracy: FloatArray  # (n_bins,)
    count: NDArray[np.int64]  # (n_bins,) items in each bin


def checked(class_probabilities: Any, true_classes: Any) -> tuple[FloatArray, NDArray[np.int64]]:
    """Probabilities and true classes of equal length, those with masked truth left out."""
    shares = np.asarray(class_probabilities, dtype=float)
    if shares.ndim != 2 or len(shares) != len(true_classes):
        raise InvalidParameterError(
            f"Calibration compares (n_items, n_classes) probabilities with one class each; got {shares.shape} "
            f"and {len(true_classes)} classes."
        )
    known = ~np.ma.getmaskarray(true_classes)
    truth = np.asarray(np.ma.getdata(true_classes), dtype=np.int64)[known]
    if not len(truth):
        raise InvalidParameterError("No item has a known true class; calibration against gold needs some.")
    return shares[known], truth


@dataclass(frozen=True)
class Calibration:
    """Calibration of class probabilities against gold."""

    expected_calibration_error: float  # mean absolute gap between confidence and accuracy, weighted by items (ECE)
    brier_score: float  # mean squared distance between probabilities and the one-hot truth, 0 to 2
    accuracy: float
    mean_confidence: float
    n_items: int
    curve: ReliabilityCurve

    def __str__(self) -> str:
        gap = self.mean_confidence - self.accuracy
        return (
            f"calibration error {self.expected_calibration_error:.3f}, Brier score {self.brier_score:.3f}; "
            f"probabilities are {abs(gap):.3f} too {'high' if gap > 0 else 'low'} on average "
            f"({self.n_items} items with gold)"
        )


def calibration(class_probabilities: Any, true_classes: Any, *, n_bins: int = N_BINS) -> Calibration:
    """Calibration error, Brier score and reliability curve of class probabilities (n_items, n_classes).

    `true_classes` (n_items,) are class positions, such as `annotations.gold`; masked ones are left out.

    Examples
    --------
    >>> print(calibration([[0.9, 0.1]] * 10, [0] * 9 + [1]))
    calibration error 0.000, Brier score 0.180; probabilities are 0.000 too low on average (10 items with gold)
    """
    shares, truth = checked(class_probabilities, true_classes)
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == truth
    # The right edge belongs to a bin, so that a confidence of exactly one is counted.
    place = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    count = np.bincount(place, minlength=n_bins)
    filled = np.where(count > 0, count, np.nan)
    mean, share = (np.bincount(place, values, n_bins) / filled for values in (confidence, right))
    of_truth = shares[np.arange(len(truth)), truth]
    return Calibration(
        expected_calibration_error=float((np.nan_to_num(np.abs(mean - share)) * count).sum() / len(truth)),
        brier_score=float(np.mean(np.square(shares).sum(axis=1) - 2 * of_truth + 1)),
        accuracy=float(right.mean()),
        mean_confidence=float(confidence.mean()),
        n_items=len(truth),
        curve=ReliabilityCurve(np.linspace(0, 1, n_bins + 1), mean, share, count),
    )


def with_temperature(class_probabilities: Any, temperature: float) -> FloatArray:
    """Sharpen (below 1) or soften (above 1) probabilities: p^(1/T), made to sum to one.

    Examples
    --------
    >>> with_temperature([[0.8, 0.2]], 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    return normalize_logs(np.log(np.maximum(np.asarray(class_probabilities, dtype=float), FLOOR)) / temperature)


@dataclass(frozen=True)
class Temperature:
    """A temperature, and the mean log likelihood of held-out annotations before and after."""

    value: float
    before: float
    after: float


def fit_temperature(class_probabilities: Any, confusions: Any, held_out: Annotations) -> Temperature:
    """Find the temperature of class probabilities that best explains held-out annotations.

    This needs no gold: the probability of a label follows from the class probabilities (n_items, n_classes) and the
    annotator's confusion (n_annotators, true class, given label). `held_out` are annotations left out of training, as
    from `Annotations.split_annotations`, with items and annotators in the same order.
    """
    from scipy.optimize import minimize_scalar

    seen_through = np.asarray(confusions, dtype=float)[held_out.annotator, :, held_out.label]
    if not len(seen_through):
        raise InvalidParameterError("No annotation was held out; split some off with Annotations.split_annotations.")
    shares = np.asarray(class_probabilities, dtype=float)

    def mean_log_likelihood(temperature: float) -> float:
        mixed = (with_temperature(shares, temperature)[held_out.item] * seen_through).sum(axis=1)
        return float(np.log(np.maximum(mixed, FLOOR)).mean())

    limits = np.log(TEMPERATURES)
    found = minimize_scalar(lambda log: -mean_log_likelihood(float(np.exp(log))), bounds=limits, method="bounded")
    return Temperature(float(np.exp(found.x)), mean_log_likelihood(1.0), -float(found.fun))


def fit_gold_temperature(class_probabilities: Any, true_classes: Any) -> float:
    """Find the temperature of at least 1 under which gold is most likely, if some of the gold is wrong.

    Probabilities of aggregators are often too high, because annotators make the same mistakes on hard items.
    """
    from scipy.optimize import minimize_scalar

    shares, truth = checked(class_probabilities, true_classes)

    def surprise(log: float) -> float:
        right = with_temperature(shares, float(np.exp(log)))[np.arange(len(truth)), truth]
        return -float(np.log((1 - WRONG_GOLD_SHARE) * right + WRONG_GOLD_SHARE / shares.shape[1]).mean())

    return float(np.exp(minimize_scalar(surprise, bounds=(0.0, np.log(TEMPERATURES[1])), method="bounded").x))


def calibration_of(result: FitResult, annotations: Annotations) -> Calibration:
    """Calibration of a result's class probabilities against the annotations' gold."""
    if annotations.gold is None:
        raise InvalidParameterError("These annotations have no gold; calibration needs some true classes.")
    return calibration(result.class_probabilities, annotations.gold)

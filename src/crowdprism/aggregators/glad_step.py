"""Expectation and gradient of GLAD: in NumPy for small data, compiled and threaded for large."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.cells import FloatArray
from crowdprism.aggregators.expectation import soft_classes
from crowdprism.aggregators.expectation_records import (
    HALVINGS,
    MAX_LOG_EASE,
    NEWTON_STEPS,
    PRIOR_MEAN,
    SMALL_LOGIT,
    GladExpectation,
)
from crowdprism.annotations import Annotations

# The plain way costs about 200 ns per annotation and sweep, and a fit takes some hundred sweeps.
COMPILE_ABOVE = 50_000


class GladStep:
    """Steps over the same annotations, under P(right) = sigmoid(ability of the annotator x ease of the item).

    Examples
    --------
    >>> step = GladStep(Annotations.from_dense([[0, 0, 1]]))
    >>> step.expect(np.ones(3), np.zeros(1)).right.round(2).tolist()
    [0.73, 0.73, 0.27]
    """

    def __init__(self, annotations: Annotations, *, compiled: bool | None = None) -> None:
        self.annotations = annotations
        self.compiled = annotations.n_annotations > COMPILE_ABOVE if compiled is None else compiled

    def expect(self, ability: FloatArray, log_ease: FloatArray, *, keep: bool = False) -> GladExpectation:
        """E step, all classes equally likely beforehand."""
        if self.compiled:
            from crowdprism.aggregators import glad_kernels

            return glad_kernels.expect(self.annotations, ability, ease_of(log_ease), keep=keep)
        n_items, n_classes = self.annotations.n_items, self.annotations.n_classes
        logit = self._logit(ability, log_ease)
        votes = self._weight * (logit + np.log(n_classes - 1))
        scores = np.bincount(self._place, weights=votes, minlength=n_items * n_classes).reshape(n_items, n_classes)
        probabilities, log_sums = soft_classes(scores - np.log(n_classes))
        shared = self._weight @ (np.logaddexp(0.0, logit) + np.log(n_classes - 1))
        right = probabilities.ravel()[self._place]
        return GladExpectation(log_sums - float(shared), right, probabilities if keep else None)

    def sweep(self, ability: FloatArray, log_ease: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Better ability and log ease for given right-probabilities; never worse.

        With x = ability x ease, an annotation that is right with probability t contributes t x - log(1 + exp x),
        which is at least (t - 1/2) x - c x^2 plus a constant, c = tanh(x/2) / (4 x) at the current x (Jaakkola and
        Jordan 2000). Of this bound and the normal priors the best ability is a quotient of two sums; the best log
        ease maximises a function of two sums.
        """
        if self.compiled:
            from crowdprism.aggregators import glad_kernels

            return glad_kernels.sweep(self.annotations, ability, log_ease, right)
        item, annotator = self.annotations.item, self.annotations.annotator
        pull = self._weight * (right - 0.5)
        own = ability[annotator]
        curvature = self._weight * bound_curvature(self._logit(ability, log_ease))
        log_ease = climb_log_ease(
            log_ease,
            np.bincount(item, pull * own, len(log_ease)).astype(np.float64),
            np.bincount(item, curvature * own**2, len(log_ease)).astype(np.float64),
        )
        ease = ease_of(log_ease)[item]
        curvature = self._weight * bound_curvature(self._logit(ability, log_ease))
        linear = PRIOR_MEAN + np.bincount(annotator, pull * ease, len(ability))
        quadratic = 1.0 + 2.0 * np.bincount(annotator, curvature * ease**2, len(ability))
        return linear / quadratic, log_ease

    def mean_right(self, ability: FloatArray, log_ease: FloatArray) -> FloatArray:
        """(n_annotators,) modelled probability of a right label, on average over the annotator's own items."""
        probability = self._weight / (1.0 + np.exp(-self._logit(ability, log_ease)))
        sums = np.bincount(self.annotations.annotator, probability, len(ability)).astype(np.float64)
        weights = np.bincount(self.annotations.annotator, self._weight, len(ability))
        return np.where(weights > 0, sums / np.where(weights > 0, weights, 1.0), 1 / (1 + np.exp(-ability)))

    def _logit(self, ability: FloatArray, log_ease: FloatArray) -> FloatArray:
        return np.asarray(ability[self.annotations.annotator] * ease_of(log_ease)[self.annotations.item])

    @cached_property
    def _weight(self) -> FloatArray:
        weight = self.annotations.weight
        return np.ones(self.annotations.n_annotations) if weight is None else weight.astype(np.float64)

    @cached_property
    def _place(self) -> NDArray[np.int64]:
        first = self.annotations.item.astype(np.int64) * self.annotations.n_classes
        return np.asarray(first + self.annotations.label)


def ease_of(log_ease: FloatArray) -> FloatArray:
    """exp(log ease), kept finite."""
    return np.exp(np.minimum(log_ease, MAX_LOG_EASE))


def bound_curvature(logit: FloatArray) -> FloatArray:
    """tanh(x/2) / (4 x), the curvature of the quadratic bound of log(1 + exp x) at x."""
    size = np.maximum(np.abs(logit), SMALL_LOGIT)
    return np.asarray(np.tanh(size / 2) / (4 * size))


def ease_gain(log_ease: FloatArray, linear: FloatArray, quadratic: FloatArray) -> FloatArray:
    """The bound and the prior as a function of log ease."""
    ease = ease_of(log_ease)
    return np.asarray(linear * ease - quadratic * ease**2 - 0.5 * np.square(log_ease - PRIOR_MEAN))


def climb_log_ease(log_ease: FloatArray, linear: FloatArray, quadratic: FloatArray) -> FloatArray:
    """Raise `ease_gain` by Newton steps of at most 1, halved where they would lower it."""
    for _ in range(NEWTON_STEPS):
        ease = ease_of(log_ease)
        slope = linear * ease - 2 * quadratic * ease**2 - (log_ease - PRIOR_MEAN)
        bend = np.maximum(1.0 + 4 * quadratic * ease**2 - linear * ease, 1.0)
        step = np.clip(slope / bend, -1.0, 1.0)
        before = ease_gain(log_ease, linear, quadratic)
        for _ in range(HALVINGS):
            worse = ease_gain(log_ease + step, linear, quadratic) < before
            if not worse.any():
                break
            step = np.where(worse, 0.5 * step, step)
        better = ease_gain(log_ease + step, linear, quadratic) >= before
        log_ease = np.where(better, log_ease + step, log_ease)
    return log_ease

"""GLAD: annotators differ in ability and items in difficulty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import Aggregator, require_room
from crowdprism.aggregators.em import TOLERANCE, Expectation, FloatArray, climb
from crowdprism.aggregators.expectation import soft_classes
from crowdprism.aggregators.one_coin import confusions_of
from crowdprism.annotations import Annotations
from crowdprism.parameters import Allowed, Real, Whole
from crowdprism.results import FitResult
from crowdprism.results.confusion import confusions_fit

MAX_ITER = 200
PRIOR_MEAN = 1.0  # of ability and of log ease, both with variance 1 (Whitehill et al. 2009)
NEWTON_STEPS = 3
HALVINGS = 4
SMALL_LOGIT = 1e-4  # below it tanh(x/2) / (4 x) is 1/8 to machine precision
MAX_LOG_EASE = 50.0  # far beyond what the prior N(1, 1) allows; only keeps exp finite in a wild line search


@dataclass(frozen=True, eq=False)
class GladModel:
    """Ability of each annotator (n_annotators,) and log ease of each item (n_items,)."""

    ability: FloatArray
    log_ease: FloatArray

    @property
    def penalty(self) -> float:
        """Log density of the normal priors, without constants."""
        return -0.5 * float(np.square(self.ability - PRIOR_MEAN).sum() + np.square(self.log_ease - PRIOR_MEAN).sum())


class GladEvidence:
    """Annotations under P(right) = sigmoid(ability of the annotator x ease of the item).

    Examples
    --------
    >>> evidence = GladEvidence(Annotations.from_dense([[0, 0, 1]]))
    >>> evidence.expect(GladModel(np.ones(3), np.zeros(1)), keep=False).counts.round(2).tolist()
    [0.73, 0.73, 0.27]
    """

    def __init__(self, annotations: Annotations) -> None:
        self.annotations = annotations
        self.item, self.annotator = annotations.item, annotations.annotator
        n_annotations = annotations.n_annotations
        self.weight = np.ones(n_annotations) if annotations.weight is None else annotations.weight.astype(np.float64)
        self.total_weight = float(self.weight.sum())

    @cached_property
    def _place(self) -> NDArray[np.int64]:
        """(n_annotations,) position of (item, label) in a table of items x classes."""
        return np.asarray(self.item.astype(np.int64) * self.annotations.n_classes + self.annotations.label)

    def _logit(self, model: GladModel) -> FloatArray:
        return np.asarray(model.ability[self.annotator] * ease_of(model.log_ease)[self.item])

    def _by_item(self, values: FloatArray) -> FloatArray:
        return np.bincount(self.item, values, self.annotations.n_items).astype(np.float64)

    def _by_annotator(self, values: FloatArray) -> FloatArray:
        return np.bincount(self.annotator, values, self.annotations.n_annotators).astype(np.float64)

    def expect(self, model: GladModel, *, keep: bool) -> Expectation:
        """E step, all classes equally likely; the counts are each annotation's probability of being right."""
        n_items, n_classes = self.annotations.n_items, self.annotations.n_classes
        logit = self._logit(model)
        votes = self.weight * (logit + np.log(n_classes - 1))
        scores = np.bincount(self._place, weights=votes, minlength=n_items * n_classes).reshape(n_items, n_classes)
        probabilities, log_sums = soft_classes(scores - np.log(n_classes))
        shared = (self.weight * (np.logaddexp(0.0, logit) + np.log(n_classes - 1))).sum()
        right = probabilities.ravel()[self._place]
        totals = probabilities.sum(axis=0)
        return Expectation(log_sums - float(shared), right, totals, probabilities if keep else None)

    def sweep(self, model: GladModel, right: FloatArray) -> GladModel:
        """Better ability and log ease for given right-probabilities; never worse.

        With x = ability x ease, an annotation that is right with probability t contributes t x - log(1 + exp x),
        which is at least (t - 1/2) x - c x^2 plus a constant, c = tanh(x/2) / (4 x) at the current x (Jaakkola and
        Jordan 2000). Of this bound and the normal priors the best ability is a quotient of two sums; the best log
        ease maximises a function of two sums.
        """
        pull = self.weight * (right - 0.5)
        own = model.ability[self.annotator]
        curvature = self.weight * bound_curvature(self._logit(model))
        log_ease = climb_log_ease(model.log_ease, self._by_item(pull * own), self._by_item(curvature * own**2))
        ease = ease_of(log_ease)[self.item]
        curvature = self.weight * bound_curvature(own * ease)
        linear = PRIOR_MEAN + self._by_annotator(pull * ease)
        quadratic = 1.0 + 2.0 * self._by_annotator(curvature * ease**2)
        return GladModel(linear / quadratic, log_ease)

    def mean_right(self, model: GladModel) -> FloatArray:
        """(n_annotators,) modelled probability of a right label, on average over the annotator's own items."""
        sums = self._by_annotator(self.weight / (1.0 + np.exp(-self._logit(model))))
        weights = self._by_annotator(self.weight)
        return np.where(weights > 0, sums / np.where(weights > 0, weights, 1.0), 1 / (1 + np.exp(-model.ability)))


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
    before = ease_gain(log_ease, linear, quadratic)
    for _ in range(NEWTON_STEPS):
        ease = ease_of(log_ease)
        slope = linear * ease - 2 * quadratic * ease**2 - (log_ease - PRIOR_MEAN)
        bend = np.maximum(1.0 + 4 * quadratic * ease**2 - linear * ease, 1.0)
        step = np.clip(slope / bend, -1.0, 1.0)
        after = ease_gain(log_ease + step, linear, quadratic)
        for _ in range(HALVINGS):
            worse = after < before
            if not worse.any():
                break
            step = np.where(worse, 0.5 * step, step)
            after = ease_gain(log_ease + step, linear, quadratic)
        better = after >= before
        log_ease = np.where(better, log_ease + step, log_ease)
        before = np.where(better, after, before)
    return log_ease


class GLAD(Aggregator):
    """Estimate each annotator's ability and each item's difficulty together with the classes (Whitehill et al. 2009).

    An annotation is right with probability sigmoid(ability x ease); wrong labels are equally likely. A negative
    ability is that of an adversary, and is put to use. `skills` of the result are abilities; its confusions hold the
    average probability of a right label over the annotator's own items.

    Parameters
    ----------
    max_iter, tolerance
        EM ends after `max_iter` iterations, or when the objective gains less than `tolerance` per annotation.
    n_sweeps
        Sweeps over all abilities and difficulties in each M step.

    Attributes
    ----------
    difficulty_
        (n_items,) 1 / ease: 0 is an item that everyone gets right.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]])
    >>> result = GLAD().fit(a).result_
    >>> result.labels().tolist(), bool(result.skills[0] > result.skills[2])
    ([0, 1, 0, 1], True)
    """

    name: ClassVar[str] = "glad"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"max_iter": Whole(1), "tolerance": Real(0), "n_sweeps": Whole(1)}
    difficulty_: FloatArray

    def __init__(self, max_iter: int = MAX_ITER, tolerance: float = TOLERANCE, n_sweeps: int = 3) -> None:
        self.max_iter = max_iter
        self.tolerance = tolerance
        self.n_sweeps = n_sweeps

    def _aggregate(self, annotations: Annotations) -> FitResult:
        n_annotators, n_classes = annotations.n_annotators, annotations.n_classes
        require_room(annotations, n_rows=n_annotators, columns=n_classes, method="GLAD")
        evidence = GladEvidence(annotations)

        def improve(model: GladModel, expectation: Expectation) -> GladModel:
            for _ in range(self.n_sweeps):
                model = evidence.sweep(model, expectation.counts)
            return model

        start = GladModel(np.full(n_annotators, PRIOR_MEAN), np.full(annotations.n_items, PRIOR_MEAN))
        run = climb(evidence, start, improve, title="GLAD", max_iter=self.max_iter, tolerance=self.tolerance)
        self.difficulty_ = 1.0 / ease_of(run.model.log_ease)
        fits = confusions_fit(n_annotators, n_classes)
        return self._build_result(
            annotations,
            evidence.expect(run.model, keep=True).kept,
            confusions=confusions_of(evidence.mean_right(run.model), n_classes) if fits else None,
            skills=run.model.ability,
            class_prior=np.full(n_classes, 1 / n_classes),
            history={"objective": run.objective},
            warnings=run.notes("GLAD"),
        )

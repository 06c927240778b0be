"""GLAD: annotators differ in ability and items in difficulty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.blocks import Rows, rows_of
from crowdprism.aggregators.em import TOLERANCE, Expectation, FloatArray, Sums, climb
from crowdprism.aggregators.one_coin import confusions_of
from crowdprism.aggregators.sources import OutOfCore, require_room, source_of
from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.annotations.pairs import sums_by
from crowdprism.parameters import Allowed, Whole
from crowdprism.results import FitResult

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

    def logit(self, rows: Rows, log_ease: FloatArray) -> FloatArray:
        """(annotations,) ability x ease, of a range of items whose log ease is given."""
        return np.asarray(self.ability[rows.annotator] * ease_of(log_ease)[rows.item])


class GladEvidence:
    """Annotations under P(right) = sigmoid(ability of the annotator x ease of the item)."""

    def __init__(self, annotations: Annotations) -> None:
        self.annotations, self.source = annotations, source_of(annotations)
        self.journal = self.source.journal
        self.groups = self.source.bounds(annotations.n_annotators)
        self._sum = partial(self.source.sum_blocks, self.groups)
        self.weights = self.source.weight_per_annotator
        self.total_weight = float(self.weights.sum())

    def expect(self, model: GladModel, *, keep: bool) -> Expectation:
        """E step, all classes equally likely.

        With `keep`, class probabilities are kept; else, in memory, each annotation's probability of being right.
        """
        data = self.annotations
        if not isinstance(data, OutOfCore):
            add = partial(add_expectation, model, "rows" if keep else "right", None)
            return self._sum(add, counts_shape=(0,))
        found = self._sum(partial(add_expectation, model, None, data.labels if keep else None), counts_shape=(0,))
        if not keep:
            return found
        sample = data.sample
        shown = GladModel(model.ability, model.log_ease[:: -(-len(model.log_ease) // sample.n_items)])
        return replace(found, class_probabilities=GladEvidence(sample).expect(shown, keep=True).kept)

    def sweep(self, model: GladModel, start: GladModel, expectation: Expectation) -> GladModel:
        """Better ability and log ease for the right-probabilities of the model at the start; never worse.

        With x = ability x ease, an annotation that is right with probability t contributes t x - log(1 + exp x),
        which is at least (t - 1/2) x - c x^2 plus a constant, c = tanh(x/2) / (4 x) at the current x (Jaakkola and
        Jordan 2000). Of this bound and the normal priors the best ability is a quotient of two sums; the best log
        ease maximises a function of two sums.
        """
        add = partial(add_sweep, model, start, expectation.class_probabilities)
        found = self._sum(add, counts_shape=(2, len(model.ability)))
        linear, quadratic = PRIOR_MEAN + found.counts[0], 1.0 + 2.0 * found.counts[1]
        return GladModel(linear / quadratic, found.kept)

    def mean_right(self, model: GladModel) -> FloatArray:
        """(n_annotators,) modelled probability of a right label, on average over the annotator's own items."""
        sums = self._sum(partial(add_mean_right, model), counts_shape=(len(model.ability),)).counts
        known = self.weights > 0
        return np.where(known, sums / np.where(known, self.weights, 1.0), 1 / (1 + np.exp(-model.ability)))


def add_expectation(
    model: GladModel, wanted: str | None, labels: Any, block: Annotations, first: int, last: int, sums: Sums, place: int
) -> None:
    """Add the log likelihood of items; keep what is wanted of them."""
    rows = rows_of(block, first, last)
    probabilities, log_likelihood = class_probabilities(model, block, rows, first, last, place)
    sums.carried[0] = np.cumsum(np.append(sums.carried[0], log_likelihood))[-1]  # item by item
    if wanted is not None:
        sums.pieces.append(probabilities if wanted == "rows" else probabilities[rows.item, rows.label])
    if labels is not None:
        labels.write(block, first, last, probabilities)


def class_probabilities(
    model: GladModel, block: Annotations, rows: Rows, first: int, last: int, place: int
) -> tuple[FloatArray, FloatArray]:
    """(items, n_classes) class probabilities, and (items,) log likelihoods."""
    n_items, n_classes, gold = last - first, block.n_classes, known_classes(block)
    logit, weight = model.logit(rows, model.log_ease[place + first : place + last]), weight_of(rows)
    votes, spread = weight * (logit + np.log(n_classes - 1)), np.log(n_classes - 1)
    scores = np.bincount(rows.item * n_classes + rows.label, votes, n_items * n_classes).reshape(n_items, n_classes)
    if gold is not None:
        known = gold[first:last, None]
        scores[(known >= 0) & (known != np.arange(n_classes))] = -np.inf
    top = scores.max(axis=1, keepdims=True)
    joint = np.exp(scores - top)
    total = joint.sum(axis=1, keepdims=True)
    shared = np.bincount(rows.item, weight * (np.logaddexp(0.0, logit) + spread), n_items)
    return joint / total, (top + np.log(total))[:, 0] - np.log(n_classes) - shared


def add_sweep(
    model: GladModel,
    start: GladModel,
    right: FloatArray | None,  # (all annotations,) where they are in memory
    block: Annotations,
    first: int,
    last: int,
    sums: Sums,
    place: int,
) -> None:
    """Better log ease of items, which is kept; then add what better abilities follow from."""
    rows, n_items = rows_of(block, first, last), last - first
    if right is None:
        found = class_probabilities(start, block, rows, first, last, place)[0][rows.item, rows.label]
    else:
        found = right[rows.own]
    weight, own = weight_of(rows), model.ability[rows.annotator]
    pull, log_ease = weight * (found - 0.5), model.log_ease[place + first : place + last]
    curvature = weight * bound_curvature(model.logit(rows, log_ease))
    linear, quadratic = (sums_by(rows.item, one, n_items) for one in (pull * own, curvature * own**2))
    log_ease = climb_log_ease(log_ease, linear, quadratic)
    ease = ease_of(log_ease)[rows.item]
    curvature = weight * bound_curvature(own * ease)
    np.add.at(sums.counts[0], rows.annotator, pull * ease)
    np.add.at(sums.counts[1], rows.annotator, curvature * ease**2)
    sums.pieces.append(log_ease)


def add_mean_right(model: GladModel, block: Annotations, first: int, last: int, sums: Sums, place: int) -> None:
    rows = rows_of(block, first, last)
    logit = model.logit(rows, model.log_ease[place + first : place + last])
    np.add.at(sums.counts, rows.annotator, weight_of(rows) / (1.0 + np.exp(-logit)))


def weight_of(rows: Rows) -> Any:
    return 1.0 if rows.weight is None else rows.weight.astype(np.float64)


def ease_of(log_ease: FloatArray) -> FloatArray:
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


@dataclass(eq=False, repr=False)
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
    >>> result = GLAD().fit([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]]).result_
    >>> result.labels().tolist(), bool(result.skills[0] > result.skills[2])
    ([0, 1, 0, 1], True)
    """

    name: ClassVar[str] = "glad"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"n_sweeps": Whole(1)}
    difficulty_: FloatArray = field(init=False)

    max_iter: int = MAX_ITER
    tolerance: float = TOLERANCE
    n_sweeps: int = 3

    def _aggregate(self, annotations: Annotations) -> FitResult:
        n_annotators, n_classes = annotations.n_annotators, annotations.n_classes
        if not isinstance(annotations, OutOfCore):
            require_room(annotations, n_rows=n_annotators, columns=n_classes, method="GLAD")
        evidence = GladEvidence(annotations)

        def improve(model: GladModel, expectation: Expectation) -> GladModel:
            better = model
            for _ in range(self.n_sweeps):
                better = evidence.sweep(better, model, expectation)
            return better

        start = GladModel(np.full(n_annotators, PRIOR_MEAN), np.full(annotations.n_items, PRIOR_MEAN))
        run = climb(evidence, start, improve, title="GLAD", max_iter=self.max_iter, tolerance=self.tolerance)
        self.difficulty_ = 1.0 / ease_of(run.model.log_ease)
        return self._build_result(
            annotations,
            evidence.expect(run.model, keep=True).kept,
            confusions=confusions_of(evidence.mean_right(run.model), n_classes),
            skills=run.model.ability,
            class_prior=np.full(n_classes, 1 / n_classes),
            history={"objective": run.objective},
            warnings=run.notes("GLAD"),
        )

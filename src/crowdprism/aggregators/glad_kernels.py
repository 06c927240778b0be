"""Compiled, threaded form of `glad_step`; imported only when data are large. See `kernels` for the reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from crowdprism.aggregators.cells import FloatArray
from crowdprism.aggregators.expectation_records import (
    HALVINGS,
    MAX_LOG_EASE,
    NEWTON_STEPS,
    PRIOR_MEAN,
    SMALL_LOGIT,
    GladExpectation,
)
from crowdprism.aggregators.kernels import NO_WEIGHT, n_threads, run_blocks
from crowdprism.machine_code import FAST
from crowdprism.aggregators.vote_kernels import unsigned
from crowdprism.annotations import Annotations


def expect(annotations: Annotations, ability: FloatArray, ease: FloatArray, *, keep: bool) -> GladExpectation:
    """`GladStep.expect`, compiled."""
    probabilities = np.empty((annotations.n_items if keep else 0, annotations.n_classes))
    right = np.empty(annotations.n_annotations)
    label, annotator = unsigned(annotations.label), annotations.annotator.view(np.uint32)
    weight = NO_WEIGHT if annotations.weight is None else annotations.weight

    def work(block: int, first: int, last: int) -> Any:
        return _expect_glad(
            annotations.item_start,
            annotator,
            label,
            weight,
            ability,
            ease,
            annotations.n_classes,
            first,
            last,
            right,
            probabilities,
        )

    parts = run_blocks(work, annotations.item_start, n_threads())
    return GladExpectation(float(sum(parts)), right, probabilities if keep else None)


def sweep(
    annotations: Annotations, ability: FloatArray, log_ease: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """`GladStep.sweep`, compiled."""
    linear, quadratic = np.zeros((2, n_threads(), len(ability)))
    raised = np.empty(len(log_ease))
    annotator = annotations.annotator.view(np.uint32)
    weight = NO_WEIGHT if annotations.weight is None else annotations.weight

    def work(block: int, first: int, last: int) -> Any:
        _sweep_glad(
            annotations.item_start,
            annotator,
            weight,
            ability,
            log_ease,
            right,
            first,
            last,
            linear[block],
            quadratic[block],
            raised,
        )

    run_blocks(work, annotations.item_start, n_threads())
    return (PRIOR_MEAN + linear.sum(axis=0)) / (1.0 + 2.0 * quadratic.sum(axis=0)), raised


@njit(nogil=True, cache=True, fastmath=FAST)
def _expect_glad(  # type: ignore[no-untyped-def]
    item_start, annotator, label, weight, ability, ease, n_classes, first, last, right, probabilities
):
    row = np.empty(n_classes)
    log_others = np.log(n_classes - 1)
    log_prior = -np.log(n_classes)
    log_likelihood = 0.0
    weighted = weight.shape[0] > 0
    keep = probabilities.shape[0] > 0
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        for k in range(n_classes):
            row[k] = 0.0
        shared = 0.0
        for j in range(begin, end):
            w = np.float64(weight[j]) if weighted else 1.0
            logit = ability[annotator[j]] * ease[item]
            row[label[j]] += w * (logit + log_others)
            shared += w * (max(logit, 0.0) + np.log1p(np.exp(-abs(logit))) + log_others)
        top = row[0]
        for k in range(1, n_classes):
            top = max(top, row[k])
        norm = 0.0
        for k in range(n_classes):
            row[k] = np.exp(row[k] - top)
            norm += row[k]
        for k in range(n_classes):
            row[k] /= norm
        log_likelihood += top + np.log(norm) + log_prior - shared
        for j in range(begin, end):
            right[j] = row[label[j]]
        if keep:
            for k in range(n_classes):
                probabilities[item, k] = row[k]
    return log_likelihood


@njit(nogil=True, cache=True, fastmath=FAST)
def _bound_curvature(logit):  # type: ignore[no-untyped-def]
    size = max(abs(logit), SMALL_LOGIT)
    small = np.exp(-size)
    return (1.0 - small) / ((1.0 + small) * 4.0 * size)


@njit(nogil=True, cache=True, fastmath=FAST)
def _ease_gain(log_ease, linear, quadratic):  # type: ignore[no-untyped-def]
    ease = np.exp(min(log_ease, MAX_LOG_EASE))
    return linear * ease - quadratic * ease * ease - 0.5 * (log_ease - PRIOR_MEAN) ** 2


@njit(nogil=True, cache=True, fastmath=FAST)
def _climb_log_ease(log_ease, linear, quadratic):  # type: ignore[no-untyped-def]
    before = _ease_gain(log_ease, linear, quadratic)
    for _ in range(NEWTON_STEPS):
        ease = np.exp(min(log_ease, MAX_LOG_EASE))
        slope = linear * ease - 2.0 * quadratic * ease * ease - (log_ease - PRIOR_MEAN)
        bend = max(1.0 + 4.0 * quadratic * ease * ease - linear * ease, 1.0)
        step = min(max(slope / bend, -1.0), 1.0)
        after = _ease_gain(log_ease + step, linear, quadratic)
        for _ in range(HALVINGS):
            if after >= before:
                break
            step *= 0.5
            after = _ease_gain(log_ease + step, linear, quadratic)
        if after < before:
            break
        log_ease += step
        before = after
    return log_ease


@njit(nogil=True, cache=True, fastmath=FAST)
def _sweep_glad(  # type: ignore[no-untyped-def]
    item_start, annotator, weight, ability, log_ease, right, first, last, linear, quadratic, raised
):
    weighted = weight.shape[0] > 0
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        ease = np.exp(min(log_ease[item], MAX_LOG_EASE))
        item_linear = 0.0
        item_quadratic = 0.0
        for j in range(begin, end):
            w = np.float64(weight[j]) if weighted else 1.0
            own = ability[annotator[j]]
            item_linear += w * (right[j] - 0.5) * own
            item_quadratic += w * _bound_curvature(own * ease) * own * own
        raised[item] = _climb_log_ease(log_ease[item], item_linear, item_quadratic)
        ease = np.exp(min(raised[item], MAX_LOG_EASE))
        for j in range(begin, end):
            w = np.float64(weight[j]) if weighted else 1.0
            m = annotator[j]
            linear[m] += w * (right[j] - 0.5) * ease
            quadratic[m] += w * _bound_curvature(ability[m] * ease) * ease * ease

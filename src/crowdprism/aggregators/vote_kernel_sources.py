"""The expectation steps of `vote_kernels` and `glad_kernels`, as numba compiles them; only making machine code imports
this module. `kernel_sources` has the reasons behind the way they are written, and how arrays are passed.

`totals` has one more place than there are classes: the last is for the log likelihood.
"""

# The functions have the types that `KERNELS` of the two modules give them; they are never called as Python.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
from numba import njit

from crowdprism.aggregators.expectation_records import (
    HALVINGS,
    MAX_LOG_EASE,
    NEWTON_STEPS,
    PRIOR_MEAN,
    SMALL_LOGIT,
)
from crowdprism.aggregators.row_sources import (
    RESCALE_EVERY,
    add,
    clear,
    copy,
    divide_and_add,
    exponentiate,
    normalize,
    store,
)
from crowdprism.kernel_scratch import free_doubles, new_doubles
from crowdprism.machine_code import FAST

UNDERFLOW = 1e-150
OVERFLOW = 1.0 / UNDERFLOW


def expect(item_start, source, label, odds, prior, width, first, last, keep, hits, probabilities, totals):
    """`vote_kernels.expect` for items from `first` to before `last`, all weights 1."""
    row = new_doubles(width)
    width = np.uint64(width)
    log_likelihood = 0.0
    scale = 1.0
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        copy(row, prior, width)
        done = begin
        while done < end:
            stop = min(done + np.uint64(RESCALE_EVERY), end)
            for j in range(done, stop):
                row[np.uint64(label[j])] *= odds[np.uint64(source[j])]
            done = stop
            norm = normalize(row, width)
            scale *= norm
            if scale < UNDERFLOW or scale > OVERFLOW:
                log_likelihood += np.log(scale)
                scale = 1.0
        if begin < end:
            add(totals, row, width)
            for j in range(begin, end):
                hits[np.uint64(source[j])] += row[np.uint64(label[j])]
        if keep:
            store(probabilities, item, row, width)
    totals[width] = log_likelihood + np.log(scale)
    free_doubles(row)


def expect_weighted(
    item_start, source, label, weight, odds, prior, width, first, last, keep, hits, probabilities, totals
):
    """The same with weights; `odds` then holds logs."""
    row = new_doubles(width)
    width = np.uint64(width)
    log_likelihood = 0.0
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        mass = 0.0
        clear(row, width)
        for j in range(begin, end):
            w = np.float64(weight[j])
            mass += w
            row[np.uint64(label[j])] += w * odds[np.uint64(source[j])]
        if mass > 0.0:
            top, norm = exponentiate(row, prior, width, width)
            log_likelihood += top + np.log(norm)
            divide_and_add(totals, row, norm, width)
            for j in range(begin, end):
                hits[np.uint64(source[j])] += np.float64(weight[j]) * row[np.uint64(label[j])]
        else:
            copy(row, prior, width)
        if keep:
            store(probabilities, item, row, width)
    totals[width] = log_likelihood
    free_doubles(row)


def count_votes(item_start, source, label, weight, width, weighted, first, last, hits, totals):
    """`vote_kernels.count_votes` for items from `first` to before `last`."""
    row = new_doubles(width)
    width = np.uint64(width)
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        mass = 0.0
        clear(row, width)
        for j in range(begin, end):
            w = np.float64(weight[j]) if weighted else 1.0
            row[np.uint64(label[j])] += w
            mass += w
        if mass > 0.0:
            divide_and_add(totals, row, mass, width)
            for j in range(begin, end):
                w = np.float64(weight[j]) if weighted else 1.0
                hits[np.uint64(source[j])] += w * row[np.uint64(label[j])]
    free_doubles(row)


def expect_glad(
    item_start, annotator, label, weight, ability, ease, width, weighted, first, last, keep, right, probabilities, total
):
    """`glad_kernels.expect` for items from `first` to before `last`; `total` is for the log likelihood."""
    row = new_doubles(width)
    log_others = np.log(np.float64(width - 1))
    log_prior = -np.log(np.float64(width))
    width = np.uint64(width)
    log_likelihood = 0.0
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        clear(row, width)
        shared = 0.0
        for j in range(begin, end):
            w = np.float64(weight[j]) if weighted else 1.0
            logit = ability[np.uint64(annotator[j])] * ease[item]
            row[np.uint64(label[j])] += w * (logit + log_others)
            shared += w * (max(logit, 0.0) + np.log1p(np.exp(-abs(logit))) + log_others)
        top = row[0]
        for k in range(width):
            top = max(top, row[k])
        norm = 0.0
        for k in range(width):
            row[k] = np.exp(row[k] - top)
            norm += row[k]
        for k in range(width):
            row[k] /= norm
        log_likelihood += top + np.log(norm) + log_prior - shared
        for j in range(begin, end):
            right[j] = row[np.uint64(label[j])]
        if keep:
            store(probabilities, item, row, width)
    total[0] = log_likelihood
    free_doubles(row)


@njit(fastmath=FAST)
def _bound_curvature(logit):
    size = max(abs(logit), SMALL_LOGIT)
    small = np.exp(-size)
    return (1.0 - small) / ((1.0 + small) * 4.0 * size)


@njit(fastmath=FAST)
def _ease_gain(log_ease, linear, quadratic):
    ease = np.exp(min(log_ease, MAX_LOG_EASE))
    return linear * ease - quadratic * ease * ease - 0.5 * (log_ease - PRIOR_MEAN) * (log_ease - PRIOR_MEAN)


@njit(fastmath=FAST)
def _climb_log_ease(log_ease, linear, quadratic):
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


def sweep_glad(
    item_start, annotator, weight, ability, log_ease, right, weighted, first, last, linear, quadratic, raised
):
    """`glad_kernels.sweep` for items from `first` to before `last`."""
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        ease = np.exp(min(log_ease[item], MAX_LOG_EASE))
        item_linear = 0.0
        item_quadratic = 0.0
        for j in range(begin, end):
            w = np.float64(weight[j]) if weighted else 1.0
            own = ability[np.uint64(annotator[j])]
            item_linear += w * (right[j] - 0.5) * own
            item_quadratic += w * _bound_curvature(own * ease) * own * own
        raised[item] = _climb_log_ease(log_ease[item], item_linear, item_quadratic)
        ease = np.exp(min(raised[item], MAX_LOG_EASE))
        for j in range(begin, end):
            w = np.float64(weight[j]) if weighted else 1.0
            m = np.uint64(annotator[j])
            linear[m] += w * (right[j] - 0.5) * ease
            quadratic[m] += w * _bound_curvature(ability[m] * ease) * ease * ease


# The same for more classes than 16 bits can tell apart.
expect_many, expect_weighted_many, count_votes_many, expect_glad_many = (
    expect,
    expect_weighted,
    count_votes,
    expect_glad,
)

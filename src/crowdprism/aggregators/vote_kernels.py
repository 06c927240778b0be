"""Compiled, threaded form of `vote_expectation`; imported only when data are large. See `kernels` for the reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crowdprism.aggregators.cells import FloatArray
from crowdprism.aggregators.expectation_records import VoteExpectation
from crowdprism.aggregators.kernels import NO_WEIGHT, n_threads, run_blocks
from crowdprism.machine_code import FAST
from crowdprism.annotations import Annotations

UNDERFLOW = 1e-150
OVERFLOW = 1.0 / UNDERFLOW


def expect(
    annotations: Annotations, source: NDArray[np.uint32], log_odds: FloatArray, prior: FloatArray, *, keep: bool
) -> VoteExpectation:
    """`VoteExpectationStep.__call__`, compiled."""
    probabilities = np.empty((annotations.n_items if keep else 0, len(prior)))
    hits = np.zeros((n_threads(), len(log_odds)))
    label = unsigned(annotations.label)
    if annotations.weight is None:
        kernel, odds, weight = _expect_votes, np.exp(log_odds), NO_WEIGHT
    else:
        kernel, odds, weight = _expect_votes_weighted, log_odds, annotations.weight

    def work(block: int, first: int, last: int) -> Any:
        return kernel(
            annotations.item_start, source, label, weight, odds, prior, first, last, hits[block], probabilities
        )

    parts = run_blocks(work, annotations.item_start, n_threads())
    return VoteExpectation(
        float(sum(part[0] for part in parts)),
        hits.sum(axis=0),
        np.sum([part[1] for part in parts], axis=0),
        probabilities if keep else None,
    )


def count_votes(annotations: Annotations, source: NDArray[np.uint32], n_sources: int) -> VoteExpectation:
    """`VoteExpectationStep.count_votes`, compiled."""
    hits = np.zeros((n_threads(), n_sources))
    label = unsigned(annotations.label)
    weight = NO_WEIGHT if annotations.weight is None else annotations.weight

    def work(block: int, first: int, last: int) -> Any:
        return _count_votes(
            annotations.item_start, source, label, weight, annotations.n_classes, first, last, hits[block]
        )

    totals = run_blocks(work, annotations.item_start, n_threads())
    return VoteExpectation(0.0, hits.sum(axis=0), np.sum(totals, axis=0), None)


def unsigned(label: NDArray[Any]) -> NDArray[Any]:
    """The same codes as unsigned numbers, without a copy."""
    return label.view(np.uint16 if label.dtype == np.int16 else np.uint32)


@njit(nogil=True, cache=True, fastmath=FAST)
def _expect_votes(item_start, source, label, weight, odds, prior, first, last, hits, probabilities):  # type: ignore[no-untyped-def]
    width = prior.shape[0]
    row = np.empty(width)
    totals = np.zeros(width)
    log_likelihood = 0.0
    scale = 1.0
    keep = probabilities.shape[0] > 0
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        for k in range(width):
            row[k] = prior[k]
        done = begin
        while done < end:
            stop = min(done + np.uint64(8), end)
            for j in range(done, stop):
                row[label[j]] *= odds[source[j]]
            done = stop
            norm = 0.0
            for k in range(width):
                norm += row[k]
            inverse = 1.0 / norm
            for k in range(width):
                row[k] *= inverse
            scale *= norm
            if scale < UNDERFLOW or scale > OVERFLOW:
                log_likelihood += np.log(scale)
                scale = 1.0
        if begin < end:
            for k in range(width):
                totals[k] += row[k]
            for j in range(begin, end):
                hits[source[j]] += row[label[j]]
        if keep:
            for k in range(width):
                probabilities[item, k] = row[k]
    return log_likelihood + np.log(scale), totals


@njit(nogil=True, cache=True, fastmath=FAST)
def _expect_votes_weighted(item_start, source, label, weight, odds, prior, first, last, hits, probabilities):  # type: ignore[no-untyped-def]
    width = prior.shape[0]
    row = np.empty(width)
    totals = np.zeros(width)
    log_likelihood = 0.0
    keep = probabilities.shape[0] > 0
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        mass = 0.0
        for k in range(width):
            row[k] = 0.0
        for j in range(begin, end):
            w = np.float64(weight[j])
            mass += w
            row[label[j]] += w * odds[source[j]]
        if mass > 0.0:
            top = -np.inf
            for k in range(width):
                if prior[k] > 0.0:
                    top = max(top, row[k])
            norm = 0.0
            for k in range(width):
                row[k] = prior[k] * np.exp(row[k] - top) if prior[k] > 0.0 else 0.0
                norm += row[k]
            log_likelihood += top + np.log(norm)
            for k in range(width):
                row[k] /= norm
                totals[k] += row[k]
            for j in range(begin, end):
                hits[source[j]] += np.float64(weight[j]) * row[label[j]]
        else:
            for k in range(width):
                row[k] = prior[k]
        if keep:
            for k in range(width):
                probabilities[item, k] = row[k]
    return log_likelihood, totals


@njit(nogil=True, cache=True, fastmath=FAST)
def _count_votes(item_start, source, label, weight, width, first, last, hits):  # type: ignore[no-untyped-def]
    row = np.empty(width)
    totals = np.zeros(width)
    weighted = weight.shape[0] > 0
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        mass = 0.0
        for k in range(width):
            row[k] = 0.0
        for j in range(begin, end):
            w = np.float64(weight[j]) if weighted else 1.0
            row[label[j]] += w
            mass += w
        if mass > 0.0:
            for k in range(width):
                row[k] /= mass
                totals[k] += row[k]
            for j in range(begin, end):
                w = np.float64(weight[j]) if weighted else 1.0
                hits[source[j]] += w * row[label[j]]
    return totals

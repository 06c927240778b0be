"""Compiled, threaded form of `vote_expectation`; imported only when data are large. See `kernels` for the reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.cells import FloatArray
from crowdprism.aggregators.expectation_records import VoteExpectation
from crowdprism.aggregators.kernels import NO_WEIGHT, n_threads, run_blocks
from crowdprism.annotations import Annotations
from crowdprism.machine_code import Kernels

KERNELS = Kernels(
    "crowdprism.aggregators.vote_kernel_sources",
    {
        "expect": "i8 u4 u2 f8 f8 n n n n f8 f8 f8",
        "expect_many": "i8 u4 u4 f8 f8 n n n n f8 f8 f8",
        "expect_weighted": "i8 u4 u2 f4 f8 f8 n n n n f8 f8 f8",
        "expect_weighted_many": "i8 u4 u4 f4 f8 f8 n n n n f8 f8 f8",
        "count_votes": "i8 u4 u2 f4 n n n n f8 f8",
        "count_votes_many": "i8 u4 u4 f4 n n n n f8 f8",
    },
    imports=["crowdprism.aggregators.expectation_records", "crowdprism.aggregators.row_sources"],
)


def expect(
    annotations: Annotations, source: NDArray[np.uint32], log_odds: FloatArray, prior: FloatArray, *, keep: bool
) -> VoteExpectation:
    """`VoteExpectationStep.__call__`, compiled."""
    width = len(prior)
    probabilities = np.empty((annotations.n_items if keep else 0, width))
    hits, totals = np.zeros((n_threads(), len(log_odds))), np.zeros((n_threads(), width + 1))
    item_start, label, many = codes_of(annotations)
    name, given = f"expect{many}", [np.exp(log_odds)]
    if annotations.weight is not None:
        name, given = f"expect_weighted{many}", [annotations.weight, np.ascontiguousarray(log_odds)]
    given.append(np.ascontiguousarray(prior))

    def work(block: int, first: int, last: int) -> None:
        ready = (item_start, source, label, *given, width)
        KERNELS(name, *ready, first, last, keep, hits[block], probabilities, totals[block])

    run_blocks(work, item_start, n_threads())
    return VoteExpectation(
        float(totals[:, width].sum()),
        hits.sum(axis=0),
        totals[:, :width].sum(axis=0),
        probabilities if keep else None,
    )


def count_votes(annotations: Annotations, source: NDArray[np.uint32], n_sources: int) -> VoteExpectation:
    """`VoteExpectationStep.count_votes`, compiled."""
    hits, totals = np.zeros((n_threads(), n_sources)), np.zeros((n_threads(), annotations.n_classes))
    item_start, label, many = codes_of(annotations)
    weight, weighted = weight_of(annotations)

    def work(block: int, first: int, last: int) -> None:
        given = (item_start, source, label, weight, annotations.n_classes, weighted)
        KERNELS(f"count_votes{many}", *given, first, last, hits[block], totals[block])

    run_blocks(work, item_start, n_threads())
    return VoteExpectation(0.0, hits.sum(axis=0), totals.sum(axis=0), None)


def codes_of(annotations: Annotations) -> tuple[NDArray[np.int64], NDArray[Any], str]:
    """First annotations of items, labels as unsigned numbers, and how functions for labels of their size end."""
    item_start = annotations.item_start.astype(np.int64, copy=False)
    if annotations.label.dtype == np.int16:
        return item_start, annotations.label.view(np.uint16), ""
    return item_start, annotations.label.view(np.uint32), "_many"


def weight_of(annotations: Annotations) -> tuple[NDArray[np.float32], bool]:
    """Weights, and whether there are any."""
    return (NO_WEIGHT, False) if annotations.weight is None else (annotations.weight, True)

"""Compiled, threaded expectation steps for large data; imported only when data are large.

`kernel_sources` has the kernels themselves; their machine code is kept by `machine_code`. Threads come from a pool of
Python threads (kernels leave the interpreter lock free), so that fits may run in several threads at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.cells import Cells, FloatArray
from crowdprism.aggregators.expectation_records import FLOOR, Expectation
from crowdprism.machine_code import Kernels

LANES = 4  # doubles per vector instruction
MAX_COUNT_BYTES = 512 * 1024**2  # all threads' count tables together; beyond it fewer threads work
# A weight other than 1 is a power of the likelihood and needs exp and log, so weighted data have their own loop.
NO_WEIGHT = np.empty(0, dtype=np.float32)
KERNELS = Kernels(
    "crowdprism.aggregators.kernel_sources",
    {
        "expect": "i8 u4 f8 f8 n n n n n n f8 f8 f8",
        "expect_weighted": "i8 u4 f4 f8 f8 n n n n n n f8 f8 f8",
        "count": "i8 u4 f4 f8 n n n n f8 f8",
        "count_votes": "i8 u4 f4 u4 n n n n f8 f8",
    },
    imports=["crowdprism.aggregators.expectation_records", "crowdprism.aggregators.row_sources"],
)


def n_threads() -> int:
    """Cores this process may use, or what CROWDPRISM_THREADS says."""
    wanted = os.environ.get("CROWDPRISM_THREADS")
    if wanted:
        return max(1, int(wanted))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def thread_pool(workers: int) -> ThreadPoolExecutor:
    """One pool for the life of the process."""
    return ThreadPoolExecutor(workers, thread_name_prefix="crowdprism")


if hasattr(os, "register_at_fork"):
    # threads do not survive a fork: a child that used the parent's pool would wait for ever
    os.register_at_fork(after_in_child=thread_pool.cache_clear)


def run_blocks(work: Callable[[int, int, int], Any], item_start: NDArray[np.int64], blocks: int) -> list[Any]:
    """Call `work(block, first item, last item)` for blocks of items with about equally many annotations each."""
    cuts = np.searchsorted(item_start, np.linspace(0, item_start[-1], blocks + 1))
    cuts[0], cuts[-1] = 0, len(item_start) - 1
    if blocks == 1:
        return [work(0, int(cuts[0]), int(cuts[1]))]
    pool = thread_pool(n_threads())
    return list(pool.map(work, range(blocks), cuts[:-1].tolist(), cuts[1:].tolist()))


def padded(rows: NDArray[Any], floor: float = 0.0) -> FloatArray:
    """A copy with zero columns up to a multiple of LANES, and the others at least `floor`."""
    wide = np.zeros((*rows.shape[:-1], rows.shape[-1] + -rows.shape[-1] % LANES))
    np.maximum(rows, floor, out=wide[..., : rows.shape[-1]])
    return wide


def expect(cells: Cells, likelihood: FloatArray, prior: FloatArray, *, hard: bool, keep: bool) -> Expectation:
    """`ExpectationStep.__call__`, compiled."""
    columns = len(prior)
    table, wide_prior = padded(likelihood, FLOOR), padded(prior)
    width = len(wide_prior)
    probabilities = np.empty((cells.n_items if keep else 0, columns))
    name, weight = ("expect", []) if cells.weight is None else ("expect_weighted", [cells.weight])
    if cells.weight is not None:
        np.log(np.maximum(table, np.finfo(float).tiny, out=table), out=table)

    def work(first: int, last: int, counts: FloatArray, totals: FloatArray) -> None:
        given = (cells.item_start, cells.cell, *weight, table, wide_prior, width, columns)
        KERNELS(name, *given, first, last, hard, keep, counts, probabilities, totals)

    counts, totals, log_likelihood = _over_blocks(cells, width, work)
    return Expectation(
        log_likelihood=log_likelihood,
        cell_counts=counts[:, :columns],
        class_totals=totals[:columns],
        class_probabilities=probabilities if keep else None,
    )


def count(cells: Cells, class_probabilities: FloatArray) -> Expectation:
    """`ExpectationStep.count`, compiled."""
    given = np.ascontiguousarray(class_probabilities, dtype=np.float64)
    weight, weighted = _weight_of(cells)

    def work(first: int, last: int, counts: FloatArray, totals: FloatArray) -> None:
        width = given.shape[1]
        KERNELS("count", cells.item_start, cells.cell, weight, given, width, weighted, first, last, counts, totals)

    counts, totals, _ = _over_blocks(cells, given.shape[1], work)
    return Expectation(0.0, counts, totals, given)


def count_votes(cells: Cells) -> Expectation:
    """`ExpectationStep.count_votes`, compiled."""
    label_of = cells.label_of.astype(np.uint32)
    weight, weighted = _weight_of(cells)

    def work(first: int, last: int, counts: FloatArray, totals: FloatArray) -> None:
        given = (cells.item_start, cells.cell, weight, label_of, cells.n_classes, weighted)
        KERNELS("count_votes", *given, first, last, counts, totals)

    counts, totals, _ = _over_blocks(cells, cells.n_classes, work)
    return Expectation(0.0, counts, totals, None)


def _weight_of(cells: Cells) -> tuple[NDArray[np.float32], bool]:
    return (NO_WEIGHT, False) if cells.weight is None else (cells.weight, True)


def _over_blocks(
    cells: Cells, width: int, work: Callable[[int, int, FloatArray, FloatArray], None]
) -> tuple[FloatArray, FloatArray, float]:
    """Run blocks of items in threads, each with its own counts and totals; return their sums and log likelihood."""
    table_bytes = 8 * cells.n_cells * width
    blocks = max(1, min(n_threads(), MAX_COUNT_BYTES // max(table_bytes, 1)))
    counts = [np.zeros((cells.n_cells, width)) for _ in range(blocks)]
    totals = np.zeros((blocks, width + 1))
    run_blocks(lambda block, first, last: work(first, last, counts[block], totals[block]), cells.item_start, blocks)
    for other in counts[1:]:
        counts[0] += other
    return counts[0], totals[:, :width].sum(axis=0), float(totals[:, width].sum())

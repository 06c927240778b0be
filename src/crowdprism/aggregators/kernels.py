"""Compiled, threaded expectation steps for large data; imported only when data are large.

What makes them fast: one pass, in which an item's class probabilities are added to the counts while its cells are
still in cache; products of probabilities with a rescaling now and then, so that neither exp nor log runs per
annotation; unsigned positions, which spare the compiler a test for negative ones; rows of a multiple of four numbers.
ARCHITECTURE.md has the measurements. Threads come from a pool of Python threads (kernels release the interpreter
lock), so that fits may run in several threads at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crowdprism.aggregators.cells import Cells, FloatArray
from crowdprism.aggregators.expectation_records import TIE, Expectation

LANES = 4  # doubles per vector instruction
MAX_COUNT_BYTES = 512 * 1024**2  # all threads' count tables together; beyond it fewer threads work
UNDERFLOW = 1e-150
# Sums may be reordered (vector sums need it); infinities and NaN keep their meaning.
FAST = {"reassoc", "contract", "nsz", "arcp"}
# A weight other than 1 is a power of the likelihood and needs exp and log, so weighted data have their own loop.
NO_WEIGHT = np.empty(0, dtype=np.float32)


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


def padded(rows: NDArray[Any]) -> FloatArray:
    """Add zero columns up to a multiple of LANES."""
    missing = -rows.shape[-1] % LANES
    if missing == 0:
        return np.ascontiguousarray(rows, dtype=np.float64)
    wide = np.zeros((*rows.shape[:-1], rows.shape[-1] + missing))
    wide[..., : rows.shape[-1]] = rows
    return wide


def expect(cells: Cells, likelihood: FloatArray, prior: FloatArray, *, hard: bool, keep: bool) -> Expectation:
    """`ExpectationStep.__call__`, compiled."""
    columns = len(prior)
    table, wide_prior = padded(likelihood), padded(prior)
    probabilities = np.empty((cells.n_items if keep else 0, columns))
    weight = NO_WEIGHT if cells.weight is None else cells.weight
    if cells.weight is not None:
        table = np.log(np.maximum(table, np.finfo(float).tiny))
    kernel = _expect if cells.weight is None else _expect_weighted

    def work(counts: FloatArray, first: int, last: int) -> Any:
        return kernel(
            cells.item_start, cells.cell, weight, table, wide_prior, first, last, counts, probabilities, columns, hard
        )

    counts, parts = _over_blocks(cells, table.shape[1], work)
    return Expectation(
        log_likelihood=float(sum(part[0] for part in parts)),
        cell_counts=counts[:, :columns],
        class_totals=np.sum([part[1] for part in parts], axis=0)[:columns],
        class_probabilities=probabilities if keep else None,
    )


def count(cells: Cells, class_probabilities: FloatArray) -> Expectation:
    """`ExpectationStep.count`, compiled."""
    given = np.ascontiguousarray(class_probabilities, dtype=np.float64)
    weight = NO_WEIGHT if cells.weight is None else cells.weight

    def work(counts: FloatArray, first: int, last: int) -> Any:
        return _count(cells.item_start, cells.cell, weight, given, first, last, counts)

    counts, totals = _over_blocks(cells, given.shape[1], work)
    return Expectation(0.0, counts, np.sum(totals, axis=0), given)


def count_votes(cells: Cells) -> Expectation:
    """`ExpectationStep.count_votes`, compiled."""
    weight = NO_WEIGHT if cells.weight is None else cells.weight
    label_of = cells.label_of.astype(np.uint32)

    def work(counts: FloatArray, first: int, last: int) -> Any:
        return _count_votes(cells.item_start, cells.cell, weight, label_of, first, last, counts)

    counts, totals = _over_blocks(cells, cells.n_classes, work)
    return Expectation(0.0, counts, np.sum(totals, axis=0), None)


def _over_blocks(
    cells: Cells, columns: int, work: Callable[[FloatArray, int, int], Any]
) -> tuple[FloatArray, list[Any]]:
    """Run blocks of items in threads, each with its own counts, and add these up."""
    table_bytes = 8 * cells.n_cells * columns
    blocks = max(1, min(n_threads(), MAX_COUNT_BYTES // max(table_bytes, 1)))
    counts = np.zeros((blocks, cells.n_cells, columns))
    parts = run_blocks(lambda block, first, last: work(counts[block], first, last), cells.item_start, blocks)
    for block in range(1, blocks):
        counts[0] += counts[block]
    return counts[0], parts


@njit(nogil=True, cache=True, fastmath=FAST)
def _expect(item_start, cell, weight, table, prior, first, last, counts, probabilities, columns, hard):  # type: ignore[no-untyped-def]
    width = prior.shape[0]
    row = np.empty(width)  # allocated here, so the compiler knows that nothing else points to it
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
                c = cell[j]
                for k in range(width):
                    row[k] *= table[c, k]
            done = stop
            norm = 0.0
            if hard and done == end:
                norm = _harden(row, width)
            else:
                for k in range(width):
                    norm += row[k]
                inverse = 1.0 / norm
                for k in range(width):
                    row[k] *= inverse
            scale *= norm
            if scale < UNDERFLOW:
                log_likelihood += np.log(scale)
                scale = 1.0
        if begin < end:
            for k in range(width):
                totals[k] += row[k]
            for j in range(begin, end):
                c = cell[j]
                for k in range(width):
                    counts[c, k] += row[k]
        if keep:
            for k in range(columns):
                probabilities[item, k] = row[k]
    return log_likelihood + np.log(scale), totals


@njit(nogil=True, cache=True, inline="always")
def _harden(row, width):  # type: ignore[no-untyped-def]
    """Give the largest entries of a row equal shares of 1 and the others nothing; returns the largest."""
    largest = 0.0
    for k in range(width):
        largest = max(largest, row[k])
    n_best = 0
    for k in range(width):
        if row[k] >= largest * (1.0 - TIE):
            n_best += 1
    for k in range(width):
        row[k] = 1.0 / n_best if row[k] >= largest * (1.0 - TIE) else 0.0
    return largest


@njit(nogil=True, cache=True, fastmath=FAST)
def _expect_weighted(item_start, cell, weight, table, prior, first, last, counts, probabilities, columns, hard):  # type: ignore[no-untyped-def]
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
            c = cell[j]
            w = np.float64(weight[j])
            mass += w
            for k in range(width):
                row[k] += w * table[c, k]
        if mass > 0.0:
            top = -np.inf
            for k in range(columns):
                if prior[k] > 0.0:
                    top = max(top, row[k])
            norm = 0.0
            for k in range(width):
                row[k] = prior[k] * np.exp(row[k] - top) if prior[k] > 0.0 else 0.0
                norm += row[k]
            if hard:
                norm = _harden(row, width)
            else:
                for k in range(width):
                    row[k] /= norm
            log_likelihood += top + np.log(norm)
            for k in range(width):
                totals[k] += row[k]
            for j in range(begin, end):
                c = cell[j]
                w = np.float64(weight[j])
                for k in range(width):
                    counts[c, k] += w * row[k]
        else:
            for k in range(width):
                row[k] = prior[k]
        if keep:
            for k in range(columns):
                probabilities[item, k] = row[k]
    return log_likelihood, totals


@njit(nogil=True, cache=True, fastmath=FAST)
def _count(item_start, cell, weight, given, first, last, counts):  # type: ignore[no-untyped-def]
    width = given.shape[1]
    totals = np.zeros(width)
    weighted = weight.shape[0] > 0
    for item in range(np.uint64(first), np.uint64(last)):
        mass = 0.0
        for j in range(np.uint64(item_start[item]), np.uint64(item_start[item + np.uint64(1)])):
            c = cell[j]
            w = np.float64(weight[j]) if weighted else 1.0
            mass += w
            for k in range(width):
                counts[c, k] += w * given[item, k]
        if mass > 0.0:
            for k in range(width):
                totals[k] += given[item, k]
    return totals


@njit(nogil=True, cache=True, fastmath=FAST)
def _count_votes(item_start, cell, weight, label_of, first, last, counts):  # type: ignore[no-untyped-def]
    width = counts.shape[1]
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
            row[label_of[cell[j]]] += w
            mass += w
        if mass > 0.0:
            for k in range(width):
                row[k] /= mass
                totals[k] += row[k]
            for j in range(begin, end):
                c = cell[j]
                w = np.float64(weight[j]) if weighted else 1.0
                for k in range(width):
                    counts[c, k] += w * row[k]
    return totals

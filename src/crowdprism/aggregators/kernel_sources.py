"""The expectation steps of `kernels`, as numba compiles them; only making machine code imports this module.

What makes them fast: one pass, in which an item's class probabilities are added to the counts while its cells are
still in cache; products of probabilities with a rescaling now and then, so that neither exp nor log runs per
annotation; unsigned positions, which spare the compiler a test for negative ones; rows of a multiple of four numbers.
ARCHITECTURE.md has the measurements.

Arrays come as pointers, tables row by row, `width` numbers to a row. `totals` has one more place than a row: the last
is for the log likelihood.
"""

# The functions have the types that `kernels.KERNELS` gives them; they are never called as Python.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
from numba import njit

from crowdprism.aggregators.expectation_records import TIE
from crowdprism.aggregators.row_sources import (
    RESCALE_EVERY,
    add,
    clear,
    copy,
    divide_and_add,
    exponentiate,
    multiply,
    normalize,
    store,
)
from crowdprism.kernel_scratch import free_doubles, new_doubles

UNDERFLOW = 1e-150


def expect(item_start, cell, table, prior, width, columns, first, last, hard, keep, counts, probabilities, totals):
    """`kernels.expect` for items from `first` to before `last`, all weights 1."""
    row = new_doubles(width)
    width, columns = np.uint64(width), np.uint64(columns)
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
                c = np.uint64(cell[j]) * width
                for k in range(width):
                    row[k] *= table[c + k]
            done = stop
            norm = _harden(row, width) if hard and done == end else normalize(row, width)
            scale *= norm
            if scale < UNDERFLOW:
                log_likelihood += np.log(scale)
                scale = 1.0
        if begin < end:
            add(totals, row, width)
            for j in range(begin, end):
                c = np.uint64(cell[j]) * width
                for k in range(width):
                    counts[c + k] += row[k]
        if keep:
            store(probabilities, item, row, columns)
    totals[width] = log_likelihood + np.log(scale)
    free_doubles(row)


@njit(inline="always")
def _harden(row, width):
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


def expect_weighted(
    item_start, cell, weight, table, prior, width, columns, first, last, hard, keep, counts, probabilities, totals
):
    """The same with weights; `table` then holds logs, because a weight is a power of the likelihood."""
    row = new_doubles(width)
    width, columns = np.uint64(width), np.uint64(columns)
    log_likelihood = 0.0
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        mass = 0.0
        clear(row, width)
        for j in range(begin, end):
            c = np.uint64(cell[j]) * width
            w = np.float64(weight[j])
            mass += w
            for k in range(width):
                row[k] += w * table[c + k]
        if mass > 0.0:
            top, norm = exponentiate(row, prior, columns, width)
            if hard:
                norm = _harden(row, width)
            else:
                multiply(row, 1.0 / norm, width)
            log_likelihood += top + np.log(norm)
            add(totals, row, width)
            for j in range(begin, end):
                c = np.uint64(cell[j]) * width
                w = np.float64(weight[j])
                for k in range(width):
                    counts[c + k] += w * row[k]
        else:
            copy(row, prior, width)
        if keep:
            store(probabilities, item, row, columns)
    totals[width] = log_likelihood
    free_doubles(row)


def count(item_start, cell, weight, given, width, weighted, first, last, counts, totals):
    """`kernels.count` for items from `first` to before `last`."""
    width = np.uint64(width)
    for item in range(np.uint64(first), np.uint64(last)):
        mass = 0.0
        for j in range(np.uint64(item_start[item]), np.uint64(item_start[item + np.uint64(1)])):
            c = np.uint64(cell[j]) * width
            w = np.float64(weight[j]) if weighted else 1.0
            mass += w
            for k in range(width):
                counts[c + k] += w * given[item * width + k]
        if mass > 0.0:
            for k in range(width):
                totals[k] += given[item * width + k]


def count_votes(item_start, cell, weight, label_of, width, weighted, first, last, counts, totals):
    """`kernels.count_votes` for items from `first` to before `last`."""
    row = new_doubles(width)
    width = np.uint64(width)
    for item in range(np.uint64(first), np.uint64(last)):
        begin = np.uint64(item_start[item])
        end = np.uint64(item_start[item + np.uint64(1)])
        mass = 0.0
        clear(row, width)
        for j in range(begin, end):
            w = np.float64(weight[j]) if weighted else 1.0
            row[np.uint64(label_of[cell[j]])] += w
            mass += w
        if mass > 0.0:
            divide_and_add(totals, row, mass, width)
            for j in range(begin, end):
                c = np.uint64(cell[j]) * width
                w = np.float64(weight[j]) if weighted else 1.0
                for k in range(width):
                    counts[c + k] += w * row[k]
    free_doubles(row)

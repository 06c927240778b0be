"""What the expectation steps do with one item's row of class probabilities; part of the code that numba compiles.

A row is memory of the kernel's own (`kernel_scratch`), `width` numbers; every function is written into its caller.
"""

# The functions have the types that their callers give them; they are never called as Python.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
from numba import njit

RESCALE_EVERY = 8  # annotations; so many factors of at least 1e-30 stay above the smallest double


@njit(inline="always")
def clear(row, width):
    for k in range(width):
        row[k] = 0.0


@njit(inline="always")
def copy(row, source, width):
    for k in range(width):
        row[k] = source[k]


@njit(inline="always")
def multiply(row, by, width):
    for k in range(width):
        row[k] *= by


@njit(inline="always")
def add(totals, row, width):
    for k in range(width):
        totals[k] += row[k]


@njit(inline="always")
def divide_and_add(totals, row, by, width):
    for k in range(width):
        row[k] /= by
        totals[k] += row[k]


@njit(inline="always")
def normalize(row, width):
    """Divide by the sum, which is returned."""
    norm = 0.0
    for k in range(width):
        norm += row[k]
    multiply(row, 1.0 / norm, width)
    return norm


@njit(inline="always")
def exponentiate(row, prior, columns, width):
    """From logs to prior times exponential, over that of the largest of the first `columns`; that log and the sum."""
    top = -np.inf
    for k in range(columns):
        if prior[k] > 0.0:
            top = max(top, row[k])
    norm = 0.0
    for k in range(width):
        row[k] = prior[k] * np.exp(row[k] - top) if prior[k] > 0.0 else 0.0
        norm += row[k]
    return top, norm


@njit(inline="always")
def store(probabilities, item, row, columns):
    for k in range(columns):
        probabilities[item * columns + k] = row[k]

"""Many annotations into the container's order, by counting instead of comparing, on two threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from threading import Semaphore
from typing import Any

import numpy as np
from numpy.typing import NDArray

N_THREADS = 2
MANY = 1_000_000  # from here on compiled code pays for being loaded
INT32_MAX = np.iinfo(np.int32).max


@dataclass(frozen=True)
class CodedRows:
    """Some of the rows, as codes that may be their own: the ranks say what each code stands for among all names."""

    blocks: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]]  # item, annotator, label; used up
    item_counts: NDArray[Any]  # (item code,) number of these rows
    item_rank: NDArray[Any]  # (item code,) position of the item's name among the ordered names
    annotator_rank: NDArray[np.int32]
    label_rank: NDArray[np.int32]


def sort_many(
    item: NDArray[Any],  # (annotation,) codes
    annotator: NDArray[Any],
    label: NDArray[Any],
    *,
    item_rank: NDArray[Any],  # (item code,) position of the item's name among the ordered names
    annotator_rank: NDArray[Any],
    label_rank: NDArray[Any],
    label_dtype: Any,
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[Any]]:
    """Return item_start, annotator and label, sorted by the ranks of item, annotator and label."""
    codes = [np.ascontiguousarray(column, dtype=np.int32) for column in (item, annotator, label)]
    parts = []
    for items, annotators, labels in zip(*(np.array_split(column, N_THREADS) for column in codes), strict=True):
        counts = np.bincount(items, minlength=len(item_rank))
        parts.append(CodedRows([(items, annotators, labels)], counts, item_rank, annotator_rank, label_rank))
    sizes = (len(item_rank), len(annotator_rank), len(label_rank))
    with ThreadPoolExecutor(N_THREADS) as pool:
        return in_order(place_parts(parts, pool, sizes=sizes), pool, label_dtype=label_dtype)()


@dataclass(frozen=True)
class PlacedRows:
    """Rows grouped by item."""

    start: NDArray[Any]  # (item + 1,)
    keys: NDArray[Any]  # (row,) annotator and label as one number
    n_classes: int


def place_parts(parts: list[CodedRows], pool: Executor, *, sizes: tuple[int, int, int]) -> PlacedRows:
    """Group all rows by item; `sizes` are items, annotators, classes."""
    from crowdprism.annotations.annotation_kernels import place_rows

    n_items, n_annotators, n_classes = sizes
    n_rows = sum(len(block[0]) for part in parts for block in part.blocks)
    wide = np.int32 if max(n_rows, n_annotators * n_classes) <= INT32_MAX else np.int64
    start, next_places = places_of(parts, n_items, wide)
    keys = np.empty(n_rows, dtype=wide)

    def place(part: CodedRows, next_place: NDArray[Any]) -> None:
        while part.blocks:
            place_rows(*part.blocks.pop(), part.annotator_rank, part.label_rank, next_place, n_classes, keys)

    list(pool.map(place, parts, next_places))
    return PlacedRows(start, keys, n_classes)


def in_order(
    rows: PlacedRows, pool: Executor, *, label_dtype: Any
) -> Callable[[], tuple[NDArray[Any], NDArray[np.int32], NDArray[Any]]]:
    """Begin to sort the rows of each item; the result waits for the end and returns item_start, annotator and label.

    When this returns, the threads of the pool (N_THREADS, idle) need the interpreter no more: work that keeps it for
    long does not hold them up.
    """
    from crowdprism.annotations.annotation_kernels import sort_long_runs, sort_within_items

    start, n_rows = rows.start, len(rows.keys)
    annotator, label = np.empty(n_rows, dtype=np.int32), np.empty(n_rows, dtype=label_dtype)
    begun = Semaphore(0)
    # Each thread owns a range of whole items, so that no two write to the same place.
    cuts = [int(np.searchsorted(start, n_rows * part // N_THREADS)) for part in range(N_THREADS)] + [len(start) - 1]

    def work(begin: int, end: int) -> None:
        try:
            sort_long_runs(start, begin, end, rows.keys)
        finally:
            begun.release()
        sort_within_items(start, begin, end, rows.n_classes, rows.keys, annotator, label)

    tasks = [pool.submit(work, begin, end) for begin, end in pairwise(cuts)]
    for _ in tasks:
        begun.acquire()

    def result() -> tuple[NDArray[Any], NDArray[np.int32], NDArray[Any]]:
        for task in tasks:
            task.result()
        return start.astype(np.int32 if n_rows <= INT32_MAX else np.int64, copy=False), annotator, label

    return result


def places_of(parts: list[CodedRows], n_items: int, wide: Any) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Where each item's rows begin, and where, after those of earlier parts, each part puts its own first."""
    ranked = np.zeros(n_items, dtype=wide)
    before = []
    for part in parts:
        before.append(ranked[part.item_rank])
        ranked[part.item_rank] += part.item_counts.astype(wide)
    start = np.zeros(n_items + 1, dtype=wide)
    np.cumsum(ranked, out=start[1:])
    for part, places in zip(parts, before, strict=True):
        places += start[part.item_rank]
    return start, before

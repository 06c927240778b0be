"""Many annotations into the container's order, by counting instead of comparing, on two threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

N_THREADS = 2
MANY = 1_000_000  # from here on compiled code pays for being loaded
INT32_MAX = np.iinfo(np.int32).max


def sort_many(
    item: NDArray[Any],  # (annotation,) codes
    annotator: NDArray[Any],
    label: NDArray[Any],
    *,
    counts: NDArray[Any],  # (item code,) number of annotations
    item_rank: NDArray[Any],  # (item code,) position of the item's name among the ordered names
    annotator_rank: NDArray[Any],
    label_rank: NDArray[Any],
    label_dtype: Any,
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[Any]]:
    """Return item_start, annotator and label, sorted by the ranks of item, annotator and label."""
    from crowdprism.annotation_kernels import place_rows, sort_within_items

    item, annotator, label = (np.ascontiguousarray(codes, dtype=np.int32) for codes in (item, annotator, label))
    n_rows, n_items, n_classes = len(item), len(item_rank), len(label_rank)
    wide = np.int32 if max(n_rows, len(annotator_rank) * n_classes) <= INT32_MAX else np.int64
    start = np.zeros(n_items + 1, dtype=wide)
    ranked = np.empty(n_items, dtype=wide)
    ranked[item_rank] = counts
    np.cumsum(ranked, out=start[1:])
    first_place = start[:-1][item_rank]
    keys = np.empty(n_rows, dtype=wide)
    out_annotator = np.empty(n_rows, dtype=np.int32)
    out_label = np.empty(n_rows, dtype=label_dtype)
    # Each thread owns a range of whole items, so that no two write to the same place.
    cuts = [int(np.searchsorted(start, n_rows * part // N_THREADS)) for part in range(N_THREADS)] + [n_items]

    def work(part: int) -> None:
        next_place = first_place.copy()  # a thread that sees another's advance would take its items for its own
        low, high = int(start[cuts[part]]), int(start[cuts[part + 1]])
        place_rows(item, annotator, label, annotator_rank, label_rank, next_place, low, high, n_classes, keys)
        sort_within_items(start, cuts[part], cuts[part + 1], n_classes, keys, out_annotator, out_label)

    with ThreadPoolExecutor(N_THREADS) as pool:
        list(pool.map(work, range(N_THREADS)))
    return start.astype(np.int32 if n_rows <= INT32_MAX else np.int64, copy=False), out_annotator, out_label

"""Cells: the (annotator, given label) pairs that occur, by which every EM method keeps its tables.

The likelihood of an item needs, for each of its annotations, one number per true class: how probable this label
of this annotator is. So tables are `[cell, true class]`, the true classes side by side in memory. Pairs that nobody
used need no storage, which keeps a thousand classes and ten thousand annotators within reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.errors import UnsuitableDataError

FloatArray = NDArray[np.float64]

# A table of cells, the counts of each thread and the posterior are each about this large; four of them should
# leave room on an ordinary laptop.
MAX_TABLE_BYTES = 2 * 1024**3
PIECE = 2**18  # annotations counted at once
MAX_KEYS_COUNTED = 2**27  # beyond this many possible pairs, sorting the keys is cheaper than counting all of them


@dataclass(frozen=True, eq=False)
class Cells:
    """Annotations as (item, cell) pairs.

    Attributes
    ----------
    item_start
        (n_items + 1,) as in `Annotations`.
    cell
        (n_annotations,) position of the annotation's (annotator, label) pair, unsigned: compiled code then needs
        no check for negative positions, which halves its time.
    annotator_of, label_of
        (n_cells,) sorted by annotator, then label.
    total
        (n_cells,) sum of weights of the cell's annotations.
    weight
        (n_annotations,) or None where every annotation counts 1.
    """

    item_start: NDArray[np.int64]
    cell: NDArray[np.uint32]
    annotator_of: NDArray[np.int64]
    label_of: NDArray[np.int64]
    total: FloatArray
    weight: NDArray[np.float32] | None
    n_annotators: int
    n_classes: int

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_start) - 1

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.label_of)

    @property
    def complete(self) -> bool:
        """Whether there is a cell for every (annotator, label) pair."""
        return self.n_cells == self.n_annotators * self.n_classes

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all annotations."""
        return float(self.total.sum())

    def sum_by_annotator(self, values: NDArray[Any]) -> FloatArray:
        """Sum `(n_cells, ...)` over the cells of each annotator: `(n_annotators, ...)`."""
        if self.complete:
            by_annotator = values.reshape(self.n_annotators, self.n_classes, *values.shape[1:])
            return np.asarray(by_annotator.sum(axis=1))
        sums = np.zeros((self.n_annotators, *values.shape[1:]))
        first = np.flatnonzero(np.diff(self.annotator_of, prepend=-1))
        if len(first):
            sums[self.annotator_of[first]] = np.add.reduceat(values, first, axis=0)
        return sums

    def by_cell(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Repeat `(n_annotators, ...)` for each cell: `(n_cells, ...)`."""
        if self.complete:
            return np.repeat(rows, self.n_classes, axis=0)
        return rows[self.annotator_of]


def cells_of(annotations: Annotations, *, columns: int = 1, method: str = "this method") -> Cells:
    """Return the cells of annotations.

    Parameters
    ----------
    columns
        Numbers that the method keeps per cell, to refuse what would not fit in memory before it is allocated.
    method
        Name for the message.

    Examples
    --------
    >>> cells = cells_of(Annotations.from_dense([[0, 1], [1, 1]]))
    >>> cells.cell.tolist(), cells.total.tolist()
    ([0, 3, 1, 3], [1.0, 1.0, 0.0, 2.0])
    """
    n_keys = annotations.n_annotators * annotations.n_classes
    key: NDArray[Any] = annotations.annotator.astype(np.uint32 if n_keys < 2**32 else np.uint64)
    key *= key.dtype.type(annotations.n_classes)
    np.add(key, annotations.label, out=key, casting="unsafe")  # neither is negative, and the sum is below n_keys
    if n_keys <= MAX_KEYS_COUNTED:
        counts = cell_totals(key, None, n_keys)
        occurring = np.flatnonzero(counts)
        if 2 * len(occurring) > n_keys:  # the few that are missing cost less than the detour
            occurring, cell = np.arange(n_keys), key.astype(np.uint32, copy=False)
        else:
            place = np.zeros(n_keys, dtype=np.uint32)
            place[occurring] = np.arange(len(occurring), dtype=np.uint32)
            cell = place[key]
    else:
        occurring, inverse = np.unique(key, return_inverse=True)
        cell = inverse.astype(np.uint32)
    require_room(len(occurring), columns, annotations, method)
    return Cells(
        item_start=annotations.item_start.astype(np.int64, copy=False),
        cell=cell,
        annotator_of=occurring.astype(np.int64) // annotations.n_classes,
        label_of=occurring.astype(np.int64) % annotations.n_classes,
        total=cell_totals(cell, annotations.weight, len(occurring)),
        weight=annotations.weight,
        n_annotators=annotations.n_annotators,
        n_classes=annotations.n_classes,
    )


def cell_totals(cell: NDArray[Any], weight: NDArray[Any] | None, n_cells: int) -> FloatArray:
    """Sum of weights per cell; in pieces, because NumPy counts copies of eight bytes per number."""
    totals = np.zeros(n_cells)
    size = max(PIECE, n_cells)
    for first in range(0, len(cell), size):
        piece = slice(first, first + size)
        totals += np.bincount(cell[piece], weights=None if weight is None else weight[piece], minlength=n_cells)
    return totals


def require_room(n_cells: int, columns: int, annotations: Annotations, method: str) -> None:
    """Refuse tables that would not fit in memory, naming a method that can do the work."""
    needed = 8 * columns * max(n_cells, annotations.n_items)
    if needed > MAX_TABLE_BYTES:
        raise UnsuitableDataError(
            f"{method} would need tables of {needed / 1024**3:.1f} GiB for {n_cells} (annotator, label) pairs and "
            f"{annotations.n_items} items with {columns} numbers each; the limit is "
            f"{MAX_TABLE_BYTES / 1024**3:.0f} GiB. Use one-coin, which keeps one number per annotator, "
            "or merge rare classes."
        )

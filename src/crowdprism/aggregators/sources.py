"""Where annotations are: in memory, or out of core (`crowdprism.shards`); methods ask either for sums over items."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.em import Expectation, FloatArray, Journal, Sums, group_bounds, sum_groups
from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.annotations.names import NameArray
from crowdprism.errors import UnsuitableDataError
from crowdprism.results import confusion
from crowdprism.results.confusion import normalize_rows

PIECE = 2**18  # annotations counted at once
MAX_KEYS_COUNTED = 2**27  # beyond this many possible pairs, sorting the keys is cheaper than counting all of them
AddBlock = Callable[[Annotations, int, int, Sums, int], None]
"""Adds what items from the first to before the last of a block contribute to the running sums of a group; the last
argument is the position of the block's first item among all."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of annotations, sorted by annotator, then label."""

    annotator_of: NDArray[np.int64]  # (n_cells,)
    label_of: NDArray[np.int64]  # (n_cells,)
    total: FloatArray  # (n_cells,) sum of weights of the cell's annotations
    n_annotators: int
    n_classes: int
    cell: NDArray[np.uint32] | None = None  # (n_annotations,) of each annotation, where these are in memory

    @property
    def n_cells(self) -> int:
        return len(self.label_of)

    @property
    def complete(self) -> bool:
        """Whether there is a cell for every (annotator, label) pair."""
        return self.n_cells == self.n_annotators * self.n_classes

    def code(self, block: Annotations) -> NDArray[np.uint32]:
        """(n_annotations,) the cells of other annotations, of which none has a pair that is no cell."""
        key: Any = block.annotator.astype(np.int64) * self.n_classes + block.label
        if self.complete:
            return np.asarray(key, dtype=np.uint32)
        if self.n_annotators * self.n_classes <= MAX_KEYS_COUNTED:
            return np.asarray(self._place[key])
        return np.asarray(np.searchsorted(self.annotator_of * self.n_classes + self.label_of, key), dtype=np.uint32)

    @cached_property
    def _place(self) -> NDArray[np.uint32]:
        """The cell of every (annotator, label) pair; 0 for those that are no cell."""
        place = np.zeros(self.n_annotators * self.n_classes, dtype=np.uint32)
        place[self.annotator_of * self.n_classes + self.label_of] = np.arange(self.n_cells, dtype=np.uint32)
        return place

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
        return np.repeat(rows, self.n_classes, axis=0) if self.complete else rows[self.annotator_of]

    def dense(self, counts: FloatArray) -> FloatArray:
        """Bring counts by cell into (n_annotators, true class, given label)."""
        table = np.zeros((self.n_annotators, self.n_classes, self.n_classes))
        table[self.annotator_of, :, self.label_of] = counts
        return table

    def pooled(self, counts: FloatArray) -> FloatArray:
        """The crowd's common confusion matrix (true class, given label); rows without counts are uniform."""
        sums = np.zeros((self.n_classes, self.n_classes))
        np.add.at(sums, self.label_of, counts)
        return np.asarray(normalize_rows(sums.T), dtype=np.float64)


def cells_of(annotations: Annotations, *, columns: int = 1, method: str | None = None) -> Cells:
    """The cells of annotations; with a `method`, tables of `columns` numbers per cell must fit in memory."""
    n_keys = annotations.n_annotators * annotations.n_classes
    key: NDArray[Any] = annotations.annotator.astype(np.uint32 if n_keys < 2**32 else np.uint64)
    key *= key.dtype.type(annotations.n_classes)
    np.add(key, annotations.label, out=key, casting="unsafe")  # neither is negative, and the sum is below n_keys
    if n_keys <= MAX_KEYS_COUNTED:
        occurring = np.flatnonzero(sum_weights(key, None, n_keys))
        if 2 * len(occurring) > n_keys:  # the few that are missing cost less than the detour
            occurring, cell = np.arange(n_keys), key.astype(np.uint32, copy=False)
        else:
            place = np.zeros(n_keys, dtype=np.uint32)
            place[occurring] = np.arange(len(occurring), dtype=np.uint32)
            cell = place[key]
    else:
        occurring, inverse = np.unique(key, return_inverse=True)
        cell = inverse.astype(np.uint32)
    if method is not None:
        require_room(annotations, n_rows=len(occurring), columns=columns, method=method)
    pairs = np.divmod(occurring.astype(np.int64), annotations.n_classes)
    total = sum_weights(cell, annotations.weight, len(occurring))
    return Cells(*pairs, total, annotations.n_annotators, annotations.n_classes, cell)


def sum_weights(place: NDArray[Any], weight: NDArray[Any] | None, n_places: int) -> NDArray[np.float64]:
    """Sum of weights per place; in pieces, because NumPy counts copies of eight bytes per number."""
    totals = np.zeros(n_places)
    size = max(PIECE, n_places)
    for first in range(0, len(place), size):
        piece = slice(first, first + size)
        if weight is None:
            totals += np.bincount(place[piece], minlength=n_places)
        else:  # one by one, so that pieces change no bit
            np.add.at(totals, place[piece], weight[piece].astype(np.float64))
    return totals


def require_room(annotations: Annotations, *, n_rows: int, columns: int, method: str) -> None:
    """Refuse tables that would not fit in memory, naming a method that can do the work."""
    needed = 8 * columns * max(n_rows, annotations.n_items)
    if needed > confusion.MAX_TABLE_BYTES:
        raise UnsuitableDataError(
            f"{method} would need tables of {needed / 1024**3:.1f} GiB for {n_rows} (annotator, label) pairs and "
            f"{annotations.n_items} items with {columns} numbers each; the limit is "
            f"{confusion.MAX_TABLE_BYTES / 1024**3:.0f} GiB. Use one-coin, which keeps one number per annotator, "
            "or merge rare classes."
        )


class Source:
    """Sums over annotations, which are in memory as one block unless a subclass has them elsewhere."""

    journal: Journal | None = None

    def __init__(self, annotations: Annotations) -> None:
        self.annotations, self.weighted = annotations, annotations.weight is not None
        gold = known_classes(annotations)
        gold = np.empty(0, dtype=np.int64) if gold is None else gold[gold >= 0]
        self.gold_counts = np.bincount(gold, minlength=annotations.n_classes)  # items known to be of each class

    @property
    def weight_per_annotator(self) -> FloatArray:
        """(n_annotators,) sum of the weights of their annotations."""
        return sum_weights(self.annotations.annotator, self.annotations.weight, self.annotations.n_annotators)

    def cells(self, *, columns: int = 1, method: str | None = None) -> Cells:
        """The (annotator, given label) pairs that occur; tables that a method cannot have in memory are refused."""
        return cells_of(self.annotations, columns=columns, method=method)

    def bounds(self, n_rows: int) -> list[tuple[int, int]]:
        """First and last item of each group, for counts of so many rows."""
        return group_bounds(self.annotations.item_start, n_rows)

    def sum_blocks(
        self, groups: list[tuple[int, int]], add: AddBlock, *, counts_shape: tuple[int, ...], columns: int = 1
    ) -> Expectation:
        """Let `add` visit all items in order, block by block, and add up the groups in order."""

        def work(first: int, last: int) -> Expectation:
            sums = Sums.zeros(counts_shape, columns)
            add(self.annotations, first, last, sums, 0)
            return sums.expectation()

        return sum_groups(work, groups, 8 * math.prod(counts_shape))


class OutOfCore(Source):
    """Sizes and names as `Annotations` has them, and sums as `Source` has them; no array of all annotations."""

    n_items: int
    n_annotators: int
    n_classes: int
    n_annotations: int
    annotators: NameArray
    classes: NameArray
    labels_per_annotator: Any
    sample: Annotations  # some of the items, evenly spread
    note: str  # says that results hold only the sample, and where the labels of all items are
    labels: Any  # where these go


def source_of(annotations: Annotations) -> Source:
    """What sums over all items, wherever the annotations are."""
    return annotations if isinstance(annotations, OutOfCore) else Source(annotations)

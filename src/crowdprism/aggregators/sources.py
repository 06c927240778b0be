"""Where annotations are: in memory, or out of core (`crowdprism.shards`); methods ask either for sums over items."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from crowdprism.aggregators.cells import Cells, cells_of, sum_weights
from crowdprism.aggregators.em import Expectation, FloatArray, Journal, Sums, group_bounds, sum_groups
from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.annotations.names import NameArray

AddBlock = Callable[[Annotations, int, int, Sums, int], None]
"""Adds what items from the first to before the last of a block contribute to the running sums of a group; the last
argument is the position of the block's first item among all."""


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

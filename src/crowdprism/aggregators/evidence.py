"""The passes that a method gets, by where its annotations are: in memory, or out of core."""

from __future__ import annotations

import numpy as np

from crowdprism.aggregators.base import require_room
from crowdprism.aggregators.cells import cells_of
from crowdprism.aggregators.em import Expectation, Sums, group_bounds, sum_groups
from crowdprism.aggregators.expectation import ConfusionPass, VotePass
from crowdprism.aggregators.out_of_core import AddBlock, OutOfCore
from crowdprism.annotations import Annotations


def confusion_pass(annotations: Annotations, *, columns: int | None = None, method: str) -> ConfusionPass:
    """Passes of methods with confusion matrices, wherever the annotations are; refuses tables that do not fit."""
    width = columns or annotations.n_classes
    if isinstance(annotations, OutOfCore):
        return annotations.confusion_pass(width)
    return ConfusionPass(cells_of(annotations, columns=width, method=method), columns=width)


def vote_pass(annotations: Annotations, *, by_cell: bool = False, method: str) -> VotePass:
    """Passes of methods with odds for each annotator, or each cell, wherever the annotations are."""
    if isinstance(annotations, OutOfCore):
        return annotations.vote_pass(by_cell=by_cell)
    require_room(annotations, n_rows=annotations.n_annotators, columns=annotations.n_classes, method=method)
    if not by_cell:
        return VotePass(annotations, annotations.annotator, n_sources=annotations.n_annotators)
    cells = cells_of(annotations, method=method)
    evidence = VotePass(annotations, cells.cell, n_sources=cells.n_cells)
    evidence.cells = cells
    return evidence


def groups_of(annotations: Annotations, n_rows: int) -> list[tuple[int, int]]:
    """First and last item of each group, for counts of so many rows, wherever the annotations are."""
    if isinstance(annotations, OutOfCore):
        return annotations.bounds(n_rows)
    return group_bounds(annotations.item_start, n_rows)


def sum_blocks(
    annotations: Annotations, groups: list[tuple[int, int]], add: AddBlock, *, counts_shape: tuple[int, ...]
) -> Expectation:
    """Sum what `add` gathers from all items, wherever the annotations are: the counts and one total."""
    if isinstance(annotations, OutOfCore):
        return annotations.sum_blocks(groups, add, counts_shape=counts_shape)

    def work(first: int, last: int) -> Expectation:
        sums = Sums.zeros(counts_shape, 1)
        add(annotations, first, last, sums, 0)
        return sums.expectation()

    return sum_groups(work, groups, table_bytes=8 * int(np.prod(counts_shape)))

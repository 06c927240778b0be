"""Expectation steps over a store: the passes of `aggregators.expectation`, block by block.

A block is the part of a shard that belongs to one group of items. Each block is handed to the pass in memory, which
goes on with the group's running sums, so that the sums are those of annotations in memory, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from crowdprism.aggregators.cells import MAX_KEYS_COUNTED, Cells
from crowdprism.aggregators.em import Expectation, FloatArray, Journal, Sums, n_groups, sum_groups
from crowdprism.aggregators.expectation import (
    GIVEN,
    AnnotationPass,
    ConfusionPass,
    Finish,
    RowsOf,
    Step,
    VotePass,
)
from crowdprism.aggregators.out_of_core import AddBlock, OutOfCore
from crowdprism.annotations import Annotations
from crowdprism.shards.label_files import LabelFiles
from crowdprism.shards.store import Shards

GroupWork = Callable[[int, int], Expectation]
Engine = Callable[[GroupWork, list[tuple[int, int]], int], Expectation]
"""Runs the work of all groups somewhere and adds up in order; the last argument is the size of a group's counts."""


def run_in_threads(work: GroupWork, groups: list[tuple[int, int]], table_bytes: int) -> Expectation:
    """The engine of one machine."""
    return sum_groups(work, groups, table_bytes=table_bytes)


class StoredAnnotations(OutOfCore):
    """A store as methods see it.

    Parameters
    ----------
    store
        The annotations.
    labels
        Where the labels of all items go.
    journal
        Keeps the model after each iteration.
    engine
        Where the groups are worked on.
    voting
        What votes learn (`voting.parts_of_vote`).
    """

    def __init__(
        self,
        store: Shards,
        *,
        labels: LabelFiles,
        journal: Journal,
        voting: Callable[[Any, StoredAnnotations], dict[str, Any]],
        engine: Engine = run_in_threads,
    ) -> None:
        self.voting = voting
        self.store, self.labels, self.journal, self.engine = store, labels, journal, engine
        self.n_items, self.n_annotations = store.n_items, store.n_annotations
        self.n_annotators, self.n_classes = store.n_annotators, store.n_classes
        self.annotators, self.classes = store.annotators, store.classes
        self.labels_per_annotator = store.labels_per_annotator
        self.sample = store.sample
        self.note = (
            f"The store has {store.n_items:,} items; of these the result holds {self.sample.n_items:,}, evenly spread. "
            "The folder labels has all."
        )

    def bounds(self, n_rows: int) -> list[tuple[int, int]]:
        """First and last item of each group, as `em.group_bounds` has them for annotations in memory."""
        positions = np.linspace(0, self.n_annotations, n_groups(self.n_annotations, n_rows) + 1)
        cuts = [0, *(self.store.item_at(position) for position in positions[1:-1].tolist()), self.n_items]
        return list(pairwise(cuts))

    def sum_blocks(
        self, groups: list[tuple[int, int]], add: AddBlock, *, counts_shape: tuple[int, ...], columns: int = 1
    ) -> Expectation:
        """Let `add` visit all items in order, block by block, and add up the groups in order."""
        work = partial(sum_group, self.store, add, counts_shape, columns)
        return self.engine(work, groups, 8 * math.prod(counts_shape))

    def vote(self, method: Any) -> dict[str, Any]:
        """What a vote learns, as parts of its result."""
        return self.voting(method, self)

    def confusion_pass(self, columns: int) -> ConfusionPass:
        """Expectation steps of methods with confusion matrices."""
        return ShardedConfusionPass(self, columns)

    def vote_pass(self, *, by_cell: bool) -> VotePass:
        """Expectation steps of methods in which a label speaks only for its own class."""
        return ShardedVotePass(self, by_cell=by_cell)

    def cells(self) -> Cells:
        """The cells of the store; complete under the same rule as `cells_of` has for annotations in memory."""
        table, n_keys = self.store.cells, self.n_annotators * self.n_classes
        annotator, label, weight = (table[name].to_numpy() for name in ("annotator", "label", "weight"))
        if 2 * len(table) > n_keys and n_keys <= MAX_KEYS_COUNTED:
            total = np.zeros(n_keys)
            total[annotator * self.n_classes + label] = weight
            annotator, label, weight = *np.divmod(np.arange(n_keys), self.n_classes), total
        nothing = np.empty(0)
        return Cells(nothing, nothing, annotator, label, weight, self.weights(), self.n_annotators, self.n_classes)  # type: ignore[arg-type]

    def weights(self) -> Any:
        """Stands for the weights of annotations: None where there are none."""
        return np.empty(0, dtype=np.float32) if self.store.weighted else None


def sum_group(
    store: Shards, add: AddBlock, counts_shape: tuple[int, ...], columns: int, first: int, last: int
) -> Expectation:
    """Visit the items of one group, shard by shard."""
    sums = Sums.zeros(counts_shape, columns)
    for shard, begin, end in store.within(first, last):
        add(store.read(shard), begin, end, sums, shard.first_item)
    return sums.expectation()


@dataclass(frozen=True, eq=False)
class BlockStep:
    """What is done with a block in an expectation step; a record, so that it can travel to other machines."""

    block_pass: Callable[[Annotations], AnnotationPass]
    step: Step
    rows_of: RowsOf | None = None
    labels: LabelFiles | None = None
    finish: Finish | None = None

    def __call__(self, block: Annotations, first: int, last: int, sums: Sums, place: int) -> None:
        """Add the items of a block to the sums of their group; write their labels if that is asked for."""
        one = self.block_pass(block)
        one.place = place
        kept = self.labels is not None
        if self.rows_of is not None:
            rows = np.require(self.rows_of(one, first, last), np.float64, ["C", "W"])
        else:
            rows = np.empty((last - first if kept else 1, one.columns))
        one.add(self.step, first, last, rows, sums)
        if self.labels is not None:
            rows = rows if self.finish is None else self.finish(one, first, last, rows)
            self.labels.write(block, first, last, rows)


class ShardedPass(AnnotationPass):
    """What both sharded passes share. Only the parts of `AnnotationPass` that concern all items are different."""

    data: StoredAnnotations

    def _open(self, data: StoredAnnotations, *, columns: int, counts_shape: tuple[int, ...]) -> None:
        self.data, self.journal = data, data.journal
        self.n_classes, self.columns, self.counts_shape = data.n_classes, columns, counts_shape
        self.weight, self.gold = data.weights(), None
        self.groups = data.bounds(counts_shape[0])

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.data.n_items

    def over_block(self) -> Callable[[Annotations], AnnotationPass]:
        """Makes the pass in memory of a block."""
        raise NotImplementedError

    def expect(self, model: Any, *, keep: bool = True, finish: Finish | None = None) -> Expectation:
        """As in memory; labels that are kept go to files, and the sample's class probabilities are returned."""
        block_step = BlockStep(self.over_block(), self.step_of(model), finish=finish)
        if not keep:
            return self._sum(block_step)
        found = self._sum(replace(block_step, labels=self.data.labels))
        sample = self._on_sample()
        return replace(found, class_probabilities=sample.expect(model, finish=finish).kept)

    def count_rows(self, rows_of: RowsOf, *, keep: bool = False) -> Expectation:
        """As in memory."""
        block_step = BlockStep(self.over_block(), Step(GIVEN), rows_of, self.data.labels if keep else None)
        found = self._sum(block_step)
        return (
            replace(found, class_probabilities=self._on_sample().count_rows(rows_of, keep=True).kept) if keep else found
        )

    def count(self, class_probabilities: FloatArray) -> Expectation:
        """Not possible here: class probabilities of all items are nowhere in memory."""
        raise NotImplementedError

    def _on_sample(self) -> AnnotationPass:
        one = self.over_block()(self.data.sample)
        one.hard = self.hard
        return one

    def _sum(self, add: AddBlock) -> Expectation:
        return self.data.sum_blocks(self.groups, add, counts_shape=self.counts_shape, columns=self.columns)


class ShardedConfusionPass(ShardedPass, ConfusionPass):
    """`ConfusionPass` over a store."""

    def __init__(self, data: StoredAnnotations, columns: int) -> None:
        self.cells = data.cells()
        self._open(data, columns=columns, counts_shape=(self.cells.n_cells, columns))
        self.total_weight = float(self.cells.total.sum())

    def over_block(self) -> Callable[[Annotations], AnnotationPass]:
        """Makes the pass in memory of a block."""
        return partial(confusion_block, self.cells, self.columns)


class ShardedVotePass(ShardedPass, VotePass):
    """`VotePass` over a store."""

    def __init__(self, data: StoredAnnotations, *, by_cell: bool) -> None:
        self.cells = data.cells() if by_cell else None
        self.total = data.store.weight_per_annotator if self.cells is None else self.cells.total
        self._open(data, columns=data.n_classes, counts_shape=(len(self.total),))
        self.total_weight = float(self.total.sum())

    def over_block(self) -> Callable[[Annotations], AnnotationPass]:
        """Makes the pass in memory of a block."""
        return partial(vote_block, self.cells)


def confusion_block(cells: Cells, columns: int, block: Annotations) -> ConfusionPass:
    """The pass of a block, with the cells of the whole store."""
    own = replace(cells, item_start=block.item_start, cell=cells.code(block), weight=block.weight)
    made = ConfusionPass(own, columns=columns)
    made.block = block
    return made


def vote_block(cells: Cells | None, block: Annotations) -> VotePass:
    """The pass of a block, with the sources of the whole store."""
    n_sources = block.n_annotators if cells is None else cells.n_cells
    made = VotePass(block, block.annotator if cells is None else cells.code(block), n_sources=n_sources)
    made.block = block
    return made

"""The expectation step of the EM methods: class probabilities of the items, and the expected counts that follow.

`ConfusionPass` serves methods with confusion matrices, `VotePass` those in which a label speaks only for its own class.
Both visit the items block by block; the sums of a group of items go on from block to block, so that it makes no
difference where the annotations are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from crowdprism.aggregators import blocks
from crowdprism.aggregators.blocks import GIVEN, HARD, SOFT, Block, ConfusionBlock, Step, VoteBlock
from crowdprism.aggregators.em import Expectation, FloatArray, Sums
from crowdprism.aggregators.sources import OutOfCore, require_room, source_of
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError

FLOOR = 1e-30  # smallest probability in a product: eight of them do not underflow, and none changes a result
MAX_LOG_ODDS = 60.0  # beyond it products of odds could overflow between two rescalings, so logs are added

RowsOf = Callable[[Block, int, int], FloatArray]
"""Class probabilities (items, columns) of a range of a block's items."""
Finish = Callable[[Block, int, int, FloatArray], FloatArray]
"""Turns class probabilities of a range of items, in latent columns, into those of classes."""


@dataclass(frozen=True, eq=False)
class BlockStep:
    """What is done with a block in a pass; a record, so that it can travel to other machines."""

    block_of: Callable[[Annotations, int], Block]
    step: Step
    rows_of: RowsOf | None
    finish: Finish | None
    kept: FloatArray | None = None  # (n_items, columns) gets the class probabilities, where these are in memory
    labels: Any = None  # writes the labels of items, where these are out of core

    def __call__(self, annotations: Annotations, first: int, last: int, sums: Sums, place: int) -> None:
        """Add a range of a block's items to the sums of their group."""
        block = self.block_of(annotations, place)
        if self.kept is not None:
            rows = self.kept[first:last]
        else:
            rows = np.empty((1 if self.labels is None else last - first, block.columns))
        if self.rows_of is not None:
            made = np.require(self.rows_of(block, first, last), np.float64, ["C", "W"])
            rows[:], rows = (made, rows) if len(rows) == len(made) else (rows, made)
        block.add(self.step, first, last, rows, sums)
        if self.labels is not None:
            rows = rows if self.finish is None else self.finish(block, first, last, rows)
            self.labels.write(annotations, first, last, block.with_gold(rows, first, last))


class AnnotationPass(ABC):
    """Expectation steps over all annotations, wherever they are: what `em.climb` asks of its data."""

    hard = False

    def __init__(
        self,
        annotations: Annotations,
        block_of: Callable[[Annotations, int], Block],
        *,
        total: FloatArray,  # sum of weights of annotations for each row of the counts
        columns: int,  # latent classes: more than labels where a class has subtypes
        counts_shape: tuple[int, ...],
    ) -> None:
        self.annotations, self.source = annotations, source_of(annotations)
        self.journal = self.source.journal
        self.n_classes, self.columns, self.counts_shape = annotations.n_classes, columns, counts_shape
        self.total, self.total_weight = total, float(total.sum())
        self.groups = self.source.bounds(counts_shape[0])
        self.block_of = block_of
        if not isinstance(annotations, OutOfCore):
            whole = block_of(annotations, 0)
            self.block_of = lambda annotations, place: whole
        if not blocks.COMPILED and annotations.n_annotations >= blocks.LARGE:
            blocks.report_missing_compiler()

    def hardened(self) -> Self:
        """The same pass with all probability on the most probable class, in equal shares where several are."""
        other = copy(self)
        other.hard = True
        return other

    def expect(self, model: Any, *, keep: bool = True, finish: Finish | None = None) -> Expectation:
        """Class probabilities of all items under a model's tables, and the counts they imply.

        Without `keep` the class probabilities are dropped, and large data need less memory. `finish` turns those that
        are kept into what the method gives. Out of core, labels that are kept go to files, and the class probabilities
        of the sample are returned.
        """
        self._require_possible_gold(model.class_prior)
        table, logs = self._table(model)
        with np.errstate(divide="ignore"):
            start = np.log(model.class_prior) if logs else np.ascontiguousarray(model.class_prior)
        return self._run(Step(HARD if self.hard else SOFT, table, start, logs), keep=keep, finish=finish)

    def count(self, class_probabilities: FloatArray) -> Expectation:
        """The counts that given class probabilities, in memory, imply, with log likelihood 0."""
        return self.count_rows(lambda _, first, last: class_probabilities[first:last])

    def count_votes(self) -> Expectation:
        """The counts if class probabilities were the items' shares of votes."""
        return self.count_rows(Block.vote_shares)

    def count_rows(self, rows_of: RowsOf, *, keep: bool = False) -> Expectation:
        """The counts that class probabilities imply which are made range by range, with log likelihood 0."""
        return self._run(Step(GIVEN), rows_of, keep=keep)

    def _run(
        self, step: Step, rows_of: RowsOf | None = None, *, keep: bool, finish: Finish | None = None
    ) -> Expectation:
        add, a = BlockStep(self.block_of, step, rows_of, finish), self.annotations
        shape: dict[str, Any] = {"counts_shape": self.counts_shape, "columns": self.columns}
        if not keep:
            return self.source.sum_blocks(self.groups, add, **shape)
        shown = a.sample if isinstance(a, OutOfCore) else a
        kept = np.empty((shown.n_items, self.columns))
        if isinstance(a, OutOfCore):
            found = a.sum_blocks(self.groups, replace(add, labels=a.labels), **shape)
            replace(add, kept=kept)(shown, 0, shown.n_items, Sums.zeros(*shape.values()), 0)
        else:
            found = self.source.sum_blocks(self.groups, replace(add, kept=kept), **shape)
        if finish is not None:
            kept = finish(self.block_of(shown, 0), 0, shown.n_items, kept)
        return replace(found, class_probabilities=kept)

    def _require_possible_gold(self, class_prior: FloatArray) -> None:
        """Refuse a class prior of 0 for a class that some item is known to have."""
        shares = class_prior.reshape(self.n_classes, -1).sum(axis=1)
        impossible = np.where(shares <= 0, self.source.gold_counts, 0)
        if impossible.any():
            raise InvalidParameterError(
                f"{impossible.sum()} items have gold of a class whose share in class_prior is 0; the first is class "
                f"{impossible.argmax()} (counted from 0). Give the class a share, or remove its gold.",
                parameter="class_prior",
            )

    @abstractmethod
    def _table(self, model: Any) -> tuple[FloatArray, bool]:
        """The model's table as the pass needs it, and whether it holds logs."""


class ConfusionPass(AnnotationPass):
    """Passes for models with a `likelihood` (n_cells, columns) of each cell's label and a `class_prior` (columns,)."""

    def __init__(self, annotations: Annotations, *, columns: int | None = None, method: str | None = None) -> None:
        width = columns or annotations.n_classes
        self.cells = source_of(annotations).cells(columns=width, method=method)
        block_of = partial(ConfusionBlock, self.cells, width)
        shape = (self.cells.n_cells, width)
        super().__init__(annotations, block_of, total=self.cells.total, columns=width, counts_shape=shape)

    def _table(self, model: Any) -> tuple[FloatArray, bool]:
        likelihood = np.maximum(model.likelihood, FLOOR)
        if blocks.COMPILED and not self.source.weighted:
            return likelihood, False
        return np.log(likelihood, out=likelihood), True


class VotePass(AnnotationPass):
    """Passes for models with a `class_prior` and `log_odds` by which a label raises the class it names.

    The odds are (n_annotators,), or by cell.
    """

    def __init__(self, annotations: Annotations, *, by_cell: bool = False, method: str | None = None) -> None:
        if method is not None and not isinstance(annotations, OutOfCore):
            require_room(annotations, n_rows=annotations.n_annotators, columns=annotations.n_classes, method=method)
        source = source_of(annotations)
        self.cells = source.cells(method=method) if by_cell else None
        total = source.weight_per_annotator if self.cells is None else self.cells.total
        width, shape = annotations.n_classes, (len(total),)
        super().__init__(annotations, partial(VoteBlock, self.cells), total=total, columns=width, counts_shape=shape)

    def _table(self, model: Any) -> tuple[FloatArray, bool]:
        log_odds = np.ascontiguousarray(model.log_odds)
        logs = not blocks.COMPILED or self.source.weighted or bool(np.abs(log_odds).max(initial=0.0) > MAX_LOG_ODDS)
        return log_odds if logs else np.exp(log_odds), logs

"""The expectation step of the EM methods: class probabilities of the items, and the expected counts that follow.

`ConfusionPass` serves methods with confusion matrices, `VotePass` those in which a label speaks only for its own class.
Each works on groups of items: compiled (`_expectation.pyx`) where the install could compile it, else in SciPy with the
same numbers. Groups depend on the data alone and are summed in order, so the number of threads changes no bit.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import sum_weights
from crowdprism.aggregators.cells import Cells
from crowdprism.aggregators.em import Expectation, FloatArray, Journal, Sums, group_bounds, sum_groups
from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.errors import InvalidParameterError
from crowdprism.results.confusion import normalize_rows

try:
    from crowdprism.aggregators import _expectation  # type: ignore[attr-defined]
except ImportError:
    _expectation = None

COMPILED = _expectation is not None and os.environ.get("CROWDPRISM_COMPILED") != "0"
FLOOR = 1e-30  # smallest probability in a product: eight of them do not underflow, and none changes a result
TIE = 1e-9  # relative difference below which two classes are equally probable in a hard step
MAX_LOG_ODDS = 60.0  # beyond it products of odds could overflow between two rescalings, so logs are added
SOFT, HARD, GIVEN = 0, 1, 2  # modes of the compiled passes
LARGE = 10**6  # annotations from which a missing compiled step is worth a message


@cache
def report_missing_compiler() -> None:
    """Log, once per process, that large data could be fitted faster."""
    logging.getLogger("crowdprism").warning(
        "The compiled expectation step is not installed; SciPy runs instead, with the same results but more slowly. "
        "Reinstall crowdprism where a C compiler is available to speed up large fits."
    )


@dataclass(frozen=True, eq=False)
class Step:
    """What one pass over all groups needs besides the data: the mode, the model's table and the class prior."""

    mode: int
    table: Any = None
    start: Any = None  # (columns,) class prior, or its log
    logs: bool = False  # whether `table` and `start` are logs


class AnnotationPass(ABC):
    """Expectation steps over annotations in memory: what `em.climb` asks of its data.

    The prior of an item with gold is 0 in all but its known class. A subclass knows how tables meet annotations:
    compiled (`_compiled`), and in SciPy (`_scores`, `_counts`).
    """

    hard = False
    journal: Journal | None = None
    place = 0  # of the first item among all, where the pass is over a block of them
    block: Annotations | None = None  # that block

    def __init__(
        self,
        annotations: Annotations | Cells,
        *,
        gold: NDArray[np.int32] | None,
        columns: int,
        counts_shape: tuple[int, ...],
    ) -> None:
        self.item_start = annotations.item_start.astype(np.int64, copy=False)
        self.weight = annotations.weight
        self.gold = gold
        self.n_classes = annotations.n_classes
        self.columns = columns  # latent classes: more than labels where a class has subtypes
        self.counts_shape = counts_shape
        self.groups = group_bounds(self.item_start, counts_shape[0])
        if not COMPILED and self.item_start[-1] >= LARGE:
            report_missing_compiler()

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_start) - 1

    @cached_property
    def total_weight(self) -> float:
        """Sum of the weights of all annotations."""
        return float(self.item_start[-1] if self.weight is None else self._source_weights().sum())

    def hardened(self) -> Self:
        """The same pass with all probability on the most probable class, in equal shares where several are."""
        other = copy(self)
        other.hard = True
        return other

    def expect(self, model: Any, *, keep: bool = True, finish: Finish | None = None) -> Expectation:
        """Class probabilities of all items under a model's tables, and the counts they imply.

        Without `keep` the class probabilities are dropped, and large data need less memory. `finish` turns those that
        are kept into what the method gives.
        """
        kept = np.empty((self.n_items, self.columns)) if keep else None
        step = self.step_of(model)
        found = self._over_groups(step, lambda first, last: None if kept is None else kept[first:last])
        if kept is not None and finish is not None:
            kept = finish(self, 0, self.n_items, kept)
        return replace(found, class_probabilities=kept)

    def step_of(self, model: Any) -> Step:
        """The model as a pass needs it."""
        self._require_possible_gold(model.class_prior)
        table, logs = self._table(model)
        with np.errstate(divide="ignore"):
            start = np.log(model.class_prior) if logs else np.ascontiguousarray(model.class_prior)
        return Step(HARD if self.hard else SOFT, table, start, logs)

    def count(self, class_probabilities: FloatArray) -> Expectation:
        """The counts that given class probabilities imply, with log likelihood 0."""
        given = np.require(class_probabilities, np.float64, ["C", "W"])
        found = self._over_groups(Step(GIVEN), lambda first, last: given[first:last])
        return replace(found, class_probabilities=given)

    def count_votes(self) -> Expectation:
        """The counts if class probabilities were the items' shares of votes."""
        return self.count_rows(AnnotationPass.vote_shares)

    def count_rows(self, rows_of: RowsOf, *, keep: bool = False) -> Expectation:
        """The counts that class probabilities imply which are made range by range, with log likelihood 0."""
        kept = np.empty((self.n_items, self.columns)) if keep else None

        def rows(first: int, last: int) -> FloatArray:
            made = rows_of(self, first, last)
            if kept is not None:
                kept[first:last] = made
            return made

        return replace(self._over_groups(Step(GIVEN), rows), class_probabilities=kept)

    def vote_shares(self, first: int = 0, last: int | None = None) -> FloatArray:
        """(items, n_classes) share of each class in an item's annotations, or its known class; uniform without any."""
        last = self.n_items if last is None else last
        own = self._own(first, last)
        place = self._item(first, last) * self.n_classes + self._labels(own)
        weight = None if self.weight is None else self.weight[own]
        votes = np.bincount(place, weights=weight, minlength=(last - first) * self.n_classes)
        shares = normalize_rows(votes.astype(np.float64).reshape(last - first, self.n_classes))
        if self.gold is not None:
            gold = self.gold[first:last, None]
            shares = np.where(gold >= 0, gold == np.arange(self.n_classes), shares)
        return np.asarray(shares, dtype=np.float64)

    def annotated(self, first: int = 0, last: int | None = None) -> NDArray[np.bool_]:
        """(items,) whether the item has an annotation of weight above 0."""
        last = self.n_items if last is None else last
        start = self.item_start[first : last + 1]
        if self.weight is None:
            return np.diff(start) > 0
        counting = np.concatenate([[0], np.cumsum(self.weight[self._own(first, last)] > 0)])
        return np.asarray(np.diff(counting[start - start[0]]) > 0)

    def _over_groups(self, step: Step, rows_of: Callable[[int, int], FloatArray | None]) -> Expectation:
        work = self._compiled_group if COMPILED else self._plain_group
        table_bytes = 8 * int(np.prod(self.counts_shape))
        return sum_groups(lambda a, b: work(step, a, b, rows_of(a, b)), self.groups, table_bytes=table_bytes)

    def _compiled_group(self, step: Step, first: int, last: int, rows: FloatArray | None) -> Expectation:
        rows = np.empty((1, self.columns)) if rows is None else rows
        return self.add(step, first, last, rows, Sums.zeros(self.counts_shape, self.columns))

    def add(self, step: Step, first: int, last: int, rows: FloatArray, sums: Sums) -> Expectation:
        """Go on with the sums of a group whose items come in parts; compiled, the parts change no bit."""
        if COMPILED:
            one = step.table, step.start, first, last, step.mode, step.logs, rows
            return Expectation(self._compiled(*one, sums.counts, sums.totals, sums.carried), sums.counts, sums.totals)
        found = self._plain_group(step, first, last, rows if len(rows) == last - first else None)
        sums.carried[0] += found.log_likelihood
        sums.counts[...] += found.counts
        sums.totals[...] += found.class_totals
        return Expectation(float(sums.carried[0]), sums.counts, sums.totals)

    def _plain_group(self, step: Step, first: int, last: int, rows: FloatArray | None) -> Expectation:
        annotated = self.annotated(first, last)
        probabilities, log_likelihood = rows, 0.0
        if step.mode != GIVEN:
            scores = self._scores(step.table, first, last) + step.start
            if self.gold is not None:
                gold, true_class = self.gold[first:last, None], np.arange(self.columns) * self.n_classes // self.columns
                scores[(gold >= 0) & (gold != true_class)] = -np.inf
            probabilities, log_likelihood = soft_classes(scores)
            if step.mode == HARD:  # items without annotations keep the prior
                probabilities[annotated], log_likelihood = hard_classes(scores[annotated])
            if rows is not None:
                rows[:] = probabilities
        assert probabilities is not None
        return Expectation(
            log_likelihood, self._counts(probabilities, first, last), probabilities[annotated].sum(axis=0)
        )

    def _require_possible_gold(self, class_prior: FloatArray) -> None:
        """Refuse a class prior of 0 for a class that some item is known to have."""
        if self.gold is None:
            return
        shares = class_prior.reshape(self.n_classes, -1).sum(axis=1)
        impossible = (self.gold >= 0) & (shares[self.gold] <= 0)
        if impossible.any():
            raise InvalidParameterError(
                f"{int(impossible.sum())} items have gold of a class whose share in class_prior is 0; the first is of "
                f"class {int(self.gold[impossible][0])} (counted from 0). Give the class a share, or remove its gold.",
                parameter="class_prior",
            )

    def _own(self, first: int, last: int) -> slice:
        """The annotations of items from `first` to before `last`."""
        return slice(int(self.item_start[first]), int(self.item_start[last]))

    def _item(self, first: int, last: int) -> NDArray[np.int64]:
        """The item of each of these annotations, counted from `first`."""
        return np.repeat(np.arange(last - first), np.diff(self.item_start[first : last + 1]))

    @abstractmethod
    def _source_weights(self) -> FloatArray:
        """Sum of weights of annotations for each row of the counts."""

    @abstractmethod
    def _table(self, model: Any) -> tuple[FloatArray, bool]:
        """The model's table as the pass needs it, and whether it holds logs."""

    @abstractmethod
    def _labels(self, own: slice) -> NDArray[Any]:
        """The labels of annotations."""

    @abstractmethod
    def _compiled(self, *arguments: Any) -> float:
        """Run the compiled pass over a group."""

    @abstractmethod
    def _scores(self, table: Any, first: int, last: int) -> FloatArray:
        """(items, columns) log likelihood of the items' annotations in each class."""

    @abstractmethod
    def _counts(self, probabilities: FloatArray, first: int, last: int) -> FloatArray:
        """The counts that class probabilities (items, columns) imply."""


class ConfusionPass(AnnotationPass):
    """Passes for models with a `likelihood` (n_cells, columns) of each cell's label and a `class_prior` (columns,).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from crowdprism.aggregators.cells import cells_of
    >>> cells = cells_of(Annotations.from_dense([[0, 0], [1, -1]]))
    >>> right = np.where(cells.label_of[:, None] == np.arange(2), 0.9, 0.1)
    >>> model = SimpleNamespace(likelihood=right, class_prior=np.array([0.5, 0.5]))
    >>> ConfusionPass(cells).expect(model).kept.round(3).tolist()
    [[0.988, 0.012], [0.1, 0.9]]
    """

    def __init__(self, cells: Cells, *, columns: int | None = None) -> None:
        self.cells = cells
        width = columns or cells.n_classes
        super().__init__(cells, gold=cells.gold, columns=width, counts_shape=(cells.n_cells, width))
        self._incidence: dict[int, Any] = {}

    def _source_weights(self) -> FloatArray:
        return self.cells.total

    def _table(self, model: Any) -> tuple[FloatArray, bool]:
        likelihood = np.maximum(model.likelihood, FLOOR)
        if COMPILED and self.weight is None:
            return likelihood, False
        return np.log(likelihood, out=likelihood), True

    def _labels(self, own: slice) -> NDArray[Any]:
        return self.cells.label_of[self.cells.cell[own]]

    def _compiled(self, *arguments: Any) -> float:
        found: float = _expectation.confusion(
            self.item_start, self.gold, self.n_classes, self.cells.cell, self.weight, *arguments
        )
        return found

    def _scores(self, table: Any, first: int, last: int) -> FloatArray:
        return np.asarray(self._weights(first, last) @ table)

    def _counts(self, probabilities: FloatArray, first: int, last: int) -> FloatArray:
        return np.asarray(self._weights(first, last).T @ probabilities)

    def _weights(self, first: int, last: int) -> Any:
        """Items of a group x cells: the weight of each annotation, sparse; kept for the next pass."""
        from scipy.sparse import csr_array

        if first not in self._incidence:
            own = self._own(first, last)
            weight = np.ones(own.stop - own.start) if self.weight is None else self.weight[own].astype(np.float64)
            parts = (weight, self.cells.cell[own].astype(np.int64), self.item_start[first : last + 1] - own.start)
            self._incidence[first] = csr_array(parts, shape=(last - first, self.cells.n_cells))
        return self._incidence[first]


class VotePass(AnnotationPass):
    """Passes for models with a `class_prior` and `log_odds` (n_sources,), by which a label raises the class it names.

    `source` (n_annotations,) says what the odds of an annotation depend on: its annotator, or its cell.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> a = Annotations.from_dense([[0, 0], [1, -1]])
    >>> model = SimpleNamespace(log_odds=np.log([9.0, 9.0]), class_prior=np.array([0.5, 0.5]))
    >>> VotePass(a, a.annotator, n_sources=2).expect(model).kept.round(3).tolist()
    [[0.988, 0.012], [0.1, 0.9]]
    """

    cells: Cells | None = None  # where the source is the cell

    def __init__(self, annotations: Annotations, source: NDArray[Any], *, n_sources: int) -> None:
        gold = known_classes(annotations)
        super().__init__(annotations, gold=gold, columns=annotations.n_classes, counts_shape=(n_sources,))
        self.source = source.astype(np.uint32, copy=False)
        self.label = annotations.label.astype(np.int32, copy=False)

    @cached_property
    def total(self) -> FloatArray:
        """(n_sources,) sum of weights of the annotations of each source."""
        return sum_weights(self.source, self.weight, self.counts_shape[0])

    def _source_weights(self) -> FloatArray:
        return self.total

    def _table(self, model: Any) -> tuple[FloatArray, bool]:
        log_odds = np.ascontiguousarray(model.log_odds)
        logs = not COMPILED or self.weight is not None or bool(np.abs(log_odds).max(initial=0.0) > MAX_LOG_ODDS)
        return log_odds if logs else np.exp(log_odds), logs

    def _labels(self, own: slice) -> NDArray[Any]:
        return self.label[own]

    def _compiled(self, *arguments: Any) -> float:
        found: float = _expectation.vote(
            self.item_start, self.gold, self.n_classes, self.source, self.label, self.weight, *arguments
        )
        return found

    def _scores(self, table: Any, first: int, last: int) -> FloatArray:
        own = self._own(first, last)
        votes = table[self.source[own]] * (1.0 if self.weight is None else self.weight[own])
        place = self._item(first, last) * self.n_classes + self.label[own]
        sums = np.bincount(place, weights=votes, minlength=(last - first) * self.n_classes)
        return sums.astype(np.float64, copy=False).reshape(last - first, self.n_classes)

    def _counts(self, probabilities: FloatArray, first: int, last: int) -> FloatArray:
        own = self._own(first, last)
        right = probabilities[self._item(first, last), self.label[own]]
        right = right * (1.0 if self.weight is None else self.weight[own])
        return np.bincount(self.source[own], weights=right, minlength=self.counts_shape[0]).astype(np.float64)


def soft_classes(scores: FloatArray) -> tuple[FloatArray, float]:
    """Class probabilities from log joint probabilities, and the sum of their log normalisers."""
    top = scores.max(axis=1, keepdims=True)
    joint = np.exp(scores - top)
    sums = joint.sum(axis=1, keepdims=True)
    joint /= sums
    return joint, float(top.sum() + np.log(sums).sum())


def hard_classes(scores: FloatArray) -> tuple[FloatArray, float]:
    """All probability on the best class (equal shares for equal ones), and the sum of the best log joints."""
    top = scores.max(axis=1, keepdims=True)
    best = scores >= top - TIE
    return best / best.sum(axis=1, keepdims=True), float(top.sum())


RowsOf = Callable[[AnnotationPass, int, int], FloatArray]
"""Class probabilities (items, columns) of the items of a pass from the first to before the last."""
Finish = Callable[[AnnotationPass, int, int, FloatArray], FloatArray]
"""Turns class probabilities of a range of items, in latent columns, into those of classes."""

"""The expectation step of the EM methods: class probabilities of the items, and the expected counts that follow.

`ConfusionPass` serves methods with confusion matrices, `VotePass` those in which a label speaks only for its own class.
Each works on groups of items: compiled (`_expectation.pyx`) where the install could compile it, else in SciPy with the
same numbers. Groups depend on the data alone and are summed in order, so the number of threads changes no bit.

Tables have a row for every cell, an (annotator, given label) pair that occurs, and the true classes side by side. Pairs
that nobody used need no storage, which keeps a thousand classes and ten thousand annotators within reach.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import require_room, sum_weights
from crowdprism.aggregators.em import Expectation, FloatArray, group_bounds, sum_groups
from crowdprism.annotations import Annotations
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
MAX_KEYS_COUNTED = 2**27  # beyond this many possible pairs, sorting the keys is cheaper than counting all of them


@dataclass(frozen=True, eq=False)
class Cells:
    """Annotations as (item, cell) pairs; cells are sorted by annotator, then label."""

    item_start: NDArray[np.int64]  # (n_items + 1,) as in `Annotations`
    cell: NDArray[np.uint32]  # (n_annotations,) position of the annotation's (annotator, label) pair
    annotator_of: NDArray[np.int64]  # (n_cells,)
    label_of: NDArray[np.int64]  # (n_cells,)
    total: FloatArray  # (n_cells,) sum of weights of the cell's annotations
    weight: NDArray[np.float32] | None  # (n_annotations,) or None where every annotation counts 1
    n_annotators: int
    n_classes: int

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.label_of)

    @property
    def complete(self) -> bool:
        """Whether there is a cell for every (annotator, label) pair."""
        return self.n_cells == self.n_annotators * self.n_classes

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


def cells_of(annotations: Annotations, *, columns: int = 1, method: str = "this method") -> Cells:
    """Return the cells of annotations; refuses tables with `columns` numbers per cell that would not fit in memory.

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
    require_room(annotations, n_rows=len(occurring), columns=columns, method=method)
    return Cells(
        item_start=annotations.item_start.astype(np.int64, copy=False),
        cell=cell,
        annotator_of=occurring.astype(np.int64) // annotations.n_classes,
        label_of=occurring.astype(np.int64) % annotations.n_classes,
        total=sum_weights(cell, annotations.weight, len(occurring)),
        weight=annotations.weight,
        n_annotators=annotations.n_annotators,
        n_classes=annotations.n_classes,
    )


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

    A subclass knows how tables meet annotations: compiled (`_compiled`), and in SciPy (`_scores`, `_counts`).
    """

    hard = False

    def __init__(
        self, annotations: Annotations | Cells, *, n_classes: int, columns: int, counts_shape: tuple[int, ...]
    ) -> None:
        self.item_start = annotations.item_start.astype(np.int64, copy=False)
        self.weight = annotations.weight
        self.n_classes = n_classes
        self.columns = columns  # latent classes: more than labels where a class has subtypes
        self.counts_shape = counts_shape
        self.groups = group_bounds(self.item_start, counts_shape[0])
        n_annotations = int(self.item_start[-1])
        self.total_weight = float(n_annotations if self.weight is None else self.weight.sum(dtype=np.float64))
        if not COMPILED and n_annotations >= LARGE:
            report_missing_compiler()

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_start) - 1

    def hardened(self) -> Self:
        """The same pass with all probability on the most probable class, in equal shares where several are."""
        other = copy(self)
        other.hard = True
        return other

    def expect(self, model: Any, *, keep: bool = True) -> Expectation:
        """Class probabilities of all items under a model's tables, and the counts they imply.

        Without `keep` the class probabilities are dropped, and large data need less memory.
        """
        table, logs = self._table(model)
        with np.errstate(divide="ignore"):
            start = np.log(model.class_prior) if logs else np.ascontiguousarray(model.class_prior)
        kept = np.empty((self.n_items, self.columns)) if keep else None
        step = Step(HARD if self.hard else SOFT, table, start, logs)
        found = self._over_groups(step, lambda first, last: None if kept is None else kept[first:last])
        return replace(found, class_probabilities=kept)

    def count(self, class_probabilities: FloatArray) -> Expectation:
        """The counts that given class probabilities imply, with log likelihood 0."""
        given = np.require(class_probabilities, np.float64, ["C", "W"])
        found = self._over_groups(Step(GIVEN), lambda first, last: given[first:last])
        return replace(found, class_probabilities=given)

    def count_votes(self) -> Expectation:
        """The counts if class probabilities were the items' shares of votes."""
        return self._over_groups(Step(GIVEN), self.vote_shares)

    def vote_shares(self, first: int = 0, last: int | None = None) -> FloatArray:
        """(items, n_classes) share of each class in an item's annotations; uniform for items without any."""
        last = self.n_items if last is None else last
        own = self._own(first, last)
        place = self._item(first, last) * self.n_classes + self._labels(own)
        weight = None if self.weight is None else self.weight[own]
        votes = np.bincount(place, weights=weight, minlength=(last - first) * self.n_classes)
        shares = normalize_rows(votes.astype(np.float64).reshape(last - first, self.n_classes))
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
        counts, totals = np.zeros(self.counts_shape), np.zeros(self.columns)
        log_likelihood = self._compiled(step.table, step.start, first, last, step.mode, step.logs, rows, counts, totals)
        return Expectation(log_likelihood, counts, totals)

    def _plain_group(self, step: Step, first: int, last: int, rows: FloatArray | None) -> Expectation:
        annotated = self.annotated(first, last)
        probabilities, log_likelihood = rows, 0.0
        if step.mode != GIVEN:
            scores = self._scores(step.table, first, last) + step.start
            probabilities, log_likelihood = soft_classes(scores)
            if step.mode == HARD:  # items without annotations keep the prior
                probabilities[annotated], log_likelihood = hard_classes(scores[annotated])
            if rows is not None:
                rows[:] = probabilities
        assert probabilities is not None
        return Expectation(
            log_likelihood, self._counts(probabilities, first, last), probabilities[annotated].sum(axis=0)
        )

    def _own(self, first: int, last: int) -> slice:
        """The annotations of items from `first` to before `last`."""
        return slice(int(self.item_start[first]), int(self.item_start[last]))

    def _item(self, first: int, last: int) -> NDArray[np.int64]:
        """The item of each of these annotations, counted from `first`."""
        return np.repeat(np.arange(last - first), np.diff(self.item_start[first : last + 1]))

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
    >>> cells = cells_of(Annotations.from_dense([[0, 0], [1, -1]]))
    >>> right = np.where(cells.label_of[:, None] == np.arange(2), 0.9, 0.1)
    >>> model = SimpleNamespace(likelihood=right, class_prior=np.array([0.5, 0.5]))
    >>> ConfusionPass(cells).expect(model).kept.round(3).tolist()
    [[0.988, 0.012], [0.1, 0.9]]
    """

    def __init__(self, cells: Cells, *, columns: int | None = None) -> None:
        self.cells = cells
        width = columns or cells.n_classes
        super().__init__(cells, n_classes=cells.n_classes, columns=width, counts_shape=(cells.n_cells, width))
        self._incidence: dict[int, Any] = {}

    def _table(self, model: Any) -> tuple[FloatArray, bool]:
        likelihood = np.maximum(model.likelihood, FLOOR)
        if COMPILED and self.weight is None:
            return likelihood, False
        return np.log(likelihood, out=likelihood), True

    def _labels(self, own: slice) -> NDArray[Any]:
        return self.cells.label_of[self.cells.cell[own]]

    def _compiled(self, *arguments: Any) -> float:
        found: float = _expectation.confusion(self.item_start, self.cells.cell, self.weight, *arguments)
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

    def __init__(self, annotations: Annotations, source: NDArray[Any], *, n_sources: int) -> None:
        super().__init__(
            annotations, n_classes=annotations.n_classes, columns=annotations.n_classes, counts_shape=(n_sources,)
        )
        self.source = source.astype(np.uint32, copy=False)
        self.label = annotations.label.astype(np.int32, copy=False)
        self.total = sum_weights(source, annotations.weight, n_sources)

    def _table(self, model: Any) -> tuple[FloatArray, bool]:
        log_odds = np.ascontiguousarray(model.log_odds)
        logs = not COMPILED or self.weight is not None or bool(np.abs(log_odds).max(initial=0.0) > MAX_LOG_ODDS)
        return log_odds if logs else np.exp(log_odds), logs

    def _labels(self, own: slice) -> NDArray[Any]:
        return self.label[own]

    def _compiled(self, *arguments: Any) -> float:
        found: float = _expectation.vote(self.item_start, self.source, self.label, self.weight, *arguments)
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

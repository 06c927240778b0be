"""Items in memory as an expectation step sees them.

The work is compiled (`_expectation.pyx`) where the install could compile it, else in SciPy with the same numbers.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.em import FloatArray, Sums
from crowdprism.aggregators.sources import Cells
from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.results.confusion import normalize_rows

try:
    from crowdprism.aggregators import _expectation  # type: ignore[attr-defined]
except ImportError:
    _expectation = None

COMPILED = _expectation is not None and os.environ.get("CROWDPRISM_COMPILED") != "0"
TIE = 1e-9  # relative difference below which two classes are equally probable in a hard step
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
    """What a pass needs besides the data: the mode, the model's table and the class prior."""

    mode: int
    table: Any = None
    start: Any = None  # (columns,) class prior, or its log
    logs: bool = False  # whether `table` and `start` are logs


@dataclass(frozen=True, eq=False)
class Rows:
    """The annotations of a range of items."""

    own: slice  # where they are
    item: NDArray[np.int64]  # counted from the first of the range
    annotator: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[np.float32] | None


def rows_of(annotations: Annotations, first: int, last: int) -> Rows:
    """The annotations of items from `first` to before `last`."""
    start = annotations.item_start[first : last + 1]
    own = slice(int(start[0]), int(start[-1]))
    weight = None if annotations.weight is None else annotations.weight[own]
    item = np.repeat(np.arange(last - first), np.diff(start))
    return Rows(own, item, annotations.annotator[own], annotations.label[own], weight)


class Block(ABC):
    """Items in memory as a pass sees them; `first` and `last` are a range of them.

    A subclass knows how tables meet annotations: compiled (`_compiled`), and in SciPy (`_scores`, `_counts`).
    """

    def __init__(self, annotations: Annotations, place: int, columns: int) -> None:
        self.place = place  # of the first item among all
        self.columns = columns
        self.annotations, self.weight = annotations, annotations.weight
        self.item_start = annotations.item_start.astype(np.int64, copy=False)
        self.gold = known_classes(annotations)
        self.n_classes = annotations.n_classes

    def votes(self, first: int, last: int, skills: FloatArray | None = None) -> FloatArray:
        """(items, n_classes) sum of the weights of annotations, times their annotators' skills (n_annotators,)."""
        rows = rows_of(self.annotations, first, last)
        weight: Any = rows.weight
        if skills is not None:
            weight = (1.0 if weight is None else weight) * skills[rows.annotator]
        place = rows.item * self.n_classes + rows.label
        return np.bincount(place, weight, (last - first) * self.n_classes).astype(np.float64).reshape(last - first, -1)

    def vote_shares(self, first: int, last: int) -> FloatArray:
        """(items, n_classes) share of each class in an item's votes, or its known class; uniform without any."""
        return self.with_gold(np.asarray(normalize_rows(self.votes(first, last)), dtype=np.float64), first, last)

    def with_gold(self, rows: FloatArray, first: int, last: int) -> FloatArray:
        """Give items with gold their known class."""
        if self.gold is None:
            return rows
        gold = self.gold[first:last, None]
        return np.where(gold >= 0, gold == np.arange(self.n_classes), rows)

    def annotated(self, first: int, last: int) -> NDArray[np.bool_]:
        """(items,) whether the item has an annotation of weight above 0."""
        rows = rows_of(self.annotations, first, last)
        counting = None if rows.weight is None else rows.weight > 0
        return np.bincount(rows.item, counting, last - first) > 0

    def add(self, step: Step, first: int, last: int, rows: FloatArray, sums: Sums) -> None:
        """Go on with the sums of a group whose items come in parts; compiled, the parts change no bit.

        `rows` has class probabilities in mode GIVEN, else gets them if it has as many rows as there are items.
        """
        if COMPILED:
            one = step.table, step.start, first, last, step.mode, step.logs, rows
            self._compiled(*one, sums.counts, sums.totals, sums.carried)
            return
        annotated = self.annotated(first, last)
        probabilities = rows
        if step.mode != GIVEN:
            scores = self._scores(step.table, first, last) + step.start
            if self.gold is not None:
                gold, true_class = self.gold[first:last, None], np.arange(self.columns) * self.n_classes // self.columns
                scores[(gold >= 0) & (gold != true_class)] = -np.inf
            probabilities, log_likelihood = soft_classes(scores)
            if step.mode == HARD:  # items without annotations keep the prior
                probabilities[annotated], log_likelihood = hard_classes(scores[annotated])
            if len(rows) == last - first:
                rows[:] = probabilities
            sums.carried[0] += log_likelihood
        sums.counts[...] += self._counts(probabilities, first, last)
        sums.totals[...] += probabilities[annotated].sum(axis=0)

    @abstractmethod
    def _compiled(self, *arguments: Any) -> None:
        """Run the compiled pass."""

    @abstractmethod
    def _scores(self, table: Any, first: int, last: int) -> FloatArray:
        """(items, columns) log likelihood of the items' annotations in each class."""

    @abstractmethod
    def _counts(self, probabilities: FloatArray, first: int, last: int) -> FloatArray:
        """The counts that class probabilities (items, columns) imply."""


class ConfusionBlock(Block):
    """Annotations by their cells."""

    def __init__(self, cells: Cells, columns: int, annotations: Annotations, place: int) -> None:
        super().__init__(annotations, place, columns)
        self.n_cells = cells.n_cells
        self.cell = cells.code(annotations) if cells.cell is None else cells.cell
        self._incidence: dict[int, Any] = {}

    def _compiled(self, *arguments: Any) -> None:
        _expectation.confusion(self.item_start, self.gold, self.n_classes, self.cell, self.weight, *arguments)

    def _scores(self, table: Any, first: int, last: int) -> FloatArray:
        return np.asarray(self._weights(first, last) @ table)

    def _counts(self, probabilities: FloatArray, first: int, last: int) -> FloatArray:
        return np.asarray(self._weights(first, last).T @ probabilities)

    def _weights(self, first: int, last: int) -> Any:
        """Items x cells: the weight of each annotation, sparse; kept for the next pass."""
        from scipy.sparse import csr_array

        if first not in self._incidence:
            rows = rows_of(self.annotations, first, last)
            weight = np.ones(len(rows.item)) if rows.weight is None else rows.weight.astype(np.float64)
            start = self.item_start[first : last + 1] - rows.own.start
            parts = (weight, self.cell[rows.own].astype(np.int64), start)
            self._incidence[first] = csr_array(parts, shape=(last - first, self.n_cells))
        return self._incidence[first]


class VoteBlock(Block):
    """Annotations by their sources: cells, or annotators where there are no cells."""

    def __init__(self, cells: Cells | None, annotations: Annotations, place: int) -> None:
        super().__init__(annotations, place, annotations.n_classes)
        self.label = annotations.label.astype(np.int32, copy=False)
        if cells is None:
            self.source, self.n_sources = annotations.annotator.astype(np.uint32, copy=False), annotations.n_annotators
        else:
            self.source, self.n_sources = cells.code(annotations) if cells.cell is None else cells.cell, cells.n_cells

    def _compiled(self, *arguments: Any) -> None:
        _expectation.vote(self.item_start, self.gold, self.n_classes, self.source, self.label, self.weight, *arguments)

    def _scores(self, table: Any, first: int, last: int) -> FloatArray:
        rows = rows_of(self.annotations, first, last)
        votes = table[self.source[rows.own]] * (1.0 if rows.weight is None else rows.weight)
        place = rows.item * self.n_classes + rows.label
        sums = np.bincount(place, weights=votes, minlength=(last - first) * self.n_classes)
        return sums.astype(np.float64, copy=False).reshape(last - first, self.n_classes)

    def _counts(self, probabilities: FloatArray, first: int, last: int) -> FloatArray:
        rows = rows_of(self.annotations, first, last)
        right = probabilities[rows.item, rows.label] * (1.0 if rows.weight is None else rows.weight)
        return np.bincount(self.source[rows.own], weights=right, minlength=self.n_sources).astype(np.float64)


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

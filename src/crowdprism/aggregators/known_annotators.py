"""What is known of annotators before a fit: the crowd's or their own pseudo-counts, and confusions to start from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crowdprism.aggregators.base import with_gold_classes
from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.expectation import FLOOR
from crowdprism.aggregators.majority_vote import vote_totals
from crowdprism.aggregators.sources import Cells
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import positions
from crowdprism.errors import InvalidParameterError, some
from crowdprism.results import FitResult
from crowdprism.results.confusion import normalize_rows

ROW_SUM_SLACK = 1e-3


@dataclass(frozen=True, eq=False)
class ConfusionPrior:
    """Pseudo-counts (true class, given label): common ones, and own ones of returning annotators, by their code."""

    common: FloatArray
    own: dict[int, FloatArray] = field(default_factory=dict)

    @property
    def absent(self) -> bool:
        return not self.own and not self.common.any()

    def dense(self, n_annotators: int) -> FloatArray:
        return self._for_each(self.common, n_annotators, lambda own: own)

    def on_cells(self, cells: Cells) -> CellPrior | None:
        """The pseudo-counts in the order of cells; None where there are none."""
        if self.absent:
            return None
        cell = np.ascontiguousarray(self.common.T[cells.label_of])
        for annotator, own in self.own.items():
            first, last = np.searchsorted(cells.annotator_of, [annotator, annotator + 1])
            cell[first:last] = own.T[cells.label_of[first:last]]
        row = self._for_each(self.common.sum(axis=1), cells.n_annotators, lambda own: own.sum(axis=1))
        if cells.complete:
            return CellPrior(cell, row, np.zeros_like(row), np.zeros_like(row))
        own_sums = xlogy(self.common, self.common).sum(axis=1)
        xlogx = self._for_each(own_sums, cells.n_annotators, lambda own: xlogy(own, own).sum(axis=1))
        rest_mass = np.maximum(row - cells.sum_by_annotator(cell), 0.0)
        return CellPrior(cell, row, rest_mass, xlogx - cells.sum_by_annotator(xlogy(cell, cell)))

    def right(self, n_annotators: int) -> FloatArray:
        """(n_annotators, true class) pseudo-counts of right labels."""
        return self._for_each(np.diag(self.common), n_annotators, np.diag)

    def _for_each(
        self, common: FloatArray, n_annotators: int, of_own: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        values = np.repeat(common[None], n_annotators, axis=0)
        for annotator, own in self.own.items():
            values[annotator] = of_own(own)
        return values


@dataclass(frozen=True, eq=False)
class CellPrior:
    """A `ConfusionPrior` in the form that cells need; labels without a cell have a closed form of the penalty."""

    cell: FloatArray  # (n_cells, true class)
    row: FloatArray  # (n_annotators, true class) sums over all given labels
    rest_mass: FloatArray  # (n_annotators, true class) sums of b over given labels without a cell
    rest_xlogx: FloatArray  # and of b log b

    def log_density(self, likelihood: FloatArray, row_totals: FloatArray) -> float:
        """Sum of b log(confusion) over all entries; rows were divided by `row_totals` (n_annotators, true class)."""
        rest = self.rest_xlogx - xlogy(self.rest_mass, row_totals)
        return float((self.cell * np.log(np.maximum(likelihood, FLOOR))).sum() + rest.sum())


def xlogy(factor: FloatArray, values: FloatArray) -> FloatArray:
    """factor * log(values), 0 where the factor is 0; scipy's own would load scipy at start-up."""
    return np.asarray(factor * np.log(np.where(factor > 0, values, 1.0)))


def starting_confusions(given: Any, annotations: Annotations, common: FloatArray) -> FloatArray:
    """Full confusions from a mapping by annotator name (others get the common matrix) or from an array."""
    shape = (annotations.n_annotators, annotations.n_classes, annotations.n_classes)
    if not isinstance(given, Mapping):
        return checked_rows(given, shape, "initial_confusions")
    place = positions(annotations.annotators, list(given))
    unknown = [name for name, at in zip(given, place, strict=True) if at < 0]
    if len(unknown) == len(given):
        raise InvalidParameterError(
            f"None of the names in initial_confusions is an annotator: {some(unknown)}. "
            f"Annotators are {some(annotations.annotators.tolist())}."
        )
    confusions = np.repeat(np.asarray(common, dtype=np.float64)[None], shape[0], axis=0)
    for at, (name, matrix) in zip(place, given.items(), strict=True):
        if at >= 0:
            confusions[at] = checked_rows(matrix, shape[1:], f"initial_confusions[{name!r}]")
    return confusions


def checked_rows(given: Any, shape: tuple[int, ...], what: str) -> FloatArray:
    """Confusion rows as floats, if they have the shape and sum to one."""
    rows = np.asarray(given, dtype=np.float64)
    if rows.shape != shape:
        raise InvalidParameterError(f"{what} has shape {rows.shape}, not {shape} (..., true class, given label).")
    bad = ~np.isfinite(rows).all(axis=-1) | (rows < 0).any(axis=-1) | (np.abs(rows.sum(axis=-1) - 1) > ROW_SUM_SLACK)
    if bad.any():
        first = tuple(int(at[0]) for at in np.nonzero(bad))
        raise InvalidParameterError(
            f"{int(bad.sum())} rows of {what} are not probabilities that sum to one; the first is "
            f"{rows[first].tolist()} at {first}. Rows are true classes; transpose if yours are given labels."
        )
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def past_counts(past: FitResult, annotations: Annotations) -> dict[int, FloatArray]:
    """Pseudo-counts (true class, given label) of returning annotators, by their code; classes are matched by name."""
    if past.confusion_posterior is None:
        raise InvalidParameterError(
            f"past_result ({past.method}) holds no counts of confusions. Use a result of dawid-skene, ibcc or ebcc."
        )
    annotator = positions(annotations.annotators, past.annotators.tolist())
    label = positions(annotations.classes, past.classes.tolist())
    kept = np.flatnonzero(label >= 0)
    if not len(kept):
        raise InvalidParameterError(
            f"past_result knows none of the classes: it has {some(past.classes.tolist())}, "
            f"the annotations have {some(annotations.classes.tolist())}."
        )
    counts = {}
    for position in np.flatnonzero(annotator >= 0):
        own = np.zeros((annotations.n_classes, annotations.n_classes))
        own[np.ix_(label[kept], label[kept])] = past.confusion_posterior[position][np.ix_(kept, kept)]
        counts[int(annotator[position])] = own
    return counts


def carried_over(previous: FitResult, annotations: Annotations) -> FloatArray:
    """Class probabilities to resume from: those of the earlier fit, and vote shares for items it did not know."""
    known_item = positions(annotations.items, previous.items.tolist())
    known_class = positions(annotations.classes, previous.classes.tolist())
    probabilities = normalize_rows(vote_totals(annotations))
    probabilities[known_item] = 0.0
    probabilities[known_item[:, None], known_class] = previous.class_probabilities
    return with_gold_classes(probabilities, annotations)

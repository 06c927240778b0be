"""Pseudo-counts that hold sparse annotators near the crowd's common confusion matrix, or near their own past."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from crowdprism.aggregators.cells import Cells
from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.expectation import FLOOR


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

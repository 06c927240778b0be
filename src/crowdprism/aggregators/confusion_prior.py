"""Pseudo-counts that hold sparse annotators near the crowd's common confusion matrix, or near their own past.

With pseudo-counts b the maximum of the penalised likelihood for a row is (counts + b) / (sum of counts + sum of b),
and the penalty is the sum of b * log(confusion). Entries of labels an annotator never gave are not stored
(see `cells`); their part of the penalty has a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.cells import Cells, FloatArray
from crowdprism.aggregators.expectation_records import FLOOR


@dataclass(frozen=True, eq=False)
class ConfusionPrior:
    """Pseudo-counts by (annotator, true class, given label): a common matrix, and own ones for returning annotators.

    Attributes
    ----------
    common
        (true class, given label) pseudo-counts of every annotator without own ones.
    own
        Annotator code to (true class, given label) pseudo-counts.
    """

    common: FloatArray
    own: dict[int, FloatArray] = field(default_factory=dict)

    @property
    def absent(self) -> bool:
        """Whether there are no pseudo-counts at all."""
        return not self.own and not self.common.any()

    def dense(self, n_annotators: int) -> FloatArray:
        """(n_annotators, true class, given label)."""
        counts = np.repeat(self.common[None], n_annotators, axis=0)
        for annotator, own in self.own.items():
            counts[annotator] = own
        return counts


@dataclass(frozen=True, eq=False)
class CellPrior:
    """A `ConfusionPrior` in the form that cells need.

    Attributes
    ----------
    cell
        (n_cells, true class) pseudo-counts.
    row
        (n_annotators, true class) sums over all given labels.
    rest_mass, rest_xlogx
        (n_annotators, true class) sums of b and of b log b over given labels without a cell.
    """

    cell: FloatArray
    row: FloatArray
    rest_mass: FloatArray
    rest_xlogx: FloatArray

    def log_density(self, likelihood: FloatArray, row_totals: FloatArray) -> float:
        """Sum of b log(confusion) over all entries, those without a cell included.

        Parameters
        ----------
        likelihood
            (n_cells, true class) confusion entries of the cells.
        row_totals
            (n_annotators, true class) counts plus pseudo-counts that the rows were divided by.
        """
        rest = self.rest_xlogx - xlogy(self.rest_mass, row_totals)
        return float((self.cell * np.log(np.maximum(likelihood, FLOOR))).sum() + rest.sum())


def prior_of_cells(prior: ConfusionPrior, cells: Cells) -> CellPrior:
    """Bring pseudo-counts into the order of cells."""
    cell = np.ascontiguousarray(prior.common.T[cells.label_of])
    row = np.repeat(prior.common.sum(axis=1)[None], cells.n_annotators, axis=0)
    xlogx = np.repeat(xlogy(prior.common, prior.common).sum(axis=1)[None], cells.n_annotators, axis=0)
    for annotator, own in prior.own.items():
        first, last = np.searchsorted(cells.annotator_of, [annotator, annotator + 1])
        cell[first:last] = own.T[cells.label_of[first:last]]
        row[annotator] = own.sum(axis=1)
        xlogx[annotator] = xlogy(own, own).sum(axis=1)
    if cells.complete:
        return CellPrior(cell, row, np.zeros_like(row), np.zeros_like(row))
    rest_mass = np.maximum(row - cells.sum_by_annotator(cell), 0.0)
    return CellPrior(cell, row, rest_mass, xlogx - cells.sum_by_annotator(xlogy(cell, cell)))


def pooled_centre(cell_counts: NDArray[Any], cells: Cells) -> FloatArray:
    """The crowd's common confusion matrix (true class, given label) from counts; rows without counts are uniform."""
    pooled = np.zeros((cells.n_classes, cells.n_classes))
    np.add.at(pooled, cells.label_of, cell_counts)
    totals = pooled.sum(axis=0)
    return np.where(totals > 0, pooled / np.where(totals > 0, totals, 1.0), 1.0 / cells.n_classes).T.copy()


def xlogy(factor: FloatArray, values: FloatArray) -> FloatArray:
    """factor * log(values), 0 where the factor is 0; scipy's own would load scipy at start-up."""
    return np.asarray(factor * np.log(np.where(factor > 0, values, 1.0)))

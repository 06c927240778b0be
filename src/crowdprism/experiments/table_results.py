"""From rows to a table: selection on the grid, means and spreads over trials, paired differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crowdprism.experiments.fits import DONE, Fit, Plan, Row
from crowdprism.experiments.spec import Cell, Method, Published, Study

PUBLISHED_TRIALS = 5


@dataclass(frozen=True)
class Measured:
    """A cell of the table: one number per trial, of the grid point that validation chose."""

    by_seed: Mapping[int, float]  # trials whose grid is complete
    rows: tuple[Row, ...] = ()
    failed: tuple[str, ...] = ()  # reasons of failed fits

    @property
    def n_trials(self) -> int:
        return len(self.by_seed)

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.by_seed.values())))

    @property
    def spread(self) -> float:
        """Population standard deviation over trials, as in the published tables."""
        return float(np.std(list(self.by_seed.values())))

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean; None for a single trial."""
        if self.n_trials < 2:
            return None
        return float(np.std(list(self.by_seed.values()), ddof=1) / math.sqrt(self.n_trials))


@dataclass(frozen=True)
class TableResult:
    """A study with its measured numbers."""

    plan: Plan
    cells: Mapping[tuple[str, str], Measured]

    @property
    def study(self) -> Study:
        return self.plan.study

    def measured(self, cell: str, method: str) -> Measured | None:
        found = self.cells.get((cell, method))
        return found if found is not None and found.n_trials else None

    def both(self, cell: Cell, method: Method) -> tuple[Measured | None, Published | None]:
        return self.measured(cell.name, method.name), self.study.published_for(cell.name, method.name)

    def entries(self) -> Iterator[tuple[Cell, Method, Measured | None, Published | None]]:
        """Every column and method that the plan runs, with both numbers."""
        for cell in self.plan.cells:
            for method in self.plan.methods:
                yield cell, method, *self.both(cell, method)

    @property
    def measured_cells(self) -> list[Cell]:
        """The columns with at least one measured number."""
        return [cell for cell in self.plan.cells if any(self.measured(cell.name, m.name) for m in self.plan.methods)]


def summarize(plan: Plan, rows: Mapping[str, Row]) -> TableResult:
    """Collect the rows of a plan; trials whose grid is incomplete are left out."""
    grids: dict[tuple[str, str], dict[int, Sequence[Fit]]] = {}
    for (cell, method, seed), fits in plan.points.items():
        grids.setdefault((cell, method), {})[seed] = fits
    return TableResult(plan, {place: measured(own, rows, plan.study) for place, own in grids.items()})


def measured(grids: Mapping[int, Sequence[Fit]], rows: Mapping[str, Row], study: Study) -> Measured:
    by_seed: dict[int, float] = {}
    chosen_rows: list[Row] = []
    failed: list[str] = []
    for seed, fits in grids.items():
        found = [rows[fit.key] for fit in fits if fit.key in rows]
        failed += [row["reason"] for row in found if row["status"] != DONE]
        finished = [row for row in found if row["status"] == DONE]
        if len(found) == len(fits) and finished:  # a failed grid point is never chosen; the page lists it
            chosen = chosen_row(finished)
            by_seed[seed] = chosen["test"] if study.figure == "accuracy" else chosen["confusion_error"][study.figure]
            chosen_rows.append(chosen)
    return Measured(by_seed, tuple(chosen_rows), tuple(failed))


def chosen_row(rows: Sequence[Row]) -> Row:
    """The grid point with the best validation accuracy; the last one if several are equal, as published."""
    return max(reversed(rows), key=lambda row: -math.inf if row["valid"] is None else row["valid"])


def difference(one: Measured | None, other: Measured | None) -> Measured | None:
    if one is None or other is None:
        return None
    common = sorted(set(one.by_seed) & set(other.by_seed))
    return Measured({seed: one.by_seed[seed] - other.by_seed[seed] for seed in common}) if common else None


def distance_from_published(ours: Measured | None, published: Published | None) -> float | None:
    """Ours minus published, in standard errors of the difference of the two means; None if either is unknown.

    The published spread is a population standard deviation over five trials.
    """
    if ours is None or published is None or ours.standard_error is None or published.spread is None:
        return None
    both = math.hypot(ours.standard_error, published.spread / math.sqrt(PUBLISHED_TRIALS - 1))
    return (ours.mean - published.mean) / both if both else None


def rank_agreement(result: TableResult, cell: Cell) -> tuple[float, int] | None:
    """Spearman's correlation of published and measured means in a column, and the number of methods.

    Variants are left out; None for fewer than three methods.
    """
    from scipy.stats import spearmanr

    found = [result.both(cell, method) for method in result.plan.methods if not method.variant_of]
    pairs = [(published.mean, ours.mean) for ours, published in found if ours and published]
    if len(pairs) < 3:
        return None
    published_means, own_means = zip(*pairs, strict=True)
    return float(spearmanr(published_means, own_means).statistic), len(pairs)

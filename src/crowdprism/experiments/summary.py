"""From rows to a table: the grid point that validation chose, means and spreads over trials, paired differences.

Everything here is a pure function of a plan and rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crowdprism.experiments.fits import Fit, Plan
from crowdprism.experiments.rows import DONE, Row
from crowdprism.experiments.spec import Published, Study

PUBLISHED_TRIALS = 5


@dataclass(frozen=True)
class Measured:
    """A cell of the table: one number per trial, of the grid point that the validation items chose.

    Attributes
    ----------
    by_seed
        Trials whose grid is complete.
    n_wanted
        Trials that the budget asks for.
    failed
        Reasons of fits that failed.
    """

    by_seed: Mapping[int, float]
    n_wanted: int
    rows: tuple[Row, ...]
    failed: tuple[str, ...] = ()

    @property
    def n_trials(self) -> int:
        """How many trials there are."""
        return len(self.by_seed)

    @property
    def mean(self) -> float:
        """Over trials."""
        return float(np.mean(list(self.by_seed.values())))

    @property
    def spread(self) -> float:
        """Population standard deviation over trials, as the published tables have it."""
        return float(np.std(list(self.by_seed.values())))

    @property
    def standard_error(self) -> float | None:
        """Of the mean; None for a single trial."""
        if self.n_trials < 2:
            return None
        return float(np.std(list(self.by_seed.values()), ddof=1) / math.sqrt(self.n_trials))


@dataclass(frozen=True)
class Difference:
    """How much one method exceeds another, trial by trial on the same data and seeds."""

    mean: float
    standard_error: float | None
    n_trials: int

    @property
    def in_standard_errors(self) -> float | None:
        """The mean in units of its standard error."""
        if not self.standard_error:
            return None
        return self.mean / self.standard_error


@dataclass(frozen=True)
class TableResult:
    """A study with what was measured."""

    plan: Plan
    cells: Mapping[tuple[str, str], Measured]

    @property
    def study(self) -> Study:
        """The study."""
        return self.plan.study

    def measured(self, cell: str, method: str) -> Measured | None:
        """What was measured for a method in a column, if any trial is complete."""
        found = self.cells.get((cell, method))
        return found if found is not None and found.n_trials else None


def summarize(plan: Plan, rows: Mapping[str, Row]) -> TableResult:
    """Collect the rows of a plan; trials whose grid is incomplete are left out, and counted as wanted."""
    cells: dict[tuple[str, str], Measured] = {}
    for cell in plan.cells:
        for method in plan.methods:
            trials = {seed: plan.points.get((cell.name, method.name, seed)) for seed in plan.budget.seeds}
            grids = {seed: points for seed, points in trials.items() if points is not None}
            if grids:
                cells[cell.name, method.name] = measured(grids, rows, plan.study)
    return TableResult(plan, cells)


def measured(grids: Mapping[int, Sequence[Fit]], rows: Mapping[str, Row], study: Study) -> Measured:
    """One cell: for each trial the chosen grid point's figure."""
    by_seed: dict[int, float] = {}
    chosen_rows: list[Row] = []
    failed: list[str] = []
    for seed, fits in grids.items():
        found = [rows[fit.key] for fit in fits if fit.key in rows]
        failed += [row["reason"] for row in found if row["status"] != DONE]
        finished = [row for row in found if row["status"] == DONE]
        if len(found) == len(fits) and finished:  # a grid point that failed loses, and is told under the table
            chosen = chosen_row(finished)
            by_seed[seed] = figure_of(chosen, study)
            chosen_rows.append(chosen)
    return Measured(by_seed, len(grids), tuple(chosen_rows), tuple(failed))


def chosen_row(rows: Sequence[Row]) -> Row:
    """The grid point with the best validation figure; the last of equally good ones, as published.

    Examples
    --------
    >>> chosen_row([{"valid": 80.0, "test": 1}, {"valid": 80.0, "test": 2}, {"valid": 70.0, "test": 3}])["test"]
    2
    """
    return max(reversed(rows), key=lambda row: -math.inf if row["valid"] is None else row["valid"])


def figure_of(row: Row, study: Study) -> float:
    """The number that the table shows."""
    if study.figure == "accuracy":
        return float(row["test"])
    return float(row["confusion_error"][study.figure])


def difference(one: Measured, other: Measured) -> Difference | None:
    """One minus the other over the trials that both have.

    Examples
    --------
    >>> a, b = Measured({1: 80.0, 2: 84.0}, 2, ()), Measured({1: 79.0, 2: 80.0}, 2, ())
    >>> found = difference(a, b)
    >>> found.mean, round(found.standard_error, 6), found.n_trials
    (2.5, 1.5, 2)
    """
    common = sorted(set(one.by_seed) & set(other.by_seed))
    if not common:
        return None
    gaps = np.array([one.by_seed[seed] - other.by_seed[seed] for seed in common])
    error = float(gaps.std(ddof=1) / math.sqrt(len(gaps))) if len(gaps) > 1 else None
    return Difference(float(gaps.mean()), error, len(gaps))


def distance_from_published(ours: Measured, published: Published) -> float | None:
    """Ours minus published, in standard errors of the difference of the two means.

    The published spread is a population standard deviation over five trials; with fewer than two trials of ours
    there is no standard error, and None is returned.
    """
    own = ours.standard_error
    if own is None or published.spread is None:
        return None
    theirs = published.spread / math.sqrt(PUBLISHED_TRIALS - 1)
    both = math.hypot(own, theirs)
    return (ours.mean - published.mean) / both if both else None


def rank_agreement(result: TableResult, cell: str) -> tuple[float, int] | None:
    """Spearman's correlation between published and measured means of a column, and over how many methods.

    Variants of a method are left out; at least three methods are needed.
    """
    from scipy.stats import spearmanr

    pairs = []
    for method in result.plan.methods:
        ours = result.measured(cell, method.name)
        published = result.study.published_for(cell, method.name)
        if ours is not None and published is not None and not method.variant_of:
            pairs.append((published.mean, ours.mean))
    if len(pairs) < 3:
        return None
    published_means, own_means = zip(*pairs, strict=True)
    return float(spearmanr(published_means, own_means).statistic), len(pairs)

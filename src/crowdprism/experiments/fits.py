"""From a study and a budget to single fits, and the store of one row per fit.

A fit is identified by its content, not by its table, so that studies share rows.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from crowdprism.errors import UnreadableFileError
from crowdprism.experiments import spec
from crowdprism.experiments.spec import Budget, Cell, Data, Method, Published, Study, require_known, without_none

Row = dict[str, Any]
ROW_START = b'{"fit": {'
DONE, FAILED = "done", "failed"


@dataclass(frozen=True)
class Fit:
    """One training run; fits with the same key are the same run, whatever table they belong to."""

    data: Data
    classifier: str
    parameters: Mapping[str, Any]
    seed: int

    @property
    def content(self) -> dict[str, Any]:
        return {**vars(self), "data": without_none(asdict(self.data)), "parameters": dict(self.parameters)}

    @property
    def key(self) -> str:
        return key_of(self.content)


def key_of(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Plan:
    """The fits of a study under a budget; validation chooses one of the `points` of each (cell, method, seed)."""

    study: Study
    budget: Budget
    cells: tuple[Cell, ...]
    methods: tuple[Method, ...]
    points: Mapping[tuple[str, str, int], tuple[Fit, ...]]  # trial by trial

    @property
    def fits(self) -> list[Fit]:
        """Every fit once, trial by trial, so that an unfinished study already covers all methods."""
        return list({fit.key: fit for fits in self.points.values() for fit in fits}.values())


def make_plan(
    study: Study,
    budget: str | Budget,
    *,
    cells: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    variants: bool = False,
) -> Plan:
    """Expand a study into fits; `cells`, `methods` and `seeds` replace the budget's, `variants` adds all variants.

    Examples
    --------
    >>> from crowdprism.experiments import load_study
    >>> plan = make_plan(load_study("T2"), "cpu", cells=["music"], methods=["nn-mv"], seeds=[1])
    >>> [fit.parameters["learning_rate"] for fit in plan.fits]
    [0.01, 0.001]
    """
    if isinstance(budget, str):
        budget = study.budgets[require_names([budget], study.budgets, study, "budget")[0]]
    if seeds:
        budget = replace(budget, seeds=tuple(seeds))
    known_cells = {cell.name: cell for cell in study.cells}
    known_methods = {method.name: method for method in study.methods}
    usual = [name for name, method in known_methods.items() if not method.variant_of]
    wanted_cells = require_names(cells or budget.cells or list(known_cells), known_cells, study, "cell")
    wanted_methods = require_names(methods or budget.methods or usual, known_methods, study, "method")
    if variants:
        wanted_methods += [name for name, method in known_methods.items() if method.variant_of]
    run_cells = tuple(change_cell(cell, budget) for name, cell in known_cells.items() if name in wanted_cells)
    run_methods = tuple(method for name, method in known_methods.items() if name in wanted_methods)
    points = {
        (cell.name, method.name, seed): tuple(grid_fits(study, budget, cell, method, seed))
        for seed, cell, method in product(budget.seeds, run_cells, run_methods)
        if not method.cells or cell.name in method.cells
    }
    return Plan(study, budget, run_cells, run_methods, points)


def require_names(wanted: Sequence[str], known: Mapping[str, Any], study: Study, role: str) -> list[str]:
    require_known(wanted, known, f"Study {study.name} has no {role}", "; it has")
    return list(wanted)


def change_cell(cell: Cell, budget: Budget) -> Cell:
    changes = budget.changes.get(cell.name, {})
    require_known(changes, ("data", "parameters"), f"Budget {budget.name} changes", f" of {cell.name}; it can change")
    data = spec.change_data(cell.data, changes.get("data", {}), f"budget {budget.name}, cell {cell.name}")
    return replace(cell, data=data, parameters={**cell.parameters, **changes.get("parameters", {})})


def grid_fits(study: Study, budget: Budget, cell: Cell, method: Method, seed: int) -> Iterator[Fit]:
    """One fit for each point of the grid; the study's parameters vary slowest."""
    data = cell.data if method.crowd is None else replace(cell.data, crowd=method.crowd)
    if method.defaults_only:
        yield Fit(data, method.classifier, {**cell.parameters, **method.parameters}, seed)
        return
    grid = {**study.grid, **method.grid}
    grid |= {name: values for name, values in budget.grid.items() if name in grid}
    common = {**study.parameters, **cell.parameters, **method.parameters, **budget.parameters}
    for values in product(*grid.values()):
        parameters = {**common, **dict(zip(grid, values, strict=True))}
        for name, source in study.tied.items():
            if source in parameters:
                parameters[name] = parameters[source]
        yield Fit(data, method.classifier, parameters, seed)


def check_parameters(fits: Sequence[Fit]) -> None:
    """Raise for an unknown classifier or parameter before anything is run."""
    from crowdprism.classifiers import CLASSIFIERS, make_classifier

    for classifier, names in dict.fromkeys((fit.classifier, frozenset(fit.parameters)) for fit in fits):
        require_known([classifier], CLASSIFIERS, "There is no classifier", "; there are")
        known = make_classifier(classifier).get_params()
        require_known(sorted(names), known, f"Classifier {classifier} has no parameter", "; it has")


class RowStore:
    """Rows by the key of their fit, in a file of JSON lines that only grows.

    The last of several rows of one fit counts. A last line that was cut short is ignored, and its fit is run again.

    Examples
    --------
    >>> import tempfile
    >>> fit = Fit(Data("digits"), "nn-mv", {"epochs": 2}, seed=1)
    >>> store = RowStore(Path(tempfile.mkdtemp()) / "rows.jsonl")
    >>> store.append([{"fit": fit.content, "status": "done", "test": 90.0}])
    >>> store.read()[fit.key]["test"]
    90.0
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> dict[str, Row]:
        rows: dict[str, Row] = {}
        for line in self.path.read_bytes().splitlines() if self.path.exists() else []:
            try:
                row = json.loads(line)
                rows[key_of(row["fit"])] = row
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                if not ROW_START.startswith(line[: len(ROW_START)]):
                    raise UnreadableFileError(f"{self.path} holds something else than rows of experiments.") from error
        return rows

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows, each as a complete line, and flush them to disk."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # the last line was cut short: do not join it
                    text = "\n" + text
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def missing_fits(fits: Iterable[Fit], rows: Mapping[str, Row], *, retry: bool, with_confusions: bool) -> list[Fit]:
    """Fits to run: those without a row, failed ones with `retry`, and those that lack wanted confusions."""

    def is_missing(row: Row | None) -> bool:
        if row is None or row["status"] == FAILED:
            return row is None or retry
        return with_confusions and "confusions" not in row

    return [fit for fit in fits if is_missing(rows.get(fit.key))]


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
        each = list(self.by_seed.values())
        return float(np.std(each, ddof=1) / math.sqrt(len(each))) if len(each) > 1 else None


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
    chosen_rows, failed = [], []
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
    """Ours minus published, in standard errors of the difference of the means; None if either is unknown."""
    if ours is None or published is None or ours.standard_error is None or published.spread is None:
        return None
    both = math.hypot(ours.standard_error, published.spread / math.sqrt(PUBLISHED_TRIALS - 1))
    return (ours.mean - published.mean) / both if both else None


def rank_agreement(result: TableResult, cell: Cell) -> tuple[float, int] | None:
    """Spearman's correlation of published and measured means, and the number of methods (None below three)."""
    from scipy.stats import spearmanr

    found = [result.both(cell, method) for method in result.plan.methods if not method.variant_of]
    pairs = [(published.mean, ours.mean) for ours, published in found if ours and published]
    if len(pairs) < 3:
        return None
    published_means, own_means = zip(*pairs, strict=True)
    return float(spearmanr(published_means, own_means).statistic), len(pairs)

"""From study and budget to single fits; a fit is known by its content, so that studies share what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from crowdprism.errors import InvalidParameterError
from crowdprism.experiments.spec import Budget, Cell, Data, Method, Study
from crowdprism.experiments.spec_reading import changed_data, listed, read_record

CELL_CHANGES = ("data", "parameters")


@dataclass(frozen=True)
class Fit:
    """One training run; two fits with the same key are the same run, whatever table they belong to."""

    data: Data
    classifier: str
    parameters: Mapping[str, Any]
    seed: int

    @property
    def content(self) -> dict[str, Any]:
        """The fit as plain data, without what was left at None."""
        return {
            "data": without_none(asdict(self.data)),
            "classifier": self.classifier,
            "parameters": dict(self.parameters),
            "seed": self.seed,
        }

    @property
    def key(self) -> str:
        """What identifies the fit among rows."""
        return key_of(self.content)


def key_of(content: Mapping[str, Any]) -> str:
    """Canonical text of a fit's content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def without_none(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without its absent values, inner records too."""
    return {
        key: without_none(value) if isinstance(value, Mapping) else value
        for key, value in record.items()
        if value is not None
    }


def fit_of(content: Mapping[str, Any]) -> Fit:
    """The fit that a row was measured for."""
    data = read_record(Data, content["data"], "a row")
    return Fit(data, content["classifier"], content["parameters"], content["seed"])


@dataclass(frozen=True)
class Plan:
    """The fits of a study under a budget.

    Attributes
    ----------
    points
        By (cell, method, seed) the fits of the grid, from which the validation items choose one.
    """

    study: Study
    budget: Budget
    cells: tuple[Cell, ...]
    methods: tuple[Method, ...]
    points: Mapping[tuple[str, str, int], tuple[Fit, ...]]

    @property
    def fits(self) -> list[Fit]:
        """Every fit once, trial by trial, so that an unfinished study already covers all methods."""
        seen: dict[str, Fit] = {}
        for (_, _, _), fits in sorted(self.points.items(), key=lambda entry: self.budget.seeds.index(entry[0][2])):
            for fit in fits:
                seen.setdefault(fit.key, fit)
        return list(seen.values())


def make_plan(
    study: Study,
    budget: str | Budget,
    *,
    cells: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    variants: bool = False,
) -> Plan:
    """Expand a study; cells, methods and seeds narrow or widen what the budget runs, `variants` adds all variants.

    Examples
    --------
    >>> from crowdprism.experiments import load_study
    >>> plan = make_plan(load_study("T2"), "cpu", cells=["music"], methods=["nn-mv"], seeds=[1])
    >>> [fit.parameters["learning_rate"] for fit in plan.fits]
    [0.01, 0.001]
    """
    chosen = find_budget(study, budget) if isinstance(budget, str) else budget
    if seeds:
        chosen = replace(chosen, seeds=tuple(seeds))
    known_cells = {cell.name: cell for cell in study.cells}
    known_methods = {method.name: method for method in study.methods}
    usual = [method.name for method in study.methods if not method.variant_of]
    wanted_cells = check_wanted(cells or chosen.cells or list(known_cells), known_cells, study, "cell")
    wanted_methods = check_wanted(methods or chosen.methods or usual, known_methods, study, "method")
    if variants:
        wanted_methods += [name for name, method in known_methods.items() if method.variant_of]
    run_cells = tuple(changed_cell(cell, chosen) for name, cell in known_cells.items() if name in wanted_cells)
    run_methods = tuple(method for name, method in known_methods.items() if name in wanted_methods)
    points = {
        (cell.name, method.name, seed): tuple(grid_fits(study, chosen, cell, method, seed))
        for seed, cell, method in product(chosen.seeds, run_cells, run_methods)
        if not method.cells or cell.name in method.cells
    }
    return Plan(study, chosen, run_cells, run_methods, points)


def find_budget(study: Study, name: str) -> Budget:
    """A budget by name."""
    if name not in study.budgets:
        raise InvalidParameterError(f"Study {study.name} has no budget {name!r}; it has {listed(name, study.budgets)}.")
    return study.budgets[name]


def check_wanted(wanted: Sequence[str], known: Mapping[str, Any], study: Study, role: str) -> list[str]:
    """Raise for names that the study does not have."""
    for name in wanted:
        if name not in known:
            raise InvalidParameterError(f"Study {study.name} has no {role} {name!r}; it has {listed(name, known)}.")
    return list(wanted)


def changed_cell(cell: Cell, budget: Budget) -> Cell:
    """The cell as the budget runs it."""
    changes = budget.changes.get(cell.name, {})
    for key in changes:
        if key not in CELL_CHANGES:
            raise InvalidParameterError(
                f"Budget {budget.name} changes {key!r} of cell {cell.name}; it may change {listed(key, CELL_CHANGES)}."
            )
    return replace(
        cell,
        data=changed_data(cell.data, changes.get("data", {}), f"budget {budget.name}, cell {cell.name}"),
        parameters={**cell.parameters, **changes.get("parameters", {})},
    )


def grid_fits(study: Study, budget: Budget, cell: Cell, method: Method, seed: int) -> Iterator[Fit]:
    """One fit for each point of the grid, the study's parameters varying slowest."""
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
    """Raise for a classifier that does not exist or a parameter that it does not take, before anything is run."""
    from crowdprism.classifiers import CLASSIFIERS, make_classifier

    checked: dict[tuple[str, frozenset[str]], None] = {}
    for fit in fits:
        seen = (fit.classifier, frozenset(fit.parameters))
        if seen in checked:
            continue
        if fit.classifier not in CLASSIFIERS:
            raise InvalidParameterError(
                f"There is no classifier {fit.classifier!r}; there are {listed(fit.classifier, CLASSIFIERS)}."
            )
        known = make_classifier(fit.classifier).get_params()
        for name in fit.parameters:
            if name not in known:
                raise InvalidParameterError(
                    f"Classifier {fit.classifier} has no parameter {name!r}; it has {listed(name, known)}."
                )
        checked[seen] = None

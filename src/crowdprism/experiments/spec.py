"""What an experiment is, as data: the frozen records that a specification in TOML is read into.

A `Study` is one table: columns (`Cell`: a data set and its crowd), rows (`Method`), what was published, and `Budget`s
that say how much of it is run. `crowdprism.experiments.fits` turns study and budget into single fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

CrowdKind = Literal["human", "gold", "machine", "family"]
ValidKind = Literal["none", "split", "drawn"]
Parameters = Mapping[str, Any]
Grid = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Crowd:
    """Who labels the items.

    Attributes
    ----------
    kind
        `"human"`: the data set's own annotations. `"gold"`: one annotator who is always right. `"machine"`: classifiers
        trained on a few items each (`crowdprism.simulate.machine_annotations`). `"family"`: labels drawn from
        confusion matrices (`crowdprism.simulate.build_family`, observed by `build_pattern`).
    case, probability, pool_size, lr_label_bug
        Of machine annotators.
    family, level, pattern, amount
        Of a family, by the names of `crowdprism.simulate.FAMILIES` and `PATTERNS`.
    """

    kind: CrowdKind = "human"
    n_annotators: int | None = None
    case: int | None = None
    probability: float | None = None
    pool_size: int | None = None
    lr_label_bug: bool | None = None
    family: str | None = None
    level: float | None = None
    pattern: str | None = None
    amount: float | None = None


@dataclass(frozen=True)
class Data:
    """Items, who labels them, and which true classes may be looked at.

    Attributes
    ----------
    features
        Name of a feature set, or `"images"`; None is the data set's first.
    n_items
        How many items of the train split are drawn and labelled, anew in each trial; None takes all.
    valid
        `"none"`; `"split"`: the data set's validation items; `"drawn"`: `n_valid` of the labelled items, anew in each
        trial, whose annotations then go unused.
    """

    dataset: str
    features: str | None = None
    n_items: int | None = None
    valid: ValidKind = "none"
    n_valid: int | None = None
    crowd: Crowd = field(default_factory=Crowd)


@dataclass(frozen=True)
class Cell:
    """A column of the table; `parameters` are the classifiers' in this column, such as the network."""

    name: str
    title: str
    data: Data
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes
    ----------
    classifier, parameters
        Name in `crowdprism.classifiers.CLASSIFIERS` and what is passed to it.
    grid
        Values of each parameter that the validation items choose from, beside the study's own grid.
    variant_of
        Name of the method whose published number this row stands beside; variants are run only when a budget or a
        person names them.
    cells
        Names of the columns in which the method takes part; empty is all.
    crowd
        Who labels for this row, where it is not the column's crowd: `"gold"` shows what true classes would give.
    defaults_only
        Leave the study's and the budget's parameters and grids out: the classifier's defaults, but for what cell and
        method say.
    """

    name: str
    title: str
    classifier: str
    parameters: Parameters = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
    variant_of: str = ""
    remark: str = ""
    cells: tuple[str, ...] = ()
    crowd: Crowd | None = None
    defaults_only: bool = False


@dataclass(frozen=True)
class Budget:
    """How much of a study is run.

    Attributes
    ----------
    reduces
        In words, what is less than published.
    seeds
        Seed of each trial.
    cells, methods
        Names of those that are run; empty is all cells, and all methods but variants.
    parameters, grid
        Replace the methods' own; a grid's values replace those of parameters that a method searches at all.
    changes
        By the name of a cell, what replaces parts of it: `data`, `parameters`.
    comparable
        Whether single numbers may be held against the published ones; if not, only their order is.
    """

    name: str
    reduces: str
    seeds: tuple[int, ...]
    cells: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    parameters: Parameters = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    comparable: bool = True


@dataclass(frozen=True)
class Deviation:
    """Something known to differ from the published experiment, or to explain a difference."""

    text: str
    methods: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()


@dataclass(frozen=True)
class Published:
    """A published number: mean and spread over trials, in the unit of the table."""

    mean: float
    spread: float | None = None


@dataclass(frozen=True)
class Study:
    """A whole table.

    Attributes
    ----------
    grid, tied
        Parameters that every method searches, and parameters that always equal another one.
    published
        By cell and method.
    figure
        The measure that the table shows: test accuracy in per cent, or the error of the confusion matrices.
    pairs
        Pairs of methods whose difference is of interest, seed by seed.
    keep_confusions
        Store the estimated confusion matrices in the rows.
    """

    name: str
    title: str
    source: str
    cells: tuple[Cell, ...]
    methods: tuple[Method, ...]
    budgets: Mapping[str, Budget]
    text: str = ""
    parameters: Parameters = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)
    deviations: tuple[Deviation, ...] = ()
    figure: Literal["accuracy", "relative_l1"] = "accuracy"
    pairs: tuple[tuple[str, str], ...] = ()
    keep_confusions: bool = False

    def cell(self, name: str) -> Cell:
        """The column of this name."""
        return next(cell for cell in self.cells if cell.name == name)

    def method(self, name: str) -> Method:
        """The row of this name."""
        return next(method for method in self.methods if method.name == name)

    def published_for(self, cell: str, method: str) -> Published | None:
        """The number that was published for a method, or for the method that it is a variant of."""
        numbers = self.published.get(cell, {})
        return numbers.get(method) or numbers.get(self.method(method).variant_of)

"""What an experiment is, as frozen records, and how they are read from TOML.

A `Study` is one table: columns (`Cell`: a data set and its crowd), rows (`Method`), published numbers, and `Budget`s
that say how much of it is run. A study with `base = "T1"` holds only what differs from that study. Every key of a
specification is checked; an unknown key is an error that lists the known ones. `crowdprism.experiments.fits` turns a
study and a budget into single fits.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from crowdprism.errors import InvalidParameterError

Parameters = Mapping[str, Any]
Grid = Mapping[str, Annotated[tuple[Any, ...], Meta(min_length=1)]]
Record = TypeVar("Record")
INHERITED = ("source", "text", "pairs", "parameters", "grid", "tied")  # keys that a study takes from its base
FileName = Annotated[str, Meta(pattern=r"\A\w[\w. -]*\Z")]  # without separators: pages and figures are named by it
Parts = list[dict[str, Any]]
Named = dict[str, dict[str, Any]]


# A specification as TOML, before its parts are read.
class Shape(TypedDict, total=False):
    cells: Parts
    deviations: Parts
    methods: Named
    budgets: Named
    published: Named


@dataclass(frozen=True)
class Crowd:
    """Who labels the items, by `kind`.

    `"human"`: the data set's own annotations. `"gold"`: one annotator who is always correct. `"machine"`: classifiers
    trained on a few items each (`crowdprism.simulate.machine_annotations`). `"family"`: labels drawn from confusion
    matrices (`crowdprism.simulate.build_family`, observed by `build_pattern`).
    """

    kind: Literal["human", "gold", "machine", "family"] = "human"
    n_annotators: int | None = None
    case: int | None = None  # of machine annotators, as the next three
    probability: int | float | None = None
    pool_size: int | None = None
    lr_label_bug: bool | None = None
    family: str | None = None  # a name in crowdprism.simulate.FAMILIES
    level: int | float | None = None
    pattern: str | None = None  # a name in crowdprism.simulate.PATTERNS
    amount: int | float | None = None


@dataclass(frozen=True)
class Data:
    """Items, who labels them, and which true classes may be used for validation.

    `valid` is `"none"`; `"split"`, the data set's validation items; or `"drawn"`, `n_valid` of the labelled items,
    drawn in each trial, whose annotations are not used.
    """

    dataset: str
    features: str | None = None  # name of a feature set, or "images"; None is the data set's first
    n_items: int | None = None  # training items that each trial draws and labels; None takes all
    valid: Literal["none", "split", "drawn"] = "none"
    n_valid: int | None = None
    crowd: Crowd = field(default_factory=Crowd)


@dataclass(frozen=True)
class Cell:
    """A column of the table; `parameters` apply to every classifier in it, such as the network."""

    name: FileName
    title: str
    data: Data
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A row of the table: a classifier, its parameters, and the grid that validation chooses from.

    A variant is compared with the published number of another method, and is run only if a budget or the caller names
    it. With `defaults_only`, the parameters and grids of study and budget are ignored.
    """

    name: str
    title: str
    classifier: str
    parameters: Parameters = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)  # in addition to the study's
    variant_of: str = ""  # name of another method
    remark: str = ""
    cells: tuple[str, ...] = ()  # names of the columns in which the method takes part; empty is all
    crowd: Crowd | None = None  # instead of the column's; "gold" shows what training on true classes gives
    defaults_only: bool = False


@dataclass(frozen=True)
class Budget:
    """How much of a study is run; if not `comparable`, only the order of methods is compared with the published one."""

    name: str
    reduces: str  # what is smaller than in the published experiment, in words
    seeds: tuple[int, ...]  # one per trial
    cells: tuple[str, ...] = ()  # names of those to run; empty is all
    methods: tuple[str, ...] = ()  # names of those to run; empty is all except variants
    parameters: Parameters = field(default_factory=dict)  # replace those of the methods
    grid: Grid = field(default_factory=dict)  # replaces the values of parameters that a method searches
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of data and parameters, by cell name
    comparable: bool = True


@dataclass(frozen=True)
class Deviation:
    """A known difference from the published experiment, or an explanation of a difference."""

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
    """A whole table; its `figure` is test accuracy in per cent, or the error of the confusion matrices."""

    name: FileName
    title: str
    source: str
    cells: tuple[Cell, ...]
    methods: tuple[Method, ...]
    budgets: Mapping[str, Budget]
    text: str = ""
    parameters: Parameters = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)  # parameters that every method searches
    tied: Mapping[str, str] = field(default_factory=dict)  # parameters that always equal another one
    published: Mapping[str, Mapping[str, Published]] = field(default_factory=dict)  # by cell and method
    deviations: tuple[Deviation, ...] = ()
    figure: Literal["accuracy", "relative_l1"] = "accuracy"
    pairs: tuple[tuple[str, str], ...] = ()  # methods whose difference is shown, seed by seed
    keep_confusions: bool = False  # whether rows hold the estimated confusion matrices

    def cell(self, name: str) -> Cell:
        return next(cell for cell in self.cells if cell.name == name)

    def method(self, name: str) -> Method:
        return next(method for method in self.methods if method.name == name)

    def published_for(self, cell: str, method: str) -> Published | None:
        """The number published for a method, or for the method it is a variant of."""
        numbers = self.published.get(cell, {})
        return numbers.get(method) or numbers.get(self.method(method).variant_of)


def study_names() -> list[str]:
    """Names of the studies that come with crowdprism.

    Examples
    --------
    >>> "T2" in study_names()
    True
    """
    folder = resources.files("crowdprism.experiments").joinpath("paper")
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def load_study(name: str) -> Study:
    """A study by its name, or by the path of a TOML file of your own.

    Examples
    --------
    >>> load_study("T2").published["music"]["mbem"].mean
    69.0
    """
    if name.endswith(".toml"):
        try:
            return read_study(Path(name).read_text(encoding="utf-8"), where=name)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidParameterError(f"The specification {name} cannot be read: {error}.") from error
    return read_study(shipped_text(name), where=f"{name}.toml")


def shipped_text(name: str) -> str:
    """The specification of a study that comes with crowdprism."""
    chosen = next((one for one in study_names() if one.lower() == name.lower()), None)
    if chosen is None:
        raise InvalidParameterError(
            f"There is no study {name!r}; there are {nearest_first(name, study_names())}. "
            "A path that ends in .toml reads a specification of your own."
        )
    return resources.files("crowdprism.experiments").joinpath("paper", f"{chosen}.toml").read_text(encoding="utf-8")


def with_base(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """A specification with what it leaves to the study named as its `base`: `INHERITED` keys and further methods.

    Methods of single columns stay behind.
    """
    if "base" not in raw:
        return raw
    base = tomllib.loads(shipped_text(str(raw["base"])))
    methods = {name: one for name, one in base["methods"].items() if "cells" not in one} | raw.get("methods", {})
    own = {key: value for key, value in raw.items() if key != "base"}
    return {key: base[key] for key in INHERITED if key in base} | own | {"methods": methods}


def nearest_first(word: str, known: Collection[str]) -> str:
    return ", ".join(sorted(known, key=lambda one: -difflib.SequenceMatcher(None, word, one).ratio()))


def require_known(words: Iterable[str], known: Collection[str], problem: str, remedy: str) -> None:
    """Raise for the first unknown word: the problem, the word, the remedy, and the known words."""
    for word in words:
        if word not in known:
            raise InvalidParameterError(f"{problem} {word!r}{remedy} {nearest_first(word, known)}.")


def read_study(text: str, *, where: str = "the specification") -> Study:
    """Read a specification; an unknown key, cell or method is an error that lists the known ones."""
    try:
        raw = tomllib.loads(text)
        msgspec.convert(raw, Shape)
        raw = dict(with_base(raw))
    except (tomllib.TOMLDecodeError, RecursionError, msgspec.ValidationError) as error:
        raise InvalidParameterError(f"{where} is not valid TOML, or not that of a study: {error}.") from error
    for part in ("cells", "methods", "budgets"):
        if not raw.get(part):
            raise InvalidParameterError(f"{where} has no {part}; a study needs cells, methods and budgets.")

    def by_name(kind: type[Record], part: str) -> dict[str, Record]:
        own = raw[part].items()
        return {name: read_record(kind, {"name": name, **one}, f"{where}: [{part}.{name}]") for name, one in own}

    def as_list(kind: type[Record], part: str) -> list[Record]:
        return [read_record(kind, one, f"{where}: [[{part}]]") for one in raw.get(part, ())]

    published = {
        cell: {name: published_number(value, f"{where}: [published.{cell}] {name}") for name, value in own.items()}
        for cell, own in raw.get("published", {}).items()
    }
    built = {
        **raw,
        "cells": as_list(Cell, "cells"),
        "methods": list(by_name(Method, "methods").values()),
        "budgets": by_name(Budget, "budgets"),
        "published": published,
        "deviations": as_list(Deviation, "deviations"),
    }
    study = read_record(Study, built, where)
    for role, names in names_used(study).items():
        require_known(names, [one.name for one in getattr(study, f"{role}s")], f"{where} names the {role}", "; it has")
    return study


def read_record(kind: type[Record], values: Mapping[str, Any], where: str) -> Record:
    """Build a record from a TOML table."""
    require_known(values, [one.name for one in fields(kind)], f"{where} has the unknown key", "; known are")  # type: ignore[arg-type]
    for name, inner in {"data": Data, "crowd": Crowd}.items():
        if isinstance(values.get(name), dict):
            values = {**values, name: read_record(inner, values[name], f"{where}, {name}")}
    for name, hint in get_type_hints(kind).items():
        if get_origin(hint) is Literal and values.get(name, hint.__args__[0]) not in hint.__args__:
            known = ", ".join(hint.__args__)
            raise InvalidParameterError(f"{where}: {name} must be one of {known}, not {values[name]!r}.")
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidParameterError(f"{where}: {error}.") from error


def published_number(value: Any, where: str) -> Published:
    numbers = value if isinstance(value, list) else [value]
    if not 1 <= len(numbers) <= 2 or not all(isinstance(one, (int, float)) for one in numbers):
        raise InvalidParameterError(f"{where} must be a mean or [mean, spread], not {value!r}.")
    return Published(*map(float, numbers))


def names_used(study: Study) -> dict[str, list[str]]:
    """The names by which a study refers to its own columns ("cell") and rows ("method")."""
    holders: list[Any] = [*study.budgets.values(), *study.deviations]
    cells = [*study.published, *(name for one in (*holders, *study.methods) for name in one.cells)]
    cells += [name for budget in study.budgets.values() for name in budget.changes]
    methods = [name for own in (*study.published.values(), *study.pairs) for name in own]
    methods += [name for one in holders for name in one.methods]
    methods += [method.variant_of for method in study.methods if method.variant_of]
    return {"cell": cells, "method": methods}


def change_data(data: Data, changes: Mapping[str, Any], where: str) -> Data:
    """Data with some keys replaced, those of the crowd one by one."""
    old = without_none(asdict(data))
    return read_record(Data, {**old, **changes, "crowd": {**old["crowd"], **changes.get("crowd", {})}}, where)


def without_none(record: Mapping[str, Any]) -> dict[str, Any]:
    there = {key: value for key, value in record.items() if value is not None}
    return {key: without_none(value) if isinstance(value, Mapping) else value for key, value in there.items()}

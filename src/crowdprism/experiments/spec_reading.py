"""From TOML to a `Study`: every key is checked, and an unknown one is an error that names the known ones."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from crowdprism.errors import InvalidParameterError
from crowdprism.experiments.spec import Budget, Cell, Crowd, Data, Deviation, Method, Published, Study

Record = TypeVar("Record")
NESTED = {"data": Data, "crowd": Crowd}
PLAIN = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


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
        except OSError as error:
            raise InvalidParameterError(f"The specification {name} cannot be read: {error.strerror}.") from error
    known = study_names()
    chosen = next((one for one in known if one.lower() == name.lower()), None)
    if chosen is None:
        raise InvalidParameterError(
            f"There is no study {name!r}; there are {', '.join(nearest_first(name, known))}. "
            "A path that ends in .toml reads a specification of your own."
        )
    text = resources.files("crowdprism.experiments").joinpath("paper", f"{chosen}.toml").read_text(encoding="utf-8")
    return read_study(text, where=f"{chosen}.toml")


def nearest_first(word: str, known: Collection[str]) -> list[str]:
    """Known words, the most similar first.

    Examples
    --------
    >>> nearest_first("epoch", ["seeds", "epochs"])
    ['epochs', 'seeds']
    """
    return sorted(known, key=lambda one: -difflib.SequenceMatcher(None, word, one).ratio())


def read_study(text: str, *, where: str = "the specification") -> Study:
    """Read a specification; unknown keys, and names that nothing bears, are errors that name the known ones."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameterError(f"{where} is no TOML: {error}.") from error
    raw = dict(raw)
    for part in ("cells", "methods", "budgets"):
        if not raw.get(part):
            raise InvalidParameterError(f"{where} has no {part}; a study needs cells, methods and budgets.")
    cells = tuple(read_record(Cell, one, f"{where}: [[cells]]") for one in raw["cells"])
    methods = tuple(
        read_record(Method, {"name": name, **one}, f"{where}: [methods.{name}]") for name, one in raw["methods"].items()
    )
    budgets = {
        name: read_record(Budget, {"name": name, **one}, f"{where}: [budgets.{name}]")
        for name, one in raw["budgets"].items()
    }
    published = {
        cell: {
            method: published_number(value, f"{where}: [published.{cell}] {method}") for method, value in own.items()
        }
        for cell, own in raw.get("published", {}).items()
    }
    built = {
        **raw,
        "cells": cells,
        "methods": methods,
        "budgets": budgets,
        "published": published,
        "deviations": tuple(
            read_record(Deviation, one, f"{where}: [[deviations]]") for one in raw.get("deviations", ())
        ),
        "pairs": tuple((str(one), str(other)) for one, other in raw.get("pairs", ())),
        "grid": tuples(raw.get("grid", {})),
    }
    study = read_record(Study, built, where)
    check_names(study, where)
    return study


def read_record(kind: type[Record], values: Mapping[str, Any], where: str) -> Record:
    """Build a record from a TOML table; lists become tuples, known sub-tables become records."""
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise InvalidParameterError(f"{where} has the unknown key {key!r}; known are {listed(key, known)}.")
    for name, one in known.items():
        if name not in values and one.default is MISSING and one.default_factory is MISSING:
            raise InvalidParameterError(f"{where} lacks the key {name!r}.")
    hints = get_type_hints(kind)
    converted: dict[str, Any] = {}
    for key, value in values.items():
        if key in NESTED and isinstance(value, Mapping):
            value = read_record(NESTED[key], value, f"{where}, {key}")
        elif key == "grid":
            value = tuples(value)
        elif isinstance(value, list):
            value = tuple(value)
        check_choice(value, hints[key], f"{where}: {key}")
        converted[key] = value
    return kind(**converted)


def check_choice(value: Any, hint: Any, where: str) -> None:
    """Raise where a value is none of a closed list of words, or of the wrong kind."""
    origin = get_origin(hint)
    if origin is Literal and value not in get_args(hint):
        raise InvalidParameterError(f"{where} must be one of {', '.join(get_args(hint))}, not {value!r}.")
    if origin in (tuple, Mapping):
        if not isinstance(value, origin):
            kind = "a list" if origin is tuple else "a table"
            raise InvalidParameterError(f"{where} must be {kind}, not {value!r}.")
    elif origin is not Literal:
        plain = [one for one in (hint, *get_args(hint)) if one in PLAIN]
        accepted = {type(None), *plain, *([int] if float in plain else [])}
        if plain and type(value) not in accepted:
            named = " or ".join(PLAIN[one] for one in plain)
            raise InvalidParameterError(f"{where} must be {named}, not {value!r}.")


def tuples(grid: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """A grid with tuples of values."""
    for name, values in grid.items():
        if not isinstance(values, (list, tuple)) or not values:
            raise InvalidParameterError(f"The grid of {name!r} must be a list of values, not {values!r}.")
    return {name: tuple(values) for name, values in grid.items()}


def published_number(value: Any, where: str) -> Published:
    """A mean, or [mean, spread]."""
    numbers = value if isinstance(value, list) else [value]
    if not 1 <= len(numbers) <= 2 or not all(isinstance(one, (int, float)) for one in numbers):
        raise InvalidParameterError(f"{where} must be a mean or [mean, spread], not {value!r}.")
    return Published(*map(float, numbers))


def check_names(study: Study, where: str) -> None:
    """Raise where a cell or method is named that the study does not have."""
    cells, methods = [cell.name for cell in study.cells], [method.name for method in study.methods]
    named: list[tuple[str, str, list[str]]] = [(cell, "cell", cells) for cell in study.published]
    named += [(method, "method", methods) for own in study.published.values() for method in own]
    named += [(method, "method", methods) for pair in study.pairs for method in pair]
    for method in study.methods:
        named += [(method.variant_of, "method", methods)] if method.variant_of else []
        named += [(cell, "cell", cells) for cell in method.cells]
    holders: list[Budget | Deviation] = [*study.budgets.values(), *study.deviations]
    for holder in holders:
        named += [(cell, "cell", cells) for cell in holder.cells]
        named += [(method, "method", methods) for method in holder.methods]
    for budget in study.budgets.values():
        named += [(cell, "cell", cells) for cell in budget.changes]
    for name, role, known in named:
        if name not in known:
            raise InvalidParameterError(f"{where} names the {role} {name!r}; it has {listed(name, known)}.")


def listed(word: str, known: Collection[str]) -> str:
    """Known words as text, the most similar first."""
    return ", ".join(nearest_first(word, known))


def changed_data(data: Data, changes: Mapping[str, Any], where: str) -> Data:
    """Data with some keys replaced, those of the crowd one by one."""
    from dataclasses import asdict

    old = {key: value for key, value in asdict(data).items() if value is not None}
    crowd = {key: value for key, value in old["crowd"].items() if value is not None}
    new = {**old, **changes, "crowd": {**crowd, **cast(dict[str, Any], changes.get("crowd", {}))}}
    return read_record(Data, new, where)

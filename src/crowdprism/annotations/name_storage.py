"""Names as JSON and back, each type kept: an id 7 stays an int, "7" stays text. No pickle."""

from __future__ import annotations

import base64
import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from crowdprism.annotations.names import NameArray, name_array
from crowdprism.errors import InvalidParameterError, ResultFormatError

_WRITERS: dict[type, tuple[str, Any]] = {
    int: ("int", lambda value: value),
    str: ("str", lambda value: value),
    bool: ("bool", lambda value: value),
    float: ("float", float.hex),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
    uuid.UUID: ("uuid", str),
    Decimal: ("decimal", str),
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    tuple: ("tuple", lambda value: [_tagged(part) for part in value]),
    frozenset: ("frozenset", lambda value: sorted((_tagged(part) for part in value), key=repr)),
    type(None): ("none", lambda value: None),
}
_READERS: dict[str, Any] = {
    "int": int,
    "str": str,
    "bool": bool,
    "float": float.fromhex,
    "bytes": base64.b64decode,
    "uuid": uuid.UUID,
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "tuple": lambda parts: tuple(_READERS[kind](stored) for kind, stored in parts),
    "frozenset": lambda parts: frozenset(_READERS[kind](stored) for kind, stored in parts),
    "none": lambda stored: None,
}


def _tagged(value: Any) -> list[Any]:
    if type(value) not in _WRITERS:
        raise InvalidParameterError(
            f"A name of type {type(value).__name__} cannot be saved: {value!r}. "
            f"Use {', '.join(sorted(kind for kind, _ in _WRITERS.values()))} as names."
        )
    kind, write = _WRITERS[type(value)]
    return [kind, write(value)]


def names_to_json(names: NameArray) -> dict[str, Any]:
    """Return `{"type": ..., "values": [...]}` for names of one type, with type "mixed" and tagged values otherwise."""
    listed = names.tolist()
    tagged = [_tagged(name) for name in listed]
    kinds = {kind for kind, _ in tagged}
    if len(kinds) == 1:
        return {"type": kinds.pop(), "values": [stored for _, stored in tagged]}
    return {"type": "mixed", "values": tagged}


def names_from_json(record: dict[str, Any]) -> NameArray:
    """Read what `names_to_json` wrote.

    Examples
    --------
    >>> names_from_json(names_to_json(name_array([("a", 1), ("b", 2)]))).tolist()
    [('a', 1), ('b', 2)]
    """
    kind = record["type"]
    if kind != "mixed" and kind not in _READERS:
        raise ResultFormatError(f"Names of unknown type {kind!r}. Upgrade crowdprism to read them.")
    if kind == "int":
        return name_array(np.array(record["values"])) if record["values"] else name_array([])
    if kind == "mixed":
        return name_array([_READERS[inner](stored) for inner, stored in record["values"]])
    return name_array([_READERS[kind](stored) for stored in record["values"]])

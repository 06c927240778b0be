"""Raw columns at the border: any sequence of names, and numbers that may be dates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations.names import is_missing, plain
from crowdprism.errors import InvalidAnnotationsError

MAX_WHOLE_FLOAT = 2.0**63


def as_column(values: Any) -> Any:
    """Return a column as a one-dimensional array, a list or a polars column of text; whole floats become ints.

    A column of ids with gaps is read as floats by many tools, so 7.0 means 7.
    """
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__"):
        values = list(values) if not isinstance(values, (str, bytes, Mapping)) else values
        if not isinstance(values, list):
            raise InvalidAnnotationsError(f"A column must be a sequence of names, not {type(values).__name__}.")
    if is_polars_text(values):
        return values
    if hasattr(values, "to_numpy") and not isinstance(values, np.ndarray):
        values = values.to_numpy()
    if isinstance(values, list) and set(map(type, values)) == {float}:
        values = np.array(values)
    if not isinstance(values, np.ndarray):
        return values
    if values.ndim != 1:
        raise InvalidAnnotationsError(
            f"A column must be one-dimensional, not of shape {values.shape}. "
            "For an items x annotators table use Annotations.from_dense."
        )
    if values.dtype.kind == "f" and len(values) and is_whole(values):
        return values.astype(np.int64)
    return values


def is_whole(values: NDArray[Any]) -> bool:
    """Tell whether every float stands for a whole number that int64 can hold."""
    return bool(np.all(values == np.floor(values)) and np.all(np.abs(values) < MAX_WHOLE_FLOAT))


def is_polars_text(values: Any) -> bool:
    """Tell whether this is a polars column of text, without importing polars."""
    return type(values).__module__.startswith("polars") and str(values.dtype) == "String"


def as_numbers(values: Any, role: str) -> NDArray[Any] | None:
    """Return an optional numeric column as floats; timestamps may be datetimes or ISO text."""
    if values is None:
        return None
    kind = np.float64 if role == "timestamp" else np.float32
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if role == "timestamp" and array.dtype.kind not in "iuf":
        return seconds_since_1970(array)
    try:
        return array.astype(kind)
    except (TypeError, ValueError) as error:
        raise InvalidAnnotationsError(f"The {role} column is not numeric: {error}.") from error


def seconds_since_1970(values: NDArray[Any]) -> NDArray[np.float64]:
    """Convert datetimes or ISO 8601 text (with or without zone) to seconds; missing becomes NaN."""
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)

    seconds = np.full(len(values), np.nan)
    broken: list[int] = []
    for row, value in enumerate(values.tolist()):
        try:
            seconds[row] = moment_in_seconds(value)
        except ValueError:
            broken.append(row)
    if broken:
        raise InvalidAnnotationsError(
            f"{len(broken)} of {len(values)} timestamps are neither numbers nor ISO 8601 dates; the first is "
            f"{plain(values[broken[0]])!r} in row {broken[0]}. Correct them or leave the column out."
        )
    return seconds


def moment_in_seconds(value: Any) -> float:
    """Seconds since 1970 of a number, a datetime or ISO 8601 text; without zone it is UTC. NaN where missing."""
    if is_missing(value) or value == "":
        return float("nan")
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, datetime):
        moment = value
    else:
        text = str(value).strip().replace(" UTC", "+00:00")
        try:
            return float(text)
        except ValueError:
            moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

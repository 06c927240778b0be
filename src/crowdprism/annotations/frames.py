"""Data frames at the border: pandas, polars and pyarrow in and out, through narwhals."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np

from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, MissingDependencyError

FRAME_KINDS = ("polars", "pandas", "pyarrow")
# What every kind of frame has a column type for; other names (tuples, uuids, ...) are written as text.
PLAIN_NAMES = (str, int, float, bool, bytes, date, datetime, timedelta, Decimal)


def columns_of_frame(frame: Any, roles: Mapping[str, str | None]) -> tuple[dict[str, Any], str]:
    """Return the column of each role that is named, and the kind of the frame.

    Missing cells become None (never NaN floats standing for ints).
    """
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InvalidAnnotationsError(
            f"{type(frame).__name__} is not a data frame that crowdprism knows. Pass a pandas, polars or pyarrow "
            "table (collect lazy frames first), or use Annotations.from_triplets."
        ) from error
    wanted = {role: column for role, column in roles.items() if column is not None}
    absent = [f"{column!r} (for {role})" for role, column in wanted.items() if column not in table.columns]
    if absent:
        raise InvalidAnnotationsError(
            f"The frame has no column {', '.join(absent)}. Its columns are {table.columns}. "
            "Name the right ones, for example item='task', annotator='worker'."
        )
    return {role: column_values(table[column]) for role, column in wanted.items()}, table.implementation.value


def column_values(series: nw.Series[Any]) -> Any:
    """Return numbers as a NumPy array, text as a polars column, anything else as a list with None for missing."""
    if series.dtype in (nw.String, nw.Categorical, nw.Enum):
        return text_column(series)
    if (series.dtype.is_numeric() or series.dtype == nw.Datetime) and not series.null_count():
        values = series.to_numpy()
        if not (values.dtype.kind == "f" and np.isnan(values).any()):
            return values
    return [None if value is not None and value != value else value for value in series.to_list()]


def text_column(series: nw.Series[Any]) -> Any:
    """Return a column of text as a polars column: that is the form in which many ids are encoded fast."""
    import polars as pl

    native = series.to_native()
    if isinstance(native, pl.Series):
        return native.cast(pl.String)
    try:
        return pl.Series(series.to_list(), dtype=pl.String)
    except TypeError:  # a categorical of numbers
        return series.to_list()


def frame_of_columns(columns: Mapping[str, Any], kind: str) -> Any:
    """Build a frame of the asked kind from arrays; names that frames have no type for become text."""
    if kind not in FRAME_KINDS:
        raise InvalidParameterError(f"Unknown kind of data frame {kind!r}; known are {', '.join(FRAME_KINDS)}.")
    lists = {name: frame_values(np.asarray(values), kind) for name, values in columns.items()}
    try:
        return nw.from_dict(lists, backend=kind).to_native()  # type: ignore[arg-type]
    except ModuleNotFoundError as error:
        raise MissingDependencyError(f"{kind} is not installed; install it or pass another kind.") from error


def frame_values(values: np.ndarray, kind: str) -> Any:
    """A column as a frame takes it."""
    if values.dtype != object:
        return values
    listed = values.tolist()
    if kind == "pandas" or all(issubclass(found, PLAIN_NAMES) for found in set(map(type, listed))):
        return listed
    return [name if isinstance(name, str) else str(name) for name in listed]

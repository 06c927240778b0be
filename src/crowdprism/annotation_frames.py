"""Data frames at the border: pandas, polars and pyarrow in and out, through narwhals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, MissingDependencyError

FRAME_KINDS = ("polars", "pandas", "pyarrow")


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
    """Return a NumPy array where nothing is missing and the type is numeric, else a list with None for missing."""
    if series.dtype.is_numeric() or series.dtype == nw.Datetime:
        if not series.null_count():
            values = series.to_numpy()
            if not (values.dtype.kind == "f" and np.isnan(values).any()):
                return values
    return [None if value is not None and value != value else value for value in series.to_list()]


def frame_of_columns(columns: Mapping[str, Any], kind: str) -> Any:
    """Build a frame of the asked kind from arrays."""
    if kind not in FRAME_KINDS:
        raise InvalidParameterError(f"Unknown kind of data frame {kind!r}; known are {', '.join(FRAME_KINDS)}.")
    lists = {name: values.tolist() if values.dtype == object else values for name, values in columns.items()}
    try:
        return nw.from_dict(lists, backend=kind).to_native()
    except ModuleNotFoundError as error:
        raise MissingDependencyError(f"{kind} is not installed; install it or pass another kind.") from error

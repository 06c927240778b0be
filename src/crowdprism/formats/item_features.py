"""Features of items from a file: a NumPy array, or a table with one column of item ids."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.annotations.checks import check_distinct, check_hashable, check_present, require
from crowdprism.annotations.names import NameArray, name_array
from crowdprism.errors import InvalidParameterError, UnreadableFileError, some
from crowdprism.formats.binary_files import HEADER_ERRORS
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import ReadingOptions, whole_numbers_together
from crowdprism.formats.read import decoding
from crowdprism.formats.text_tables import text_numbers

ID_COLUMNS = ("item", "id", "item_id", "task", "example")
FEATURE_ARRAYS = ("features", "X", "x", "images", "data", "arr_0")
ID_ARRAYS = ("items", "ids", "item", "id")
ON_DISK_FROM = 2**28  # bytes of an .npy file; larger ones are not read into memory
CHECKED_VALUES = 2**24  # numbers looked at together


@dataclass(frozen=True)
class Features:
    """What a network sees of each item: ids and one row (or image) per id."""

    ids: NameArray  # (n_items,)
    values: NDArray[Any]  # (n_items, ...)


def read_features(
    path: str | os.PathLike[str],
    *,
    id_column: str | None = None,
    array: str | None = None,
    max_size: int | str | None = None,
    usual_id: str = "",
) -> Features:
    """Read features from .npy, .npz, .csv, .tsv or .parquet; the content says which it is.

    The column of item ids and the array of an .npz file are found by name (item, id, ...; features, X, ...) unless they
    are given; `usual_id` is a column of ids to try first. In .npy files, and in .npz files without an array of ids, row
    i is item i. `max_size` is as in `read_annotations`.
    """
    source = Path(path)
    if not source.exists():
        raise UnreadableFileError(f"There is no file {source}. Pass the features as .npy, .npz, .csv or .parquet.")
    document = Document(str(source), path=source, options=ReadingOptions.of(max_size=max_size))
    with decoding(document.name):
        if source.suffix == ".npy" and source.stat().st_size > ON_DISK_FROM:
            features = from_arrays(str(source), {"": on_disk(source)}, array)
        elif document.container in ("npy", "npz"):
            features = from_arrays(document.name, document.arrays, array)
        elif document.container in ("table", "parquet"):
            features = from_table(document, id_column, usual_id)
        else:
            raise UnreadableFileError(f"{source}: features are read from .npy, .npz, .csv, .tsv or .parquet files.")
    ids = features.ids.tolist()
    require([check_present(ids, "item"), check_hashable(ids, "item")], where=str(source))
    require([check_distinct(ids, "item")], where=str(source))
    require_finite(features, source)
    return features


def on_disk(source: Path) -> NDArray[Any]:
    """A large .npy file as an array whose rows are read when they are asked for; nothing is unpickled."""
    try:
        return np.asanyarray(np.load(source, mmap_mode="r", allow_pickle=False))
    except HEADER_ERRORS as error:
        raise UnreadableFileError(f"{source} is a damaged or truncated NumPy file ({error}).") from error


def from_arrays(source: str, arrays: Mapping[str, NDArray[Any]], array: str | None) -> Features:
    names = list(arrays)
    wanted = array or next((name for name in FEATURE_ARRAYS if name in names), names[0] if len(names) == 1 else None)
    if wanted is None or wanted not in names:
        listed = ", ".join(names) or "(none)"
        raise InvalidParameterError(f"{source} holds the arrays {listed}; say which holds the features.")
    values = arrays[wanted]
    if values.ndim < 2 or values.dtype.kind not in "fiub":
        raise UnreadableFileError(
            f"{source} holds {values.dtype} of shape {values.shape}; features are numbers, one row per item."
        )
    id_array = next((name for name in ID_ARRAYS if name in names and name != wanted), None)
    ids = range(len(values)) if id_array is None else arrays[id_array].tolist()
    if not isinstance(ids, (range, list)) or len(ids) != len(values):
        raise UnreadableFileError(f"{source} has {len(values)} rows of {wanted} but {np.size(ids)} ids.")
    return Features(name_array(ids), values)


def from_table(document: Document, id_column: str | None, usual_id: str = "") -> Features:
    table = document.frame
    chosen, ids = ids_of_table(document, id_column, usual_id)
    columns = {name: numbers(column) for name, column in zip(table.columns, table, strict=True) if name != chosen}
    text = [name for name, column in columns.items() if column is None]
    if text or not columns:
        raise UnreadableFileError(
            f"{document.name}: {len(text)} of {len(columns)} feature columns are not numeric: {some(text)}. "
            "Drop them or turn them into numbers first."
        )
    return Features(name_array(list(ids)), pl.DataFrame(columns).cast(pl.Float32).to_numpy())


def ids_of_table(document: Document, id_column: str | None, usual_id: str) -> tuple[str, Any]:
    """The column of item ids, and the ids; those of a table of text are whole numbers where all are written so."""
    table = document.frame
    chosen = id_column or next((name for name in (usual_id, *ID_COLUMNS) if name in table.columns), None)
    if chosen is None or chosen not in table.columns:
        raise InvalidParameterError(
            f"{document.name} has no column of item ids{'' if id_column is None else f' {id_column!r}'}; its columns "
            f"are {some(table.columns, 10)}. Name the one that holds the ids."
        )
    ids = table[chosen]
    return chosen, whole_numbers_together(ids)[0] if document.container == "table" else ids


def numbers(column: pl.Series) -> pl.Series | None:
    """A column as numbers, missing where a cell is empty; None where it is of another kind."""
    if column.dtype == pl.String:
        found = column.str.strip_chars().replace(["true", "false", ""], ["1", "0", None])
        cast = text_numbers(found)
        return cast if cast.null_count() == found.null_count() else None
    return column if column.dtype.is_numeric() or column.dtype == pl.Boolean else None


def require_finite(features: Features, source: Path) -> None:
    flat = features.values.reshape(len(features.values), -1)
    if flat.dtype.kind != "f":
        return
    step = max(1, CHECKED_VALUES // flat.shape[1])
    parts = (~np.isfinite(flat[first : first + step]).all(axis=1) for first in range(0, len(flat), step))
    rows = np.flatnonzero(np.concatenate(list(parts)))
    if len(rows):
        raise UnreadableFileError(
            f"{source}: {len(rows)} of {len(flat)} items have a feature that is missing or infinite; the first is item "
            f"{features.ids.tolist()[rows[0]]!r}. Fill or drop them first."
        )

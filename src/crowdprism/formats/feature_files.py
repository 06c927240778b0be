"""Features of items from .npy, .npz, .csv, .tsv and .parquet files; large .npy and Parquet files stay on disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.annotations.checks import check_distinct, check_hashable, check_present, require
from crowdprism.annotations.names import NameArray, name_array
from crowdprism.errors import InvalidParameterError, UnreadableFileError, some
from crowdprism.files import open_regular
from crowdprism.formats.binary_files import HEADER_ERRORS, MAGIC, damaged_parquet, sizes_of_parquet
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import ReadingOptions, whole_numbers_together
from crowdprism.formats.read import decoding
from crowdprism.formats.text_tables import text_numbers
from crowdprism.formats.unpacking import SMALL_ENOUGH, USUAL_RATIO, too_large

ID_COLUMNS = ("item", "id", "item_id", "task", "example")
FEATURE_ARRAYS = ("features", "X", "x", "images", "data", "arr_0")
ID_ARRAYS = ("items", "ids", "item", "id")
ON_DISK_FROM = 2**28  # bytes of features; more are not read into memory
CHECKED_VALUES = 2**24  # numbers looked at or unpacked together


@dataclass(frozen=True)
class Features:
    """What a network sees of each item: ids and one row (or image) per id."""

    ids: NameArray  # (n_items,)
    values: NDArray[Any]  # (n_items, ...)
    remark: str = ""  # where the values are, if not in memory or the file


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
    i is item i. `max_size` is as in `read_annotations`. Values of .npy and Parquet files above 256 MB stay on disk.
    """
    source = Path(path)
    if not source.exists():
        raise UnreadableFileError(f"There is no file {source}. Pass the features as .npy, .npz, .csv or .parquet.")
    document = Document(str(source), path=source, options=ReadingOptions.of(max_size=max_size))
    with decoding(document.name):
        if source.suffix == ".npy" and source.stat().st_size > ON_DISK_FROM:
            features = from_arrays(str(source), {"": on_disk(source)}, array)
        elif large := large_parquet(document):
            features = from_large_parquet(source, large, id_column, usual_id)
        elif document.container in ("npy", "npz"):
            features = from_arrays(document.name, document.arrays, array)
        elif document.container in ("table", "parquet"):
            chosen, ids_given = ids_of_table(document, id_column, usual_id)
            values = feature_values(document.frame.drop(chosen), document.name)
            features = Features(name_array(list(ids_given)), values)
        else:
            raise UnreadableFileError(f"{source}: features are read from .npy, .npz, .csv, .tsv or .parquet files.")
    ids = features.ids.tolist()
    require([check_present(ids, "item"), check_hashable(ids, "item")], where=str(source))
    require([check_distinct(ids, "item")], where=str(source))
    require_finite(features, source)
    return features


def on_disk(source: Path) -> NDArray[Any]:
    """A large .npy file whose rows are read when they are asked for; nothing is unpickled."""
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
        raise UnreadableFileError(f"{source} holds {values.dtype} of shape {values.shape}; save a row per item.")
    id_array = next((name for name in ID_ARRAYS if name in names and name != wanted), None)
    ids = range(len(values)) if id_array is None else arrays[id_array].tolist()
    if not isinstance(ids, (range, list)) or len(ids) != len(values):
        raise UnreadableFileError(f"{source} has {len(values)} rows of {wanted} but {np.size(ids)} ids.")
    return Features(name_array(ids), values)


def ids_of_table(document: Document, id_column: str | None, usual_id: str) -> tuple[str, Any]:
    """The column of item ids, and the ids; those of a table of text are whole numbers where all are written so."""
    chosen = find_ids(document.frame.columns, document.name, id_column, usual_id)
    ids = document.frame[chosen]
    return chosen, whole_numbers_together(ids)[0] if document.container == "table" else ids


def find_ids(columns: Sequence[str], name: str, id_column: str | None, usual_id: str) -> str:
    chosen = id_column or next((one for one in (usual_id, *ID_COLUMNS) if one in columns), None)
    if chosen is None or chosen not in columns:
        raise InvalidParameterError(
            f"{name} has no column of item ids{'' if id_column is None else f' {id_column!r}'}; its columns are "
            f"{some(columns, 10)}. Name the one that holds the ids."
        )
    return chosen


def feature_values(table: pl.DataFrame, name: str) -> NDArray[np.float32]:
    """(n_items, n_columns) numbers of a table; NaN where a cell is empty."""
    columns = {column.name: numbers(column) for column in table}
    text = [column for column, found in columns.items() if found is None]
    if text or not columns:
        raise UnreadableFileError(
            f"{name}: {len(text)} of {len(columns)} feature columns are not numeric: {some(text)}. "
            "Drop them or turn them into numbers first."
        )
    return pl.DataFrame(columns).cast(pl.Float32).to_numpy()


def numbers(column: pl.Series) -> pl.Series | None:
    """A column as numbers, missing where a cell is empty; None where it is of another kind."""
    if column.dtype == pl.String:
        found = column.str.strip_chars().replace(["true", "false", ""], ["1", "0", None])
        cast = text_numbers(found)
        return cast if cast.null_count() == found.null_count() else None
    return column if column.dtype.is_numeric() or column.dtype == pl.Boolean else None


def large_parquet(document: Document) -> list[int]:
    """Rows of each row group of a Parquet file that is too large for memory; empty for every other file."""
    assert document.path is not None
    try:
        with open_regular(document.path.resolve()) as file:
            if file.read(len(MAGIC)) != MAGIC:
                return []
    except OSError:
        return []  # reading it says why
    with damaged_parquet(document.name):
        n_rows, n_bytes = sizes_of_parquet(document.path)
        n_columns = len(pl.scan_parquet(document.path).collect_schema()) - 1
    if 4 * sum(n_rows) * n_columns <= ON_DISK_FROM:
        return []
    limit = document.options.max_size or max(SMALL_ENOUGH, USUAL_RATIO * document.path.stat().st_size)
    if max(n_bytes, 4 * sum(n_rows) * n_columns) > limit:
        raise too_large(document.name, "states that it unpacks to", limit)
    return n_rows


def from_large_parquet(source: Path, n_rows: list[int], id_column: str | None, usual_id: str) -> Features:
    """Unpack the numbers of a Parquet file into a temporary file, some rows and columns at a time."""
    scan = pl.scan_parquet(source)
    columns = scan.collect_schema().names()
    chosen = find_ids(columns, str(source), id_column, usual_id)
    columns.remove(chosen)
    values = temporary_array((sum(n_rows), len(columns)), source)
    with damaged_parquet(str(source)):
        ids = scan.select(chosen).collect()[chosen]
        for first, n in row_ranges(n_rows, CHECKED_VALUES // len(columns)):
            step = max(1, CHECKED_VALUES // n)
            for at in range(0, len(columns), step):
                part = scan.select(columns[at : at + step]).slice(first, n).collect()
                values[first : first + n, at : at + step] = feature_values(part, str(source))
    place = f"{values.nbytes / 1e9:.1f} GB of features are in a temporary file in {tempfile.gettempdir()}"
    return Features(name_array(list(ids)), values, f"{place}, which is removed at the end; TMPDIR names another folder")


def row_ranges(n_rows: list[int], most: int) -> Iterator[tuple[int, int]]:
    """(first row, number of rows) of neighbouring row groups joined up to this many rows, at least one group."""
    first = n = 0
    for one in n_rows:
        if n and n + one > most:
            yield first, n
            first, n = first + n, 0
        n += one
    yield first, n


def temporary_array(shape: tuple[int, ...], source: Path) -> NDArray[np.float32]:
    """An array in a temporary file without a name, which the system removes when it is no longer used."""
    folder, n_bytes = tempfile.gettempdir(), 4 * int(np.prod(shape))
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise UnreadableFileError(
            f"{source} holds {n_bytes / 1e9:.1f} GB of features, and {folder} has room for {free / 1e9:.1f} GB. Set "
            "TMPDIR to a folder with more room for temporary files."
        )
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(n_bytes)
        if hasattr(os, "posix_fallocate"):  # a full disk is then an error here and not a signal later
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)


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

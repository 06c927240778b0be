"""Features of items from a file: a NumPy array, or a table with one column of item ids."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations.checks import check_distinct, require
from crowdprism.annotations.names import NameArray, name_array
from crowdprism.errors import InvalidParameterError, UnreadableFileError, some

ID_COLUMNS = ("item", "id", "item_id", "task", "example")
FEATURE_ARRAYS = ("features", "X", "x", "images", "data", "arr_0")
ID_ARRAYS = ("items", "ids", "item", "id")


@dataclass(frozen=True)
class Features:
    """What a network sees of each item: ids and one row (or image) per id."""

    ids: NameArray  # (n_items,)
    values: NDArray[Any]  # (n_items, ...)


def read_features(path: str | os.PathLike[str], *, id_column: str | None = None, array: str | None = None) -> Features:
    """Read features from .npy, .npz, .csv, .tsv or .parquet.

    Parameters
    ----------
    id_column
        Column of a table that holds the item ids; found by name (item, id, ...) by default.
    array
        Name of the array in an .npz file; found by name (features, X, ...) by default.

    In .npy files, and in .npz files without an array of ids, row i is item i.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/x.csv").write_text("item,width,height\\nb,1,2\\na,3,4\\n")
    ...     features = read_features(f"{folder}/x.csv")
    >>> features.ids.tolist(), features.values.tolist()
    (['b', 'a'], [[1.0, 2.0], [3.0, 4.0]])
    """
    source = Path(path)
    if not source.exists():
        raise UnreadableFileError(f"There is no file {source}. Pass the features as .npy, .npz, .csv or .parquet.")
    if source.suffix == ".npy":
        features = _numbered(_load_numpy(source), source)
    elif source.suffix == ".npz":
        features = _from_npz(source, array)
    elif source.suffix in (".csv", ".tsv", ".parquet"):
        features = _from_table(source, id_column)
    else:
        raise UnreadableFileError(f"{source}: features are read from .npy, .npz, .csv, .tsv or .parquet files.")
    require([check_distinct(features.ids.tolist(), "item")], where=str(source))
    _require_finite(features, source)
    return features


def _load_numpy(source: Path) -> Any:
    try:
        return np.load(source, allow_pickle=False)
    except (ValueError, OSError) as error:
        raise UnreadableFileError(
            f"{source} is not a readable NumPy file: {error}. Save it again with np.save."
        ) from error


def _numbered(values: NDArray[Any], source: Path) -> Features:
    if values.ndim < 2 or values.dtype.kind not in "fiub":
        raise UnreadableFileError(
            f"{source} holds {values.dtype} of shape {values.shape}; features are numbers, one row per item."
        )
    return Features(name_array(range(len(values))), values)


def _from_npz(source: Path, array: str | None) -> Features:
    stored = _load_numpy(source)
    with stored:
        names = list(stored.files)
        wanted = array or next((name for name in FEATURE_ARRAYS if name in names), None)
        if wanted is None and len(names) == 1:
            wanted = names[0]
        if wanted not in names:
            raise InvalidParameterError(f"{source} holds the arrays {', '.join(names)}; say which holds the features.")
        features = _numbered(stored[wanted], source)
        id_array = next((name for name in ID_ARRAYS if name in names and name != wanted), None)
        ids = features.ids if id_array is None else name_array(stored[id_array].tolist())
    if len(ids) != len(features.values):
        raise UnreadableFileError(f"{source} has {len(features.values)} rows of {wanted} but {len(ids)} ids.")
    return Features(ids, features.values)


def _from_table(source: Path, id_column: str | None) -> Features:
    import polars as pl

    try:
        if source.suffix == ".parquet":
            table = pl.read_parquet(source)
        else:
            table = pl.read_csv(source, separator="\t" if source.suffix == ".tsv" else ",", infer_schema_length=10_000)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableFileError(f"{source} cannot be read as a table: {error}") from error
    chosen = id_column or next((name for name in ID_COLUMNS if name in table.columns), None)
    if chosen not in table.columns:
        raise InvalidParameterError(
            f"{source} has no column of item ids{'' if id_column is None else f' {id_column!r}'}; its columns are "
            f"{some(table.columns, 10)}. Name the one that holds the ids."
        )
    numeric = table.drop(chosen)
    text = [name for name, kind in numeric.schema.items() if not kind.is_numeric() and kind != pl.Boolean]
    if text:
        raise UnreadableFileError(
            f"{source}: {len(text)} of {numeric.width} feature columns are not numeric: {some(text)}. "
            "Drop them or turn them into numbers first."
        )
    return Features(name_array(table[chosen].to_list()), numeric.cast(pl.Float32).to_numpy())


def _require_finite(features: Features, source: Path) -> None:
    flat = features.values.reshape(len(features.values), -1)
    rows = np.flatnonzero(~np.isfinite(flat).all(axis=1)) if flat.dtype.kind == "f" else np.empty(0, dtype=int)
    if len(rows):
        raise UnreadableFileError(
            f"{source}: {len(rows)} of {len(flat)} items have a feature that is missing or infinite; the first is item "
            f"{features.ids.tolist()[rows[0]]!r}. Fill or drop them first."
        )

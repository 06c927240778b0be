"""Texts of items: from a column of a table, or from the annotation file itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, UnreadableFileError, some
from crowdprism.readers.features import ID_COLUMNS

TABLES = (".csv", ".tsv", ".parquet")


def texts_of_table(path: Path, column: str, id_column: str | None) -> dict[Any, str]:
    """Text by item id; where a table has a row per annotation, the text of an item must be the same in all its rows."""
    import polars as pl

    table = read_table(path)
    chosen = id_column or next((name for name in ID_COLUMNS if name in table.columns), None)
    for role, name in (("texts", column), ("item ids", chosen)):
        if name not in table.columns:
            raise InvalidParameterError(
                f"{path} has no column{'' if name is None else f' {name!r}'} of {role}; its columns are "
                f"{some(table.columns, 10)}."
            )
    assert chosen is not None
    distinct = table.select(pl.col(chosen).alias("id"), pl.col(column).cast(pl.String).alias("text")).unique(
        maintain_order=True
    )
    empty = distinct.filter(pl.col("text").is_null() | pl.col("id").is_null()).height
    if empty:
        raise UnreadableFileError(f"{path}: {empty} items have no id or no text in {column!r}. Fill or drop them.")
    twice = distinct.filter(pl.col("id").is_duplicated())
    if twice.height:
        raise InvalidAnnotationsError(
            f"{path}: item {twice['id'][0]!r} has more than one text in {column!r}, such as "
            f"{some(twice['text'].to_list()[:2], 2)}."
        )
    return dict(zip(distinct["id"].to_list(), distinct["text"].to_list(), strict=True))


def read_table(path: Path) -> Any:
    """A CSV, TSV or Parquet file as a polars frame."""
    import polars as pl

    if path.suffix not in TABLES:
        raise UnreadableFileError(f"{path}: a column of texts is read from {', '.join(TABLES)} files.")
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        return pl.read_csv(path, separator="\t" if path.suffix == ".tsv" else ",", infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableFileError(f"{path} cannot be read as a table: {error}") from error


def task_data(files: Sequence[Path]) -> dict[Any, Mapping[str, Any]]:
    """What the tasks of Label Studio exports show, by task id; files of other kinds have none."""
    found: dict[Any, Mapping[str, Any]] = {}
    for path in files:
        if path.suffix != ".json" or not path.is_file():
            continue
        try:
            tasks = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError):
            continue  # the reader of annotations tells what is wrong with the file
        for task in tasks if isinstance(tasks, list) else ():
            if isinstance(task, dict) and "id" in task and isinstance(task.get("data"), dict):
                found[task["id"]] = task["data"]
    return found


def texts_of_annotation_files(files: Sequence[Path], column: str, item_column: str) -> dict[Any, str]:
    """Text by item, from a column of the annotation table or a field of the tasks."""
    data = task_data(files)
    if data:
        texts = {item: str(shown[column]) for item, shown in data.items() if column in shown}
        if not texts:
            fields = dict.fromkeys(field for shown in data.values() for field in shown)
            raise InvalidParameterError(f"No task has a field {column!r}; tasks have {some(list(fields), 10)}.")
        return texts
    found: dict[Any, str] = {}
    for path in files:
        found |= texts_of_table(path, column, item_column)
    return found

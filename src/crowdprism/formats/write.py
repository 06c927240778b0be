"""Annotations into files: long and wide tables, JSON, NumPy; written to a temporary name and renamed."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from crowdprism.annotations.checks import check_no_repeats
from crowdprism.annotations.container import Annotations
from crowdprism.annotations.names import names_to_json
from crowdprism.errors import InvalidParameterError
from crowdprism.files import replacing_file
from crowdprism.formats.raw_annotations import NUMBERS
from crowdprism.formats.text_tables import frame_csv
from crowdprism.formats.unpacking import data_ending
from crowdprism.formats.wide_tables import NAMES_MEMBER

Write = Callable[[Annotations, BinaryIO], None]
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".npz": "npz"}
ENDINGS |= {".json": "peerannot"}


def write_annotations(annotations: Annotations, path: str | os.PathLike[str], format: str = "auto") -> Path:
    """Write annotations to a file that `read_annotations` and other tools can read.

    Parameters
    ----------
    path
        The file; one that is there is replaced once the new one is complete. With the ending .gz it is compressed.
    format
        `"csv"`, `"tsv"`, `"parquet"`, `"jsonl"` (long tables with item, annotator, label and what else there is),
        `"wide-csv"` (a row per item, a column per annotator), `"npz"` (everything, types and order of names
        included), `"peerannot"` (`{item: {annotator: label}}`), `"crowd-kit"` (CSV task, worker, label); by default
        as the ending of the file says.

    Examples
    --------
    >>> import tempfile
    >>> from crowdprism.formats import read_annotations
    >>> a = Annotations.from_dense([[0, 1], [1, -1]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_annotations(write_annotations(a, f"{folder}/labels.csv")) == a
    True
    """
    target = Path(path)
    ending = data_ending(target.name)
    if format == "auto" and ending not in ENDINGS:
        raise InvalidParameterError(
            f"The ending of {target.name} names no format. Use one of {', '.join(ENDINGS)}, "
            f"or choose the format yourself: {', '.join(WRITERS)}."
        )
    name = ENDINGS[ending] if format == "auto" else format
    if name not in WRITERS:
        raise InvalidParameterError(f"There is no format {name!r} to write; there are {', '.join(WRITERS)}.")
    with replacing_file(target) as fresh, open(fresh, "wb") as file:
        if target.suffix == ".gz":
            whole = io.BytesIO()
            WRITERS[name](annotations, whole)
            file.write(gzip.compress(whole.getvalue(), mtime=0))  # no time: the same content, the same bytes
        else:
            WRITERS[name](annotations, file)
    return target


def long_frame(annotations: Annotations) -> pl.DataFrame:
    """One row per annotation, with gold where it is known. Times and weights are whole columns or absent."""
    frame: pl.DataFrame = annotations.to_frame("polars")
    if annotations.gold is not None:
        gold = annotations.gold_by_name()
        names = [gold.get(item) for item in annotations.items.tolist()]
        frame = frame.with_columns(pl.Series("gold", names, strict=False).gather(annotations.item))
    numbers = [name for name in NUMBERS if name in frame.columns]
    return frame.with_columns(pl.col(numbers).fill_nan(None)) if numbers else frame


def write_csv(annotations: Annotations, file: BinaryIO, separator: str = ",") -> None:
    file.write(frame_csv(long_frame(annotations), separator))


def write_crowd_kit(annotations: Annotations, file: BinaryIO) -> None:
    frame = annotations.to_frame("polars").select("item", "annotator", "label")
    file.write(frame_csv(frame.rename({"item": "task", "annotator": "worker"})))


def write_parquet(annotations: Annotations, file: BinaryIO) -> None:
    whole = io.BytesIO()  # a full disk is then an error of the file, not of polars
    long_frame(annotations).write_parquet(whole)
    file.write(whole.getbuffer())


def write_jsonl(annotations: Annotations, file: BinaryIO) -> None:
    file.write(long_frame(annotations).write_ndjson().encode())


def require_no_repeats(annotations: Annotations, format: str) -> None:
    """A table with one cell per item and annotator cannot hold two labels in it."""
    a = annotations
    breach = check_no_repeats(a.item, a.annotator, a.items, a.annotators)
    if breach is not None:
        raise InvalidParameterError(f"{breach.problem} Write a long table instead: {format} cannot hold them.")


def write_wide_csv(annotations: Annotations, file: BinaryIO) -> None:
    """Write a row per item and a column per annotator; an empty cell is no annotation."""
    require_no_repeats(annotations, "a wide table")
    table = annotations.to_dense()
    names = np.array([*annotations.classes.tolist(), None], dtype=object)  # -1 takes the last
    columns: dict[str, Any] = {"item": annotations.items.tolist()}
    columns |= {str(name): names[table[:, place]].tolist() for place, name in enumerate(annotations.annotators)}
    file.write(frame_csv(pl.DataFrame(columns, strict=False)))


def write_npz(annotations: Annotations, file: BinaryIO) -> None:
    """Write all arrays, and the names as JSON so that no pickle is needed."""
    a = annotations
    names = {"items": a.items, "annotators": a.annotators, "classes": a.classes}
    stored = json.dumps({role: names_to_json(given) for role, given in names.items()}, ensure_ascii=False)
    arrays: dict[str, Any] = {"item_start": a.item_start, "annotator": a.annotator, "label": a.label}
    arrays |= {name: getattr(a, name) for name in NUMBERS if getattr(a, name) is not None}
    if a.gold is not None:
        arrays |= {"gold": a.gold.filled(0), "gold_mask": np.ma.getmaskarray(a.gold)}
    arrays[NAMES_MEMBER] = np.frombuffer(stored.encode(), dtype=np.uint8)
    np.savez_compressed(file, **arrays)


def write_peerannot(annotations: Annotations, file: BinaryIO) -> None:
    require_no_repeats(annotations, "answers.json")
    a = annotations
    nested: dict[str, dict[str, Any]] = {str(item): {} for item in a.items.tolist()}
    rows = zip(a.items[a.item].tolist(), a.annotators[a.annotator].tolist(), a.classes[a.label].tolist(), strict=True)
    for item, annotator, label in rows:
        nested[str(item)][str(annotator)] = label
    file.write(json.dumps(nested, ensure_ascii=False).encode())


WRITERS: dict[str, Write] = {
    "csv": write_csv,
    "tsv": partial(write_csv, separator="\t"),
    "parquet": write_parquet,
    "jsonl": write_jsonl,
    "wide-csv": write_wide_csv,
    "npz": write_npz,
    "peerannot": write_peerannot,
    "crowd-kit": write_crowd_kit,
}

"""A store: annotations as Parquet shards on disk, sorted by item, larger than memory if need be.

    store/manifest.json            sizes, classes, and size and digest of every file; written last, so that a store
                                   without it is not finished
    store/annotators.parquet       name, number of annotations and sum of weights of each annotator
    store/cells.parquet            the same for each (annotator, given label) pair that occurs
    store/annotations-00000.parquet   item (position in the shard), annotator, label, and weight if there are any
    store/items-00000.parquet      names of the shard's items, and their gold (position of the class, -1 without)

Items are in the order that `Annotations` has them, and shard follows shard, so that sums over items are added in the
same order whether the annotations are in memory or in a store.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec
import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import INT32_MAX, NameArray, name_array, names_from_json
from crowdprism.errors import ResultFormatError, some
from crowdprism.files import TOKEN, open_regular
from crowdprism.formats.binary_files import read_parquet
from crowdprism.results.manifest import FileEntry, digest_of

SCHEMA = 1
PART = "files-"
PART_NAME = re.compile(rf"{PART}{TOKEN}")  # folder with the files of the store; a new one for each writer
MANIFEST = "manifest.json"
ANNOTATORS, CELLS = "annotators.parquet", "cells.parquet"
MAX_MANIFEST = 2**24  # bytes
AGAIN = "Write the store again with `crowdprism shard`."
MOST_PER_BYTE = 64  # distinct names per byte of their file; compression makes eight bytes of a name 255 times smaller
SAMPLE_ITEMS = 20_000  # items that a result of a store holds for its report

Count = Annotated[int, Meta(ge=0, le=2**60)]
# Columns of the files, and of what kind they are in NumPy; "U" are texts.
COLUMNS = {
    "annotators": {"annotator": "iU", "annotations": "i", "weight": "f"},
    "cells": {"annotator": "i", "label": "i", "annotations": "i", "weight": "f"},
    "annotations": {"item": "i", "annotator": "i", "label": "i"},
    "items": {"item": "iU"},
}


class StoreRecord(TypedDict):
    """What a reader needs of `manifest.json`."""

    identity: str
    part: Annotated[str, Meta(pattern=rf"\A({PART_NAME.pattern})?\Z")]
    weighted: bool
    n_annotators: Count
    classes: dict[str, Any]
    gold: list[Count]  # items that are known to be of each class
    shards: list[tuple[Count, Count]]  # items and annotations of each
    files: dict[Annotated[str, Meta(pattern=r"\A[a-z0-9.-]+\Z")], tuple[Count, str]]  # size and digest


@dataclass(frozen=True)
class Shard:
    """Number of a shard, its first item and first annotation among all, and how many it has of each."""

    number: int
    first_item: int
    first_annotation: int
    n_items: int
    n_annotations: int

    @property
    def annotations_file(self) -> str:
        return f"annotations-{self.number:05}.parquet"

    @property
    def items_file(self) -> str:
        return f"items-{self.number:05}.parquet"


class Shards:
    """A store of annotations that is open for reading.

    Attributes
    ----------
    folder, shards, weighted
        Where it is, its parts in the order of items, and whether annotations have weights.
    n_items, n_annotators, n_classes, n_annotations, annotators, classes
        Sizes and names.
    """

    def __init__(self, folder: str | os.PathLike[str], *, use_gold: bool = True) -> None:
        self.folder = Path(folder).absolute()
        record = read_record(self.folder)
        self.identity: str = record["identity"]
        self.files = {name: FileEntry(*entry) for name, entry in record["files"].items()}
        self.classes: NameArray = names_from_json(record["classes"])
        self.n_classes = len(self.classes)
        self.weighted: bool = record["weighted"]
        self.gold_counts = use_gold * np.array(record["gold"], dtype=np.int64)  # (n_classes,) items known to be of each
        self.shards: list[Shard] = []
        self.n_items = self.n_annotations = 0
        for number, (n_items, n_annotations) in enumerate(record["shards"]):
            self.shards.append(Shard(number, self.n_items, self.n_annotations, n_items, n_annotations))
            self.n_items, self.n_annotations = self.n_items + n_items, self.n_annotations + n_annotations
        self.n_annotators: int = record["n_annotators"]
        self._checked: set[str] = set()
        self._kept: dict[int, Annotations] = {}
        self.room = 0  # bytes of shards that may stay in memory between passes
        self.files_folder = self.folder / record["part"]
        require_files(self.files_folder, self.files)
        n_names = {shard.items_file: shard.n_items for shard in self.shards} | {ANNOTATORS: self.n_annotators}
        n_names |= {shard.annotations_file: 0 for shard in self.shards}
        wrong = [one for one, n in n_names.items() if one not in self.files or n > MOST_PER_BYTE * self.files[one].size]
        if wrong or len(self.gold_counts) != self.n_classes:
            raise damaged(self.folder / MANIFEST, f"states other sizes than {some(wrong or ['classes'])} can have")

    @cached_property
    def annotators(self) -> NameArray:
        return name_array(self._annotators["annotator"].to_numpy())

    @property
    def labels_per_annotator(self) -> NDArray[np.int64]:
        return self._annotators["annotations"].to_numpy()

    @property
    def weight_per_annotator(self) -> NDArray[np.float64]:
        return self._annotators["weight"].to_numpy()

    @cached_property
    def _annotators(self) -> pl.DataFrame:
        found = self.read_file(ANNOTATORS)
        if len(found) != self.n_annotators or found["annotator"].n_unique() < len(found):
            raise damaged(self.files_folder / ANNOTATORS, "has other names than the manifest says")
        return found

    @cached_property
    def cells(self) -> pl.DataFrame:
        """The (annotator, label) pairs that occur, in order, with number of annotations and sum of weights."""
        found = self.read_file(CELLS)
        self._require_codes(CELLS, found, {"annotator": self.n_annotators, "label": self.n_classes})
        return found

    def read_file(self, name: str) -> pl.DataFrame:
        """Read a file of the store; its digest and what it states of itself are checked the first time."""
        path = self.files_folder / name
        try:
            with open_regular(path) as file:
                is_new = name not in self._checked
                if is_new and digest_of(file) != self.files[name]:
                    raise damaged(path, "was changed after the store was written")
                file.seek(0)
                data = file.read()
        except OSError as error:
            raise damaged(path, f"cannot be read ({error.strerror or error})") from error
        if not is_new:
            return pl.read_parquet(BytesIO(data)).rechunk()
        found = read_parquet(data, str(path), None).rechunk()
        kind = name.removesuffix(".parquet").partition("-")[0]
        wanted = COLUMNS[kind] | ({"weight": "f"} if self.weighted and kind == "annotations" else {})
        kinds = {column.name: "U" if column.dtype == pl.String else column.to_numpy().dtype.kind for column in found}
        wrong = [column for column, kind in wanted.items() if kinds.get(column, "absent") not in kind]
        if wrong:
            raise damaged(path, f"does not have the columns {some(wrong)} of a store")
        self._checked.add(name)
        return found

    def item_at(self, annotation: float) -> int:
        """The first item whose annotations begin at this position among all annotations, or after it."""
        for shard in self.shards:
            if annotation <= shard.first_annotation:
                return shard.first_item
            if annotation < shard.first_annotation + shard.n_annotations:
                start = self.read(shard).item_start.astype(np.int64) + shard.first_annotation
                return shard.first_item + int(np.searchsorted(start, annotation))
        return self.n_items

    def within(self, first: int, last: int) -> Iterator[tuple[Shard, int, int]]:
        """The shards that hold items from `first` to before `last`, and which of their items these are."""
        for shard in self.shards:
            begin, end = max(first - shard.first_item, 0), min(last - shard.first_item, shard.n_items)
            if begin < end:
                yield shard, begin, end

    def read(self, shard: Shard, *, names: bool = False) -> Annotations:
        """The annotations of a shard, all annotators and classes of the store named; items by number or by name."""
        if not names and shard.number in self._kept:
            return self._kept[shard.number]
        fresh = shard.annotations_file not in self._checked
        table = self.read_file(shard.annotations_file)
        item, annotator, label = (table[column].to_numpy() for column in ("item", "annotator", "label"))
        weight = table["weight"].to_numpy() if self.weighted else None
        if fresh:
            limits = {"item": shard.n_items, "annotator": self.n_annotators, "label": self.n_classes}
            self._require_codes(shard.annotations_file, table, limits)
            odd_weight = weight is not None and not (weight >= 0).all()
            if odd_weight or len(item) != shard.n_annotations or (np.diff(item) < 0).any():
                raise damaged(self.files_folder / shard.annotations_file, "has other rows than the manifest says")
        start = np.zeros(shard.n_items + 1, dtype=np.int64)
        np.cumsum(np.bincount(item, minlength=shard.n_items), out=start[1:])
        items = self.item_names(shard) if names else np.arange(shard.first_item, shard.first_item + shard.n_items)
        gold = self._gold(shard) if self.gold_counts.any() else None
        found = Annotations(start, annotator, label, items, self.annotators, self.classes, weight=weight, gold=gold)
        size = sum(array.nbytes for array in (start, annotator, label, items, weight) if array is not None)
        if not names and size <= self.room:
            self.room -= size
            self._kept[shard.number] = found
        return found

    def _gold(self, shard: Shard) -> np.ma.MaskedArray[Any, Any]:
        """(n_items,) true classes of a shard's items, masked where unknown."""
        table = self.read_file(shard.items_file)
        codes = table["gold"].to_numpy() if "gold" in table.columns else np.full(shard.n_items, -1)
        if len(codes) != shard.n_items or codes.dtype.kind != "i" or (codes >= self.n_classes).any():
            raise damaged(self.files_folder / shard.items_file, "has other rows than the manifest says")
        return np.ma.MaskedArray(np.maximum(codes, 0), mask=codes < 0)

    def _require_codes(self, name: str, table: pl.DataFrame, limits: dict[str, int]) -> None:
        """Compiled code indexes tables by these numbers, so they are checked even where the digest is right."""
        for column, limit in limits.items():
            codes = table[column].to_numpy()
            if len(codes) and not (codes.min() >= 0 and codes.max() < limit):
                raise damaged(self.files_folder / name, f"has {column}s that are not in the store")

    def item_names(self, shard: Shard) -> NameArray:
        return name_array(self.read_file(shard.items_file)["item"].to_numpy())

    def to_annotations(self) -> Annotations:
        return self._joined([(shard, slice(None)) for shard in self.shards])

    @cached_property
    def sample(self) -> Annotations:
        """Every n-th item with its annotations, so many that a report can be made of them."""
        step = max(1, -(-self.n_items // SAMPLE_ITEMS))
        return self._joined([(shard, slice(-shard.first_item % step, None, step)) for shard in self.shards])

    def _joined(self, wanted: list[tuple[Shard, slice]]) -> Annotations:
        parts = []
        for shard, items in wanted:
            if items.start is None or items.start < shard.n_items:
                whole = self.read(shard, names=True)
                parts.append(whole if items == slice(None) else whole[np.arange(shard.n_items)[items]])
        starts = np.cumsum([0, *(part.n_annotations for part in parts)])
        item_start = [part.item_start[1:] + at for part, at in zip(parts, starts[:-1], strict=True)]
        return Annotations(
            np.concatenate([[0], *item_start]).astype(np.int32 if starts[-1] <= INT32_MAX else np.int64),
            np.concatenate([part.annotator for part in parts]),
            np.concatenate([part.label for part in parts]).astype(np.int16 if self.n_classes < 2**15 else np.int32),
            name_array(np.concatenate([part.items for part in parts])),
            self.annotators,
            self.classes,
            weight=np.concatenate([part.weight for part in parts]) if self.weighted else None,
            gold=np.ma.concatenate([part.gold for part in parts]) if self.gold_counts.any() else None,  # type: ignore[no-untyped-call]
        )

    def __reduce__(self) -> Any:
        """Another process opens the store itself, once."""
        return open_once, (str(self.folder), self.identity, bool(self.gold_counts.any()))

    def __repr__(self) -> str:
        return (
            f"Shards({self.n_annotations} annotations of {self.n_items} items by {self.n_annotators} annotators, "
            f"{self.n_classes} classes, in {len(self.shards)} shards: {self.folder})"
        )


@lru_cache(maxsize=4)
def open_once(folder: str, identity: str, use_gold: bool) -> Shards:
    """The store of a folder, which must be the one that the driver has opened."""
    store = Shards(folder, use_gold=use_gold)
    if store.identity != identity:
        raise damaged(store.folder, "was replaced by another store")
    return store


def is_store(path: Path) -> bool:
    """Tell whether a folder is a store, finished or not."""
    try:
        with open_regular(path / MANIFEST) as file:
            return b'"crowdprism_shards"' in file.read(64)
    except OSError:
        return any(PART_NAME.fullmatch(one.name) for one in path.glob(f"{PART}*"))


def read_record(folder: Path) -> StoreRecord:
    """The manifest of a store, its fields checked."""
    path = folder / MANIFEST
    try:
        with open_regular(path) as file:
            text = file.read(MAX_MANIFEST + 1)
    except OSError as error:
        raise ResultFormatError(
            f"{folder} is not a finished store: {MANIFEST} cannot be read ({error.strerror or error}). {AGAIN}"
        ) from error
    try:
        record: dict[str, Any] = json.loads(text)
        if record["crowdprism_shards"] != SCHEMA:
            raise ResultFormatError(
                f"{folder} is a store of format {record['crowdprism_shards']!r}, and this crowdprism reads {SCHEMA}. "
                f"{AGAIN}"
            )
        return msgspec.convert(record, StoreRecord)
    except ResultFormatError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResultFormatError(f"{path} is damaged: {type(error).__name__} {error}. {AGAIN}") from error


def require_files(folder: Path, files: dict[str, FileEntry]) -> None:
    """Raise if a file is missing or has another size than the manifest says."""
    for name, entry in files.items():
        try:
            size = (folder / name).stat().st_size
        except OSError as error:
            raise damaged(folder / name, f"cannot be read ({error.strerror or error})") from error
        if size != entry.size:
            raise damaged(folder / name, f"has {size} bytes where the manifest says {entry.size}")


def damaged(path: Path, what: str) -> ResultFormatError:
    return ResultFormatError(f"{path} {what}. {AGAIN}")

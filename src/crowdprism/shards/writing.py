"""Write a store: cut sorted annotations into shards, and finish with the manifest."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.annotations.names import NameArray, names_to_json
from crowdprism.errors import InvalidParameterError, ResultFormatError
from crowdprism.files import new_token
from crowdprism.results.manifest import FileEntry, entry_of
from crowdprism.results.replacing import LOCK, hold, make_folder, require_own_folder
from crowdprism.shards import store as layout
from crowdprism.shards.store import MANIFEST, Shard, Shards, is_store, read_record

MOST_SHARDS = 1024
LEAST_IN_SHARD = 2**17  # annotations
MAX_KEYS = 2**27  # possible (annotator, label) pairs that are counted in one array


def write_annotations(annotations: Annotations, folder: str | os.PathLike[str], *, force: bool = False) -> Shards:
    """Write annotations as a store; durations and timestamps are not kept."""
    names = (annotations.annotators, annotations.classes)
    with replacing_store(folder, force=force) as fresh:
        writer = StoreWriter(fresh, *names, weighted=annotations.weight is not None)
        for first, last in cuts(annotations.item_start, shard_size(annotations.n_annotations)):
            writer.write(annotations[first:last])
        writer.finish()
    return Shards(folder)


def shard_size(n_annotations: int) -> int:
    return max(LEAST_IN_SHARD, -(-n_annotations // MOST_SHARDS))


def cuts(item_start: NDArray[Any], size: int) -> list[tuple[int, int]]:
    """First and last item of parts with about so many annotations each."""
    n_parts = max(1, round(int(item_start[-1]) / size))
    at = np.searchsorted(item_start, np.linspace(0, int(item_start[-1]), n_parts + 1))
    at[0], at[-1] = 0, len(item_start) - 1
    return [(first, last) for first, last in zip(at[:-1].tolist(), at[1:].tolist(), strict=True) if first < last]


@contextmanager
def replacing_store(folder: str | os.PathLike[str], *, force: bool) -> Iterator[Path]:
    """Yield an empty folder for a store's files; a rename of the manifest makes them the store at `folder`."""
    target = Path(folder)
    require_own_folder(target, ())
    is_free = not target.exists() or all(map(is_part, target.iterdir()))  # but for what a killed writer left
    if not is_free and not (force and is_store(target)):
        remedy = "Choose another folder, or replace it with {force:True}." if is_store(target) else "Choose another."
        raise InvalidParameterError(f"{target} exists and is not empty.", parameter="output", remedy=remedy)
    with ExitStack() as on_exit:
        make_folder(target, on_exit)
        hold(target, on_exit)
        remove_other_parts(target)
        fresh = target / f"{layout.PART}{new_token()}"
        fresh.mkdir()
        try:
            yield fresh
            os.replace(fresh / MANIFEST, target / MANIFEST)
        finally:
            remove_other_parts(target)


def is_part(path: Path) -> bool:
    """Tell whether this is a folder with the files of a store, or the lock of its writer."""
    is_folder = path.is_dir() and not path.is_symlink()
    return path.name == LOCK or (is_folder and layout.PART_NAME.fullmatch(path.name) is not None)


def remove_other_parts(target: Path) -> None:
    """Remove folders with files that are not those of the store; none if its manifest cannot be read."""
    try:
        current = read_record(target)["part"] if (target / MANIFEST).exists() else ""
    except ResultFormatError:
        return
    for path in target.iterdir():
        if is_part(path) and path.name not in (current, LOCK):
            shutil.rmtree(path, ignore_errors=True)


class StoreWriter:
    """Writes shard after shard, in the order of items, and then what belongs to all of them."""

    def __init__(self, folder: Path, annotators: NameArray, classes: NameArray, *, weighted: bool) -> None:
        self.folder = folder
        self.annotators, self.classes, self.weighted = annotators, classes, weighted
        self.sizes: list[list[int]] = []
        self.gold = np.zeros(len(classes), dtype=np.int64)  # number of items that are known to be of each class
        self.files: dict[str, FileEntry] = {}

    def write(self, part: Annotations) -> None:
        """Write the next shard."""
        shard = Shard(len(self.sizes), 0, 0, part.n_items, part.n_annotations)
        small = np.min_scalar_type(-len(self.classes))
        columns: dict[str, Any] = {
            "item": part.item,
            "annotator": part.annotator.astype(np.int32, copy=False),
            "label": part.label.astype(small, copy=False),
        }
        if self.weighted:
            columns["weight"] = part.weight
        self._write(shard.annotations_file, pl.DataFrame(columns))
        gold = known_classes(part)
        columns = {"item": column_of_names(part.items)}
        if gold is not None:
            columns["gold"] = gold.astype(small)
            self.gold += np.bincount(gold[gold >= 0], minlength=len(self.classes))
        self._write(shard.items_file, pl.DataFrame(columns))
        self.sizes.append([part.n_items, part.n_annotations])

    def _write(self, name: str, table: pl.DataFrame) -> None:
        table.write_parquet(self.folder / name, compression="lz4", statistics=False)
        entry = entry_of(self.folder / name)
        assert entry is not None
        self.files[name] = entry

    def finish(self) -> None:
        people = pl.DataFrame({"annotator": column_of_names(self.annotators), "annotations": 0, "weight": 0.0})
        self._write(layout.ANNOTATORS, people)  # `read` needs the file to be there; it is complete below
        self._write_manifest(part="")
        store = Shards(self.folder)
        self._write(layout.CELLS, count_cells(store))
        counts, weight = np.zeros(len(people), dtype=np.int64), np.zeros(len(people))
        for shard in store.shards:
            part = store.read(shard)
            counts += np.bincount(part.annotator, minlength=len(people))
            np.add.at(weight, part.annotator, 1.0 if part.weight is None else part.weight)
        self._write(layout.ANNOTATORS, people.with_columns(annotations=counts, weight=weight))
        self._write_manifest(part=self.folder.name)  # from here on to be read from the folder above

    def _write_manifest(self, *, part: str) -> None:
        from crowdprism import __version__

        record = {
            "crowdprism_shards": layout.SCHEMA,
            "version": __version__,
            "identity": new_token(),
            "part": part,
            "weighted": self.weighted,
            "n_annotators": len(self.annotators),
            "classes": names_to_json(self.classes),
            "gold": self.gold.tolist(),
            "shards": self.sizes,
            "files": {name: [entry.size, entry.sha256] for name, entry in self.files.items()},
        }
        (self.folder / MANIFEST).write_text(json.dumps(record), encoding="utf-8")


def count_cells(store: Shards) -> pl.DataFrame:
    """The (annotator, label) pairs that occur, with number of annotations and sum of weights."""
    n_classes, n_keys = store.n_classes, store.n_annotators * store.n_classes
    seen = np.zeros(n_keys, dtype=bool) if n_keys <= MAX_KEYS else None
    sparse: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    for key, _ in keys_of(store):
        if seen is None:
            sparse = np.union1d(sparse, key)
        else:
            seen[key] = True
    occurring = sparse if seen is None else np.flatnonzero(seen)
    counts, weight = np.zeros(len(occurring), dtype=np.int64), np.zeros(len(occurring))
    for key, weights in keys_of(store):
        place = np.searchsorted(occurring, key)
        np.add.at(counts, place, 1)
        np.add.at(weight, place, 1.0 if weights is None else weights)
    columns = {"annotator": occurring // n_classes, "label": occurring % n_classes}
    return pl.DataFrame({**columns, "annotations": counts, "weight": weight})


def keys_of(store: Shards) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32] | None]]:
    """Number of the (annotator, label) pair of each annotation, and its weight, shard by shard."""
    for shard in store.shards:
        part = store.read(shard)
        yield part.annotator.astype(np.int64) * store.n_classes + part.label, part.weight


def column_of_names(names: NameArray) -> pl.Series:
    """Names as a column; texts and whole numbers only, because columns have one type."""
    if names.dtype == np.int64:
        return pl.Series(names)
    listed = names.tolist()
    if set(map(type, listed)) <= {str}:
        return pl.Series(listed, dtype=pl.String)
    strange = next(name for name in listed if not isinstance(name, str))
    raise InvalidParameterError(
        f"A store names items and annotators by texts or by whole numbers, not both, and not by {strange!r} of type "
        f"{type(strange).__name__}. Rename them first."
    )

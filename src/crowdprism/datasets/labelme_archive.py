"""LabelMe as Rodrigues and Pereira (2018) publish it: one tar.gz with answers, truth and photographs.

`answers.txt` has a row per training photograph and a column per annotator, -1 for none, blanks between; 18 of its
77 columns are empty and left out. `labels_*.txt` and `filenames_*.txt` have a line per photograph of a split; the
photographs stand in `<split>/<class>/<file name>`.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.datasets.catalogue import DatasetEntry
from crowdprism.datasets.dataset import DatasetReaders
from crowdprism.errors import MissingDependencyError, UnreadableFileError
from crowdprism.names import name_array

NO_ANSWER = -1
SPLITS = ("train", "valid", "test")
TABLES = ("answers.txt", *(f"{kind}_{split}.txt" for kind in ("labels", "filenames") for split in SPLITS))


@dataclass(frozen=True)
class LabelMeTables:
    """The text files of the archive."""

    answers: NDArray[np.int64]  # (training photograph, annotator)
    labels: Mapping[str, NDArray[np.int64]]
    filenames: Mapping[str, list[str]]


def labelme_readers(entry: DatasetEntry, path: Path) -> DatasetReaders:
    """Readers of the archive; it is opened when first needed."""

    @cache
    def tables() -> LabelMeTables:
        return read_labelme_tables(path)

    def splits() -> Mapping[str, NDArray[np.int64]]:
        sizes = [len(tables().labels[split]) for split in SPLITS]
        ends = np.cumsum(sizes)
        return {split: np.arange(end - size, end) for split, size, end in zip(SPLITS, sizes, ends, strict=True)}

    def truth() -> NDArray[np.int64]:
        return np.concatenate([tables().labels[split] for split in SPLITS])

    return DatasetReaders(
        gold=lambda: np.ma.MaskedArray(truth().astype(np.int16)),
        splits=splits,
        annotations=lambda: labelme_annotations(entry, tables(), truth()),
        images=lambda: read_photographs(path, tables().filenames),
    )


def labelme_annotations(entry: DatasetEntry, tables: LabelMeTables, truth: NDArray[np.int64]) -> Annotations:
    """The answers as annotations of all photographs, annotators without an answer left out."""
    answered = (tables.answers != NO_ANSWER).any(axis=0)
    answers = tables.answers[:, answered]
    item, annotator = np.nonzero(answers != NO_ANSWER)
    built = Annotations.from_triplets(
        item,
        annotator,
        answers[item, annotator],
        classes=range(entry.n_classes),
        item_names=range(len(truth)),
        gold=dict(enumerate(truth.tolist())),
    )
    return replace(built, classes=name_array(entry.classes))


def read_labelme_tables(path: Path) -> LabelMeTables:
    """Read the text files of the archive, checking that their rows agree."""
    texts: dict[str, str] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                opened = archive.extractfile(member) if name in TABLES and name not in texts else None
                if opened is not None:
                    texts[name] = opened.read().decode("utf-8")
    except (OSError, EOFError, tarfile.TarError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error
    missing = [name for name in TABLES if name not in texts]
    if missing:
        raise _damaged(path, f"it lacks {', '.join(missing)}")
    try:
        answers = np.loadtxt(io.StringIO(texts["answers.txt"]), ndmin=2).astype(np.int64)
        labels = {s: np.loadtxt(io.StringIO(texts[f"labels_{s}.txt"]), ndmin=1).astype(np.int64) for s in SPLITS}
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    filenames = {split: texts[f"filenames_{split}.txt"].split() for split in SPLITS}
    if len(answers) != len(labels["train"]):
        raise _damaged(path, f"it has {len(answers)} rows of answers for {len(labels['train'])} training photographs")
    return LabelMeTables(answers, labels, filenames)


def read_photographs(path: Path, filenames: Mapping[str, list[str]]) -> NDArray[np.uint8]:
    """(n_items, height, width, 3), in the order of the file names, training photographs first."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(
            "LabelMe's photographs are JPEG files, which need Pillow: pip install pillow"
        ) from error
    place = {name: row for row, name in enumerate(name for split in SPLITS for name in filenames[split])}
    found: dict[int, NDArray[np.uint8]] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            row = place.get(PurePosixPath(member.name).name)
            opened = archive.extractfile(member) if row is not None and row not in found else None
            if row is not None and opened is not None:
                with Image.open(io.BytesIO(opened.read())) as picture:
                    found[row] = np.asarray(picture.convert("RGB"))
    if len(found) != len(place):
        lacking = next(name for name, row in place.items() if row not in found)
        raise _damaged(
            path, f"{len(place) - len(found)} of {len(place)} photographs are missing, the first is {lacking}"
        )
    return np.stack([found[row] for row in range(len(place))])


def _damaged(path: Path, why: str) -> UnreadableFileError:
    return UnreadableFileError(f"{path} cannot be read: {why}. Delete it and fetch it again.")

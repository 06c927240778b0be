"""Data sets in the formats that their authors publish: IDX, CIFAR-10's binary records, LabelMe's archive.

LabelMe (Rodrigues and Pereira, 2018) is one tar.gz. `answers.txt` has a row per training photograph and a column per
annotator, with -1 for no answer; 18 of its 77 columns are empty and left out. `labels_*.txt` and `filenames_*.txt`
have a line per photograph of a split; the photographs are at `<split>/<class>/<file name>`.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Collection, Iterator, Sequence
from functools import cache, partial
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.datasets import folder as layout
from crowdprism.datasets.catalogue import DatasetEntry
from crowdprism.datasets.folder import SPLIT_ORDER, DatasetReaders, image_readers
from crowdprism.errors import UnreadableFileError
from crowdprism.simulate.labelling import annotations_of_labels

IDX_UNSIGNED_BYTES = 8  # type code of the only kind of IDX file that these sets use
CIFAR_RECORD_BYTES = 1 + 3 * 32 * 32
CIFAR_BATCHES = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
NO_ANSWER = -1
LABELME_TABLES = ["answers.txt", *(f"{kind}_{s}.txt" for kind in ("labels", "filenames") for s in SPLIT_ORDER)]


def original_readers(entry: DatasetEntry, folder: Path) -> DatasetReaders:
    first = folder / entry.downloads[0].file
    if entry.name == "labelme":
        return labelme_readers(entry, first)
    if entry.name == "cifar10":
        records = cache(partial(read_cifar10_binary, first))
        return image_readers(entry, lambda: records()[0], lambda: records()[1], features={})

    def both(kind: str) -> NDArray[np.uint8]:
        return np.concatenate([read_idx(folder / f"{part}-{kind}-ubyte.gz") for part in ("train", "t10k")])

    images = partial(both, "images-idx3")
    return image_readers(entry, images, partial(both, "labels-idx1"), {"pixels": lambda: layout.flat_pixels(images())})


def read_idx(path: Path) -> NDArray[np.uint8]:
    """A gzipped IDX file of bytes: two zeros, type, number of dimensions, dimensions (big-endian 32 bits), values."""
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError) as error:
        raise _damaged(path, str(error)) from error
    if len(content) < 4 or content[:3] != bytes([0, 0, IDX_UNSIGNED_BYTES]):
        raise _damaged(path, "it does not begin like an IDX file of bytes")
    n_dimensions = content[3]
    header = 4 + 4 * n_dimensions
    if len(content) < header:
        raise _damaged(path, "it ends within its header")
    shape = tuple(np.frombuffer(content, ">u4", count=n_dimensions, offset=4).tolist())
    if len(content) != header + int(np.prod(shape)):
        raise _damaged(path, f"it holds {len(content) - header} values, not the {int(np.prod(shape))} it announces")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_cifar10_binary(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 32, 32, 3) and labels (n,) of the binary CIFAR-10 archive, training batches first."""
    batches = dict(read_members(path, CIFAR_BATCHES))
    missing = [name for name in CIFAR_BATCHES if name not in batches]
    if missing:
        raise _damaged(path, f"{len(missing)} of 6 batches are missing, the first is {missing[0]}")
    content = b"".join(batches[name] for name in CIFAR_BATCHES)
    if len(content) % CIFAR_RECORD_BYTES:
        raise _damaged(path, f"its batches hold {len(content)} bytes, not a multiple of {CIFAR_RECORD_BYTES}")
    records = np.frombuffer(content, np.uint8).reshape(-1, CIFAR_RECORD_BYTES)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0].copy()


def read_members(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the wanted files of a tar archive, whatever folder they are in."""
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                opened = archive.extractfile(member) if name in wanted else None
                if opened is not None:
                    yield name, opened.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise _damaged(path, str(error)) from error


def labelme_readers(entry: DatasetEntry, path: Path) -> DatasetReaders:
    @cache
    def texts() -> dict[str, str]:
        found = {name: content.decode(errors="replace") for name, content in read_members(path, LABELME_TABLES)}
        missing = [name for name in LABELME_TABLES if name not in found]
        if missing:
            raise _damaged(path, f"it lacks {', '.join(missing)}")
        return found

    def table(name: str) -> NDArray[np.int64]:
        try:
            return np.loadtxt(io.StringIO(texts()[name]), ndmin=2 if name == "answers.txt" else 1).astype(np.int64)
        except ValueError as error:
            raise _damaged(path, str(error)) from error

    def truth() -> NDArray[np.int64]:
        return np.concatenate([table(f"labels_{split}.txt") for split in SPLIT_ORDER])

    def annotations() -> Annotations:
        answers, n_train = table("answers.txt"), len(table("labels_train.txt"))
        if len(answers) != n_train:
            raise _damaged(path, f"it has {len(answers)} rows of answers for {n_train} training photographs")
        answers = answers[:, (answers != NO_ANSWER).any(axis=0)]
        item, annotator = np.nonzero(answers != NO_ANSWER)
        label, names = answers[item, annotator], {"classes": entry.classes, "annotators": range(answers.shape[1])}
        return annotations_of_labels(truth(), label, (item, annotator), n_classes=entry.n_classes, **names)

    return DatasetReaders(
        gold=lambda: layout.complete_gold(truth()),
        splits=lambda: layout.consecutive_splits({split: len(table(f"labels_{split}.txt")) for split in SPLIT_ORDER}),
        annotations=annotations,
        images=lambda: read_photographs(path, [texts()[f"filenames_{split}.txt"] for split in SPLIT_ORDER]),
    )


def read_photographs(path: Path, filenames: Sequence[str]) -> NDArray[np.uint8]:
    """(n_items, height, width, 3), in the order of the file names, of which there are several in each text."""
    Image = layout.import_pillow()
    place = {name: row for row, name in enumerate(" ".join(filenames).split())}
    found: dict[int, NDArray[np.uint8]] = {}
    for name, content in read_members(path, place):
        with Image.open(io.BytesIO(content)) as picture:
            found[place[name]] = np.asarray(picture.convert("RGB"))
    missing = [name for name, row in place.items() if row not in found]
    if missing:
        raise _damaged(path, f"{len(missing)} of {len(place)} photographs are missing, the first is {missing[0]}")
    return np.stack([found[row] for row in range(len(place))])


def _damaged(path: Path, why: str) -> UnreadableFileError:
    return UnreadableFileError(f"{path} cannot be read: {why}. Delete it and fetch it again.")

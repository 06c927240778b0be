"""Data sets in the formats in which their authors publish them: IDX, CIFAR-10's binary records, LabelMe's archive."""

from __future__ import annotations

import gzip
import tarfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crowdprism.datasets.catalogue import DatasetEntry
from crowdprism.datasets.dataset import Dataset, DatasetReaders, Gold
from crowdprism.datasets.folder import flat_pixels, image_readers
from crowdprism.errors import UnreadableFileError

IDX_UNSIGNED_BYTES = 8  # the type code of the only kind of IDX file that these sets use
CIFAR_RECORD_BYTES = 1 + 3 * 32 * 32
CIFAR_BATCHES = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]


def original_dataset(entry: DatasetEntry, folder: Path) -> Dataset:
    """Open a data set from the public files that `fetch_dataset` put into `folder`."""
    if entry.name == "labelme":
        from crowdprism.datasets.labelme_archive import labelme_readers

        return Dataset(entry, str(folder), labelme_readers(entry, folder / entry.downloads[0].file))
    readers = _cifar10 if entry.name == "cifar10" else _idx_files
    return Dataset(entry, str(folder), readers(entry, folder))


def _idx_files(entry: DatasetEntry, folder: Path) -> DatasetReaders:
    def images() -> NDArray[np.uint8]:
        return np.concatenate([read_idx(folder / f"{part}-images-idx3-ubyte.gz") for part in ("train", "t10k")])

    def gold() -> Gold:
        labels = [read_idx(folder / f"{part}-labels-idx1-ubyte.gz") for part in ("train", "t10k")]
        return np.ma.MaskedArray(np.concatenate(labels).astype(np.int16))

    return image_readers(entry, images, gold, {"pixels": lambda: flat_pixels(images())})


def _cifar10(entry: DatasetEntry, folder: Path) -> DatasetReaders:
    @cache
    def records() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        return read_cifar10_binary(folder / entry.downloads[0].file)

    return image_readers(
        entry, lambda: records()[0], lambda: np.ma.MaskedArray(records()[1].astype(np.int16)), features={}
    )


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array of bytes in a gzipped IDX file, the format of MNIST.

    Two zero bytes, the type, the number of dimensions, each dimension as a big-endian 32-bit number, the values.
    """
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError) as error:
        raise _damaged(path, str(error)) from error
    if len(content) < 4 or content[:3] != bytes([0, 0, IDX_UNSIGNED_BYTES]):
        raise _damaged(path, "it does not begin as an IDX file of bytes")
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
    batches: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = Path(member.name).name
                opened = archive.extractfile(member) if name in CIFAR_BATCHES else None
                if opened is not None:
                    batches[name] = opened.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise _damaged(path, str(error)) from error
    missing = [name for name in CIFAR_BATCHES if name not in batches]
    if missing:
        raise _damaged(path, f"{len(missing)} of 6 batches are missing, the first is {missing[0]}")
    content = b"".join(batches[name] for name in CIFAR_BATCHES)
    if len(content) % CIFAR_RECORD_BYTES:
        raise _damaged(path, f"its batches hold {len(content)} bytes, not a multiple of {CIFAR_RECORD_BYTES}")
    records = np.frombuffer(content, np.uint8).reshape(-1, CIFAR_RECORD_BYTES)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0].copy()


def _damaged(path: Path, why: str) -> UnreadableFileError:
    return UnreadableFileError(f"{path} cannot be read: {why}. Delete it and fetch it again.")

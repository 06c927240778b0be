"""Data sets in the common folder layout: gzipped CSV and compressed NumPy archives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.datasets.catalogue import DatasetEntry
from crowdprism.datasets.dataset import Dataset, DatasetReaders, Gold
from crowdprism.datasets.mosaics import read_mosaics
from crowdprism.errors import MissingDatasetError, UnreadableFileError, some
from crowdprism.names import name_array

if TYPE_CHECKING:
    import polars as pl

SPLIT_ORDER = ("train", "valid", "test")
CIFAR10_FEATURES = "efficientnet_lite0_pca"
N_CIFAR10_TRAIN = 50_000


@dataclass(frozen=True)
class DatasetFolder:
    """The files of one data set in a folder, read when asked for."""

    entry: DatasetEntry
    path: Path

    def table(self, file: str) -> pl.DataFrame:
        """A gzipped CSV as a data frame."""
        import polars as pl

        try:
            rows = pl.read_csv(self.path / file)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise self.unreadable(file, error) from error
        if rows.columns[:1] != ["item"] or rows.width < 2:
            raise self.unreadable(file, ValueError(f"its first columns are {some(rows.columns)}, not item and another"))
        return rows

    def array(self, file: str, name: str) -> NDArray[Any]:
        """One array of an npz archive; half precision, which only saves room on disk, becomes float32."""
        import zipfile

        try:
            with np.load(self.path / file, allow_pickle=False) as archive:
                values: NDArray[Any] = archive[name]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise self.unreadable(file, error) from error
        return values.astype(np.float32) if values.dtype == np.float16 else values

    def unreadable(self, file: str, error: Exception) -> Exception:
        """The error for a file that is missing or damaged."""
        path = self.path / file
        if not path.exists():
            return MissingDatasetError(f"Data set {self.entry.name!r} lacks the file {path}. Copy it there.")
        return UnreadableFileError(f"{path} cannot be read ({error}). Copy the file again: it seems damaged.")

    @cached_property
    def annotation_rows(self) -> pl.DataFrame:
        """The columns item, annotator, label."""
        return self.table(next(file for file in self.entry.files if file.startswith("annotations")))

    @cached_property
    def item_names(self) -> NDArray[np.int64]:
        """Item ids in the order of rows: those of the split file, else those that were annotated."""
        if "split.csv.gz" in self.entry.files:
            return self.split_rows["item"].to_numpy()
        return np.unique(self.annotation_rows["item"].to_numpy())

    @cached_property
    def split_rows(self) -> pl.DataFrame:
        """The columns item and split, in the order of items."""
        return self.table("split.csv.gz").sort("item")

    def annotations(self) -> Annotations:
        """All annotations with gold, under the catalogue's class names."""
        rows, gold = self.annotation_rows, self.table("gold.csv.gz")
        codes = self.label_codes
        built = Annotations.from_triplets(
            rows["item"].to_numpy(),
            rows["annotator"].to_numpy(),
            rows["label"].to_numpy(),
            classes=codes,
            item_names=self.item_names.tolist(),
            gold=dict(zip(gold["item"].to_list(), gold["label"].to_list(), strict=True)),
        )
        return replace(built, classes=name_array(self.entry.classes))

    @property
    def label_codes(self) -> list[int]:
        """The whole numbers that stand for the classes in the files."""
        whole = all(isinstance(name, int) for name in self.entry.classes)
        return list(self.entry.classes) if whole else list(range(self.entry.n_classes))

    def gold(self) -> Gold:
        """True class codes of all items, masked where unknown."""
        from crowdprism.annotation_building import gold_codes

        rows = self.table("gold.csv.gz")
        given = dict(zip(rows["item"].to_list(), rows["label"].to_list(), strict=True))
        return gold_codes(given, name_array(self.item_names.tolist()), name_array(self.label_codes))

    def splits(self) -> Mapping[str, NDArray[np.int64]]:
        """Item positions by split."""
        if "split.csv.gz" not in self.entry.files:
            return {"train": np.arange(len(self.item_names))}
        split = self.split_rows["split"].to_numpy()
        return {name: np.flatnonzero(split == name) for name in SPLIT_ORDER if (split == name).any()}

    def texts(self) -> Mapping[str, list[str]]:
        """The columns of text."""
        rows = self.table("texts.csv.gz").sort("item")
        return {name: rows[name].to_list() for name in rows.columns if name != "item"}


def folder_dataset(entry: DatasetEntry, path: Path, *, cifar10: Callable[[], Dataset]) -> Dataset:
    """Open a data set in a folder of the common layout; `cifar10` opens the images that some sets refer to."""
    files = DatasetFolder(entry, path)
    readers = {"mnist": _image_archive, "fashion_mnist": _image_archive, "cifar10": _cifar10}.get(entry.name)
    if readers is not None:
        return Dataset(entry, str(path), readers(files))
    return Dataset(entry, str(path), _annotated(files, cifar10))


def _annotated(files: DatasetFolder, cifar10: Callable[[], Dataset]) -> DatasetReaders:
    entry = files.entry
    features = {name: partial(files.array, "features.npz", name) for name in entry.features}
    extras: dict[str, Any] = {}
    feature_items = images = None
    if entry.name == "rte":
        features["pair"] = lambda: np.hstack([features["text"](), features["hypothesis"]()])  # type: ignore[assignment]
    if entry.name == "movie_reviews":
        feature_items = partial(files.array, "features.npz", "items")
    if entry.name == "sentiment_polarity":
        extras["in_train"] = lambda: files.split_rows["in_train"].to_numpy()
    if entry.name.startswith("cifar10"):
        rows = _cifar10_rows(files)
        images = lambda: cifar10().images[rows()]  # noqa: E731
        features = {CIFAR10_FEATURES: lambda: cifar10().feature_set(CIFAR10_FEATURES)[rows()]}  # type: ignore[dict-item]
        extras = _cifar10_extras(files)
    return DatasetReaders(
        gold=files.gold,
        splits=files.splits,
        annotations=files.annotations,
        features=features,
        feature_items=feature_items,
        images=images,
        texts=files.texts if entry.texts else None,
        extras=extras,
    )


def _cifar10_rows(files: DatasetFolder) -> Callable[[], NDArray[np.int64]]:
    """Rows of the whole CIFAR-10 (training images first) that the items of a set refer to."""
    before = 0 if files.entry.name == "cifar10n" else N_CIFAR10_TRAIN
    return lambda: files.item_names + before


def _cifar10_extras(files: DatasetFolder) -> dict[str, Any]:
    archive = {"cifar10n": "extra_labels.npz", "cifar10h": "counts.npz"}.get(files.entry.name)
    if archive is not None:
        return {name: partial(files.array, archive, name) for name in files.entry.extras}
    return {name: lambda column=name: files.annotation_rows[column].to_numpy() for name in files.entry.extras}


def _image_archive(files: DatasetFolder) -> DatasetReaders:
    """MNIST and Fashion-MNIST: training images first, then test images."""

    def images() -> NDArray[np.uint8]:
        return np.concatenate([files.array("images.npz", f"{part}_images") for part in ("train", "test")])

    def gold() -> Gold:
        return np.ma.MaskedArray(
            np.concatenate([files.array("images.npz", f"{part}_labels") for part in ("train", "test")]).astype(np.int16)
        )

    return image_readers(files.entry, images, gold, {"pixels": lambda: flat_pixels(images())})


def _cifar10(files: DatasetFolder) -> DatasetReaders:
    def gold() -> Gold:
        return np.ma.MaskedArray(
            np.concatenate([files.array("labels.npz", f"{part}_labels") for part in ("train", "test")]).astype(np.int16)
        )

    def features() -> NDArray[np.float32]:
        return np.concatenate([files.array("features.npz", part) for part in ("train", "test")])

    mosaics = [files.path / f"train_{number}.jpg" for number in range(5)] + [files.path / "test.jpg"]
    return image_readers(files.entry, partial(read_mosaics, mosaics), gold, {CIFAR10_FEATURES: features})


def image_readers(
    entry: DatasetEntry,
    images: Callable[[], NDArray[np.uint8]],
    gold: Callable[[], Gold],
    features: Mapping[str, Callable[[], NDArray[Any]]],
) -> DatasetReaders:
    """Readers of a set of images without annotations whose splits follow one another."""
    ends = np.cumsum(list(entry.splits.values()))
    parts = {name: np.arange(end - size, end) for (name, size), end in zip(entry.splits.items(), ends, strict=True)}
    return DatasetReaders(gold=gold, splits=lambda: parts, features=features, images=images)


def flat_pixels(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(n_items, ...) of 0..255 -> (n_items, n_pixels) of 0..1."""
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)

"""Data sets in the common folder layout: gzipped CSV files, compressed NumPy archives and mosaics of images."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import name_array
from crowdprism.datasets.catalogue import DatasetEntry
from crowdprism.errors import MissingDatasetError, MissingDependencyError, UnreadableFileError, some

if TYPE_CHECKING:
    import polars as pl

    from crowdprism.datasets.dataset import Dataset

Reader = Callable[[], Any]
Gold = np.ma.MaskedArray[Any, Any]
Splits = Mapping[str, NDArray[np.int64]]
SPLIT_ORDER = ("train", "valid", "test")
CIFAR10_FEATURES = "efficientnet_lite0_pca"
N_CIFAR10_TRAIN = 50_000
TILES_PER_ROW, TILE_SIDE = 100, 32  # of a mosaic of CIFAR-10 images


@dataclass(frozen=True)
class DatasetReaders:
    """A function for each part of a data set; each reads its files when it is called."""

    gold: Callable[[], Gold]
    splits: Callable[[], Splits]
    annotations: Callable[[], Annotations] | None = None
    features: Mapping[str, Reader] = field(default_factory=dict)
    feature_items: Reader | None = None
    images: Reader | None = None
    texts: Reader | None = None
    extras: Mapping[str, Reader] = field(default_factory=dict)


@dataclass(frozen=True)
class DatasetFolder:
    entry: DatasetEntry
    path: Path

    def table(self, file: str) -> pl.DataFrame:
        import polars as pl

        try:
            rows = pl.read_csv(self.path / file)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise self.unreadable(file, error) from error
        if rows.columns[:1] != ["item"] or rows.width < 2:
            raise self.unreadable(file, ValueError(f"its first columns are {some(rows.columns)}, not item and another"))
        return rows

    def array(self, file: str, name: str) -> NDArray[Any]:
        """One array of an npz archive; half precision (which only saves disk space) becomes float32."""
        try:
            with np.load(self.path / file, allow_pickle=False) as archive:
                values: NDArray[Any] = archive[name]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise self.unreadable(file, error) from error
        return values.astype(np.float32) if values.dtype == np.float16 else values

    def unreadable(self, file: str, error: Exception) -> Exception:
        path = self.path / file
        if not path.exists():
            return MissingDatasetError(f"The file {path} of data set {self.entry.name!r} is missing. Copy it there.")
        return UnreadableFileError(f"{path} cannot be read ({error}). It seems damaged: copy it again.")

    @cached_property
    def annotation_rows(self) -> pl.DataFrame:
        return self.table(next(file for file in self.entry.files if file.startswith("annotations")))

    @cached_property
    def item_names(self) -> NDArray[np.int64]:
        """Item ids in the order of rows: those of the split file, else the annotated ones."""
        if "split.csv.gz" in self.entry.files:
            return self.split_rows["item"].to_numpy()
        return np.unique(self.annotation_rows["item"].to_numpy())

    @cached_property
    def split_rows(self) -> pl.DataFrame:
        return self.table("split.csv.gz").sort("item")

    @cached_property
    def annotations(self) -> Annotations:
        """All annotations with gold, with the catalogue's class names; the files hold whole numbers for classes."""
        rows, gold = self.annotation_rows, self.table("gold.csv.gz")
        whole = all(isinstance(name, int) for name in self.entry.classes)
        built = Annotations.from_triplets(
            rows["item"].to_numpy(),
            rows["annotator"].to_numpy(),
            rows["label"].to_numpy(),
            classes=self.entry.classes if whole else range(self.entry.n_classes),
            item_names=self.item_names.tolist(),
            gold=dict(zip(gold["item"].to_list(), gold["label"].to_list(), strict=True)),
        )
        return replace(built, classes=name_array(self.entry.classes))

    def gold(self) -> Gold:
        assert self.annotations.gold is not None
        return self.annotations.gold

    def splits(self) -> Splits:
        if "split.csv.gz" not in self.entry.files:
            return {"train": np.arange(len(self.item_names))}
        split = self.split_rows["split"].to_numpy()
        return {name: np.flatnonzero(split == name) for name in SPLIT_ORDER if (split == name).any()}

    def texts(self) -> Mapping[str, list[str]]:
        rows = self.table("texts.csv.gz").sort("item")
        return {name: rows[name].to_list() for name in rows.columns if name != "item"}


def folder_readers(entry: DatasetEntry, path: Path, *, cifar10: Callable[[], Dataset]) -> DatasetReaders:
    """Readers of a folder; `cifar10` opens the set whose images and features some other sets share."""
    files = DatasetFolder(entry, path)

    def train_and_test(file: str, name: str) -> NDArray[Any]:
        return np.concatenate([files.array(file, name.format(part)) for part in ("train", "test")])

    if entry.name == "cifar10":
        features = {CIFAR10_FEATURES: partial(train_and_test, "features.npz", "{}")}
        mosaics = [path / f"train_{number}.jpg" for number in range(5)] + [path / "test.jpg"]
        labels = partial(train_and_test, "labels.npz", "{}_labels")
        return image_readers(entry, partial(read_mosaics, mosaics), labels, features)
    if entry.name in ("mnist", "fashion_mnist"):
        images, labels = (partial(train_and_test, "images.npz", f"{{}}_{what}") for what in ("images", "labels"))
        return image_readers(entry, images, labels, {"pixels": lambda: flat_pixels(images())})
    return _annotated(files, cifar10)


def _annotated(files: DatasetFolder, cifar10: Callable[[], Dataset]) -> DatasetReaders:
    entry = files.entry
    features = {name: partial(files.array, "features.npz", name) for name in entry.features}
    extras: dict[str, Any] = {}
    images = None
    if entry.name == "rte":
        features["pair"] = lambda: np.hstack([features["text"](), features["hypothesis"]()])  # type: ignore[assignment]
    if entry.name == "sentiment_polarity":
        extras["in_train"] = lambda: files.split_rows["in_train"].to_numpy()
    if entry.name.startswith("cifar10"):  # item names are rows of the training (cifar10n) or the test images
        before = 0 if entry.name == "cifar10n" else N_CIFAR10_TRAIN
        images = lambda: cifar10().images[files.item_names + before]  # noqa: E731
        features = {CIFAR10_FEATURES: lambda: cifar10().features[files.item_names + before]}  # type: ignore[dict-item]
        archive = {"cifar10n": "extra_labels.npz", "cifar10h": "counts.npz"}.get(entry.name)
        if archive is not None:
            extras = {name: partial(files.array, archive, name) for name in entry.extras}
        else:
            extras = {name: lambda column=name: files.annotation_rows[column].to_numpy() for name in entry.extras}
    return DatasetReaders(
        gold=files.gold,
        splits=files.splits,
        annotations=lambda: files.annotations,
        features=features,
        feature_items=partial(files.array, "features.npz", "items") if entry.name == "movie_reviews" else None,
        images=images,
        texts=files.texts if entry.texts else None,
        extras=extras,
    )


def image_readers(
    entry: DatasetEntry, images: Reader, labels: Reader, features: Mapping[str, Reader]
) -> DatasetReaders:
    """Readers of a set of images without annotations whose splits follow one another."""
    splits = partial(consecutive_splits, entry.splits)
    return DatasetReaders(lambda: complete_gold(labels()), splits, features=features, images=images)


def complete_gold(labels: NDArray[Any]) -> Gold:
    return np.ma.MaskedArray(labels.astype(np.int16))


def consecutive_splits(sizes: Mapping[str, int]) -> Splits:
    """Item positions of splits that follow one another."""
    ends = np.cumsum(list(sizes.values()))
    return dict(zip(sizes, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))


def flat_pixels(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(n_items, ...) of 0..255 -> (n_items, n_pixels) of 0..1."""
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def read_mosaics(paths: Sequence[Path]) -> NDArray[np.uint8]:
    """(n_items, 32, 32, 3) from JPEG mosaics of 100 x 100 images, row by row, one mosaic after the other."""
    Image = import_pillow("pip install pillow, or fetch the exact images: crowdprism datasets fetch cifar10")
    found = []
    for path in paths:
        try:
            with Image.open(path, formats=("JPEG",)) as picture:
                grid = np.asarray(picture).reshape(TILES_PER_ROW, TILE_SIDE, TILES_PER_ROW, TILE_SIDE, 3)
        except (OSError, ValueError) as error:
            raise UnreadableFileError(f"{path} cannot be read ({error}). Copy the file again.") from error
        found.append(grid.transpose(0, 2, 1, 3, 4).reshape(-1, TILE_SIDE, TILE_SIDE, 3))
    return np.concatenate(found)


def import_pillow(remedy: str = "pip install pillow") -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(f"Images need Pillow: {remedy}") from error
    return Image

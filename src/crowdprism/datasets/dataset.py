"""`Dataset` and `load_dataset`: features, annotations, true classes and splits of a data set by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.datasets import folder as layout
from crowdprism.datasets.catalogue import DatasetEntry, checksum, fetch_file, find_entry
from crowdprism.datasets.folder import DatasetReaders, Gold, Reader, Splits
from crowdprism.datasets.original_formats import original_readers
from crowdprism.errors import InvalidParameterError, MissingDatasetError
from crowdprism.files import CACHE_VARIABLE, DATA_VARIABLE, cache_folder, data_folder
from crowdprism.seeding import stream
from crowdprism.simulate import demo_crowd, one_coin, pair_flip, per_item, simulate_annotations, spammers
from crowdprism.simulate.confusions import Confusions
from crowdprism.simulate.families import LABELS_PER_ITEM

SEED = 0  # an embedded set is the same for everyone
CENTRE_DISTANCE = 2.2  # clouds overlap: the best possible classifier has an accuracy of 86 %
N_DIMENSIONS = 8


def _digits(entry: DatasetEntry) -> DatasetReaders:
    """Training digits first, with the split and the crowd of `crowdprism demo` with seed 0."""

    @cache
    def ordered() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        pixels, digits = load_digits(return_X_y=True)
        everything, n_test = np.arange(len(digits)), entry.splits["test"]
        order = np.concatenate(train_test_split(everything, test_size=n_test, random_state=SEED, stratify=digits))
        return pixels[order], digits[order].astype(np.int64)

    def annotations() -> Annotations:
        crowd = demo_crowd(entry.n_classes, SEED)
        pairs = per_item(entry.splits["train"], len(crowd.names), labels=LABELS_PER_ITEM, seed=SEED)
        return simulate_annotations(ordered()[1], crowd.confusions, pairs, seed=SEED, annotators=crowd.names)

    return DatasetReaders(
        gold=lambda: layout.complete_gold(ordered()[1]),
        splits=lambda: layout.consecutive_splits(entry.splits),
        annotations=annotations,
        features={"pixels": lambda: (ordered()[0] / ordered()[0].max()).astype(np.float32)},
        images=lambda: np.round(ordered()[0] * (255 / ordered()[0].max())).astype(np.uint8).reshape(-1, 8, 8),
    )


def _simulated(entry: DatasetEntry) -> DatasetReaders:
    def truth() -> NDArray[np.int64]:
        return stream(SEED, "simulated truth").permutation(np.arange(entry.n_items) % entry.n_classes)

    def coordinates() -> NDArray[np.float32]:
        random = stream(SEED, "simulated coordinates")
        centres = CENTRE_DISTANCE * np.eye(entry.n_classes, N_DIMENSIONS)
        return (centres[truth()] + random.normal(size=(entry.n_items, N_DIMENSIONS))).astype(np.float32)

    def annotations() -> Annotations:
        pairs = per_item(entry.splits["train"], entry.n_annotators, labels=2, seed=SEED)
        return simulate_annotations(truth(), simulated_crowd(), pairs, seed=SEED, classes=entry.classes)

    return DatasetReaders(
        gold=lambda: layout.complete_gold(truth()),
        splits=lambda: layout.consecutive_splits(entry.splits),
        annotations=annotations,
        features={"coordinates": coordinates},
        extras={"confusions": simulated_crowd},
    )


def simulated_crowd() -> Confusions:
    """Two experts, six annotators of medium skill, two who flip classes and two spammers, for four classes."""
    one_coins = one_coin([0.95, 0.9, *np.linspace(0.5, 0.75, 6)], 4)
    return np.concatenate([one_coins, pair_flip(2, 4, flip=0.4), spammers(2, 4)])


@dataclass(frozen=True)
class DatasetPart:
    """One split of a data set, row by row: `items[i]` is the position of row i in the whole set."""

    features: NDArray[Any]
    annotations: Annotations | None
    gold: Gold
    items: NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Dataset:
    """A data set; its arrays are read on first use, and row i of each belongs to item i.

    Attributes
    ----------
    entry
        Record of the catalogue: sizes, licence, citation.
    where
        Folder of the files.

    Examples
    --------
    >>> from crowdprism import load_dataset
    >>> digits = load_dataset("digits")
    >>> digits
    Dataset('digits': 1797 items, 10 classes; 4041 annotations by 40 annotators; train 1347, test 450)
    >>> digits.features.shape, len(digits.splits["train"])
    ((1797, 64), 1347)
    """

    entry: DatasetEntry
    where: str
    readers: DatasetReaders

    @property
    def name(self) -> str:
        """Name in the catalogue."""
        return self.entry.name

    @property
    def classes(self) -> tuple[Any, ...]:
        """Class names; gold holds positions in them."""
        return self.entry.classes

    @property
    def n_items(self) -> int:
        """Number of items, annotated or not."""
        return self.entry.n_items

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.entry.n_classes

    @property
    def feature_sets(self) -> tuple[str, ...]:
        """Names of the feature sets; the first is the default."""
        return tuple(self.readers.features)

    @cached_property
    def annotations(self) -> Annotations:
        """Annotations of all items, with gold; items that nobody labelled have none."""
        if self.readers.annotations is None:
            raise InvalidParameterError(
                f"Data set {self.name!r} has no human annotations. "
                "Let a crowd of crowdprism.simulate label it, for example with machine_annotations."
            )
        return self.readers.annotations()

    @property
    def has_annotations(self) -> bool:
        """Whether people (or a simulated crowd) labelled the items."""
        return self.readers.annotations is not None

    @cached_property
    def gold(self) -> Gold:
        """(n_items,) positions of the true classes in `classes`, masked where unknown."""
        return self.readers.gold()

    @cached_property
    def splits(self) -> Splits:
        """Item positions by split: train, and valid and test if the source has them; without splits, all are train."""
        return self.readers.splits()

    @cached_property
    def features(self) -> NDArray[Any]:
        """(n_items, n_features) of the default feature set."""
        return np.asarray(self._read("features", next(iter(self.readers.features.values()), None)))

    @cached_property
    def feature_items(self) -> NDArray[np.int64]:
        """Positions of the items that the rows of `features` belong to: all items, except in movie_reviews."""
        if self.readers.feature_items is None:
            return np.arange(self.n_items)
        return np.asarray(self.readers.feature_items(), dtype=np.int64)

    def feature_set(self, name: str) -> NDArray[Any]:
        """Features by the name of their set; read again on each call."""
        return np.asarray(self._named(self.readers.features, name, "feature set")())

    @cached_property
    def images(self) -> NDArray[np.uint8]:
        """(n_items, height, width) or (n_items, height, width, 3), 0..255."""
        return np.asarray(self._read("images", self.readers.images))

    @cached_property
    def texts(self) -> Mapping[str, list[str]]:
        """Columns of text, one entry for each of `feature_items`."""
        return dict(self._read("texts", self.readers.texts))

    def extra(self, name: str) -> NDArray[Any]:
        """Another array of the source by name, as described in the catalogue's remarks."""
        return np.asarray(self._named(self.readers.extras, name, "extra")())

    def part(self, split: str, *, features: str | None = None) -> DatasetPart:
        """Features, annotations and gold of one split, row by row, without the items that have no features.

        Parameters
        ----------
        split
            `"train"`, `"valid"` or `"test"`, if the set has it.
        features
            Name of a feature set, or `"images"`; by default the first feature set.

        Examples
        --------
        >>> from crowdprism import load_dataset
        >>> train = load_dataset("digits").part("train")
        >>> train.features.shape, train.annotations.n_items
        ((1347, 64), 1347)
        """
        wanted = self._named(self.splits, split, "split")
        if features == "images":
            values, described = self.images, np.arange(self.n_items)
        else:
            values = self.features if features is None else self.feature_set(features)
            described = self.feature_items
        row_of_item = np.full(self.n_items, -1)
        row_of_item[described] = np.arange(len(described))
        items = wanted[row_of_item[wanted] >= 0]
        annotations = self.annotations[items] if self.has_annotations else None
        return DatasetPart(values[row_of_item[items]], annotations, self.gold[items], items)

    def _named(self, parts: Mapping[str, Any], name: str, role: str) -> Any:
        if name not in parts:
            has = ", ".join(parts) or "none"
            raise InvalidParameterError(f"Data set {self.name!r} has no {role} {name!r}; it has {has}.")
        return parts[name]

    def _read(self, part: str, reader: Reader | None) -> Any:
        if reader is not None:
            return reader()
        offered = {"images": self.readers.images, "texts": self.readers.texts}
        has = [*self.feature_sets, *(name for name, there in offered.items() if there is not None)]
        raise InvalidParameterError(
            f"Data set {self.name!r} (from {self.where}) has no {part}; "
            f"it has {', '.join(has) or 'annotations and true classes only'}."
        )

    def __repr__(self) -> str:
        sizes = f"{self.n_items} items, {self.n_classes} classes"
        if self.has_annotations:
            sizes += f"; {self.entry.n_annotations} annotations by {self.entry.n_annotators} annotators"
        splits = ", ".join(f"{split} {size}" for split, size in self.entry.splits.items())
        return f"Dataset({self.name!r}: {sizes}; {splits})"


def load_dataset(name: str, *, fetch: bool = True) -> Dataset:
    """Open a data set of the catalogue by name.

    The files are looked for in the folder named by `CROWDPRISM_DATA`, then in the cache (`CROWDPRISM_CACHE`, by default
    the platform's cache folder); if they are in neither, they are downloaded if possible.

    Parameters
    ----------
    name
        One of the names listed by `crowdprism datasets`.
    fetch
        Whether to download a set that is not on this computer.

    Examples
    --------
    >>> simulated = load_dataset("simulated")
    >>> simulated.annotations
    Annotations(1,200 annotations of 1,200 items by 12 annotators, 4 classes: 'north', 'east', 'south', ... (4 in all))
    >>> {split: len(items) for split, items in simulated.splits.items()}
    {'train': 600, 'valid': 200, 'test': 400}
    """
    entry = find_entry(name)
    if entry.kind == "embedded":
        return Dataset(entry, "crowdprism itself", _digits(entry) if entry.name == "digits" else _simulated(entry))
    folder = files_in_data_folder(entry)
    if folder is not None:
        cifar10 = partial(load_dataset, "cifar10", fetch=fetch)
        return Dataset(entry, str(folder), layout.folder_readers(entry, folder, cifar10=cifar10))
    if files_in_cache(entry) is None and not (fetch and entry.can_be_fetched):
        raise MissingDatasetError(how_to_get(entry))
    folder = fetch_dataset(name)
    return Dataset(entry, str(folder), original_readers(entry, folder))


def fetch_dataset(name: str) -> Path:
    """Download the public files of a data set that are not in the cache yet, and return their folder.

    The next call resumes an interrupted download; a file with a wrong checksum is not kept.
    """
    entry = find_entry(name)
    if entry.kind == "embedded":
        raise InvalidParameterError(f"Data set {entry.name!r} comes with crowdprism; there is nothing to fetch.")
    if not entry.can_be_fetched:
        raise MissingDatasetError(how_to_get(entry))
    folder = cache_folder() / entry.name
    for file in entry.downloads:
        fetch_file(file, folder)
    return folder


def files_in_data_folder(entry: DatasetEntry) -> Path | None:
    """The set's folder under `CROWDPRISM_DATA`, or None; a folder with missing files is an error."""
    root = data_folder()
    if root is None or not (root / entry.folder).is_dir():
        return None
    folder = root / entry.folder
    missing = [file for file in entry.files if not (folder / file).is_file()]
    if missing:
        raise MissingDatasetError(
            f"{len(missing)} of the {len(entry.files)} files of data set {entry.name!r} are not in {folder}; "
            f"the first is {missing[0]}. Complete the folder, or remove it to use another copy."
        )
    return folder


def files_in_cache(entry: DatasetEntry) -> Path | None:
    folder = cache_folder() / entry.name
    complete = entry.can_be_fetched and all((folder / one.file).is_file() for one in entry.downloads)
    return folder if complete else None


def how_to_get(entry: DatasetEntry) -> str:
    root = data_folder()
    looked = f"{root / entry.folder}" if root else f"no folder, as {DATA_VARIABLE} is not set"
    remedy = (
        f"Fetch it with: crowdprism datasets fetch {entry.name}"
        if entry.can_be_fetched
        else f"It cannot be fetched automatically. Origin: {entry.origin}. Put {', '.join(entry.files)} into "
        f"the folder {entry.folder} of a data folder and set {DATA_VARIABLE} to that data folder."
    )
    return (
        f"Data set {entry.name!r} was not found. Looked in {looked}, and in {cache_folder() / entry.name} "
        f"({CACHE_VARIABLE}).\n{remedy}"
    )


def damaged_files(entry: DatasetEntry, folder: Path) -> list[str]:
    """Names of the files whose SHA-256 differs from the catalogue's."""
    return [file for file, expected in entry.files.items() if checksum(folder / file) != f"sha256:{expected}"]

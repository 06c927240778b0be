"""`Dataset`: features, annotations, true classes and splits of one data set, each read when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.datasets.catalogue import DatasetEntry
from crowdprism.errors import InvalidParameterError

Reader = Callable[[], Any]
Gold = np.ma.MaskedArray[Any, Any]


@dataclass(frozen=True)
class DatasetReaders:
    """How each part of a data set is read; nothing is read before it is asked for."""

    gold: Callable[[], Gold]
    splits: Callable[[], Mapping[str, NDArray[np.int64]]]
    annotations: Callable[[], Annotations] | None = None
    features: Mapping[str, Reader] = field(default_factory=dict)
    feature_items: Reader | None = None
    images: Reader | None = None
    texts: Reader | None = None
    extras: Mapping[str, Reader] = field(default_factory=dict)


@dataclass(frozen=True)
class DatasetPart:
    """One split of a data set, row by row: `items[i]` is the position of row i in the whole set."""

    features: NDArray[Any]
    annotations: Annotations | None
    gold: Gold
    items: NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Dataset:
    """A data set whose arrays are read when first asked for; row i of each belongs to item i.

    Attributes
    ----------
    entry
        What the catalogue knows: sizes, licence, citation.
    where
        Where the files were found.

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
        """Tell whether people (or a simulated crowd) labelled the items."""
        return self.readers.annotations is not None

    @cached_property
    def gold(self) -> Gold:
        """(n_items,) positions of the true classes in `classes`, masked where unknown."""
        return self.readers.gold()

    @cached_property
    def splits(self) -> Mapping[str, NDArray[np.int64]]:
        """Item positions by split: train, and valid and test where the source has them.

        Where the source defines no split, all items are `train`.
        """
        return self.readers.splits()

    @cached_property
    def features(self) -> NDArray[Any]:
        """(n_items, n_features) of the default feature set."""
        if not self.feature_sets:
            raise InvalidParameterError(self._absent("features"))
        return self.feature_set(self.feature_sets[0])

    @cached_property
    def feature_items(self) -> NDArray[np.int64]:
        """Positions of the items that the rows of `features` belong to: all, but for sets that say otherwise."""
        if self.readers.feature_items is None:
            return np.arange(self.n_items)
        return np.asarray(self.readers.feature_items(), dtype=np.int64)

    def feature_set(self, name: str) -> NDArray[Any]:
        """Features by the name of their set; read anew on each call."""
        if name not in self.readers.features:
            offered = ", ".join(self.feature_sets) or "none"
            raise InvalidParameterError(f"Data set {self.name!r} has no feature set {name!r}; it has {offered}.")
        return np.asarray(self.readers.features[name]())

    @cached_property
    def images(self) -> NDArray[np.uint8]:
        """(n_items, height, width) or (n_items, height, width, 3), 0..255."""
        if self.readers.images is None:
            raise InvalidParameterError(self._absent("images"))
        return np.asarray(self.readers.images())

    @cached_property
    def texts(self) -> Mapping[str, list[str]]:
        """Columns of text, one entry for each of `feature_items`."""
        if self.readers.texts is None:
            raise InvalidParameterError(self._absent("texts"))
        columns: Mapping[str, list[str]] = self.readers.texts()
        return columns

    def extra(self, name: str) -> NDArray[Any]:
        """A further array of the source by name, as the catalogue's remarks describe it."""
        if name not in self.readers.extras:
            offered = ", ".join(self.readers.extras) or "none"
            raise InvalidParameterError(f"Data set {self.name!r} has no extra {name!r}; it has {offered}.")
        return np.asarray(self.readers.extras[name]())

    def part(self, split: str, *, features: str | None = None) -> DatasetPart:
        """Features, annotations and gold of one split, row by row; items without features are left out.

        Parameters
        ----------
        split
            `"train"`, `"valid"` or `"test"`, as far as the set has them.
        features
            Name of a feature set, or `"images"`; the default feature set where not given.

        Examples
        --------
        >>> from crowdprism import load_dataset
        >>> train = load_dataset("digits").part("train")
        >>> train.features.shape, train.annotations.n_items
        ((1347, 64), 1347)
        """
        if split not in self.splits:
            raise InvalidParameterError(
                f"Data set {self.name!r} has no split {split!r}; it has {', '.join(self.splits)}."
            )
        rows_of_items = np.full(self.n_items, -1)
        if features == "images":
            values = self.images
            rows_of_items[:] = np.arange(self.n_items)
        else:
            values = self.features if features is None else self.feature_set(features)
            rows_of_items[self.feature_items] = np.arange(len(self.feature_items))
        items = self.splits[split][rows_of_items[self.splits[split]] >= 0]
        annotations = self.annotations[items] if self.has_annotations else None
        return DatasetPart(values[rows_of_items[items]], annotations, self.gold[items], items)

    def _absent(self, part: str) -> str:
        offered = [*self.feature_sets]
        offered += ["images"] if self.readers.images is not None else []
        offered += ["texts"] if self.readers.texts is not None else []
        told = f"it has {', '.join(offered)}" if offered else "it holds annotations and true classes only"
        return f"Data set {self.name!r} (from {self.where}) has no {part}; {told}."

    def __repr__(self) -> str:
        people = (
            f"; {self.entry.n_annotations} annotations by {self.entry.n_annotators} annotators"
            if self.has_annotations
            else ""
        )
        parts = ", ".join(f"{split} {size}" for split, size in self.entry.splits.items())
        return f"Dataset({self.name!r}: {self.n_items} items, {self.n_classes} classes{people}; {parts})"

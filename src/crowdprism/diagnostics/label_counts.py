"""How often each label was given to each item, for items that two annotations or more can be compared on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import sums_by
from crowdprism.errors import UnsuitableDataError

COUNT_CELLS_PER_ANNOTATION = 8  # up to this many possible cells per annotation, counting all beats sorting keys


@dataclass(frozen=True)
class LabelCounts:
    """Non-zero counts of (item, label) over items with at least two annotations.

    Attributes
    ----------
    item, label, count
        (n_cells,) codes and number of annotations, sorted by item.
    per_item
        (n_items,) annotations of each item, 0 where it has fewer than two.
    n_classes
        Number of classes.
    """

    item: NDArray[np.int64]
    label: NDArray[np.int64]
    count: NDArray[np.int64]
    per_item: NDArray[np.int64]
    n_classes: int

    @property
    def per_label(self) -> NDArray[np.float64]:
        """(n_classes,) annotations with each label, on these items."""
        return sums_by(self.label, self.count, self.n_classes)

    @property
    def n_annotations(self) -> int:
        """Annotations on these items."""
        return int(self.per_item.sum())

    @property
    def shared(self) -> NDArray[np.bool_]:
        """(n_items,) whether an item has two annotations or more."""
        return self.per_item > 1


def beyond_chance(observed: Any, expected: Any) -> Any:
    """(observed - expected) / (1 - expected), NaN where chance alone already agrees always."""
    room = 1 - np.asarray(expected, dtype=np.float64)
    possible = room > 1e-12
    return np.where(possible, (observed - expected) / np.where(possible, room, 1.0), np.nan)[()]


def cells_by_item(annotations: Annotations) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Keys item * n_classes + label that occur, sorted, and how often each does."""
    key = annotations.item.astype(np.int64) * annotations.n_classes + annotations.label
    n_keys = annotations.n_items * annotations.n_classes
    if n_keys <= COUNT_CELLS_PER_ANNOTATION * annotations.n_annotations:
        counts = np.bincount(key, minlength=n_keys)
        occurring = np.flatnonzero(counts)
        return occurring, counts[occurring]
    occurring, counts = np.unique(key, return_counts=True)
    return occurring, counts


def label_counts(annotations: Annotations) -> LabelCounts:
    """Count labels per item, for items with two annotations or more; repeats by one annotator count each.

    Examples
    --------
    >>> counts = label_counts(Annotations.from_dense([[0, 0, 1], [1, -1, -1]]))
    >>> counts.label.tolist(), counts.count.tolist()
    ([0, 1], [2, 1])
    """
    key, count = cells_by_item(annotations)
    item, label = key // annotations.n_classes, key % annotations.n_classes
    per_item = np.where(annotations.labels_per_item > 1, annotations.labels_per_item, 0)
    if not per_item.any():
        raise UnsuitableDataError(
            f"None of the {annotations.n_items} items has two annotations, so agreement cannot be measured. "
            "Let a second annotator label some of the items."
        )
    kept = per_item[item] > 0
    return LabelCounts(item[kept], label[kept], count[kept], per_item, annotations.n_classes)

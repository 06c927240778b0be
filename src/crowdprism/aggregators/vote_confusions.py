"""Confusion matrices against the answers of a method that has none of its own, where they fit in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.cells import MAX_TABLE_BYTES
from crowdprism.annotations import Annotations
from crowdprism.results.confusion import confusion_counts, normalize_rows

NO_ROOM = "Full confusion matrices would not fit in memory; skills tell annotators apart."


def confusions_fit(n_annotators: int, n_classes: int) -> bool:
    """Whether a (n_annotators, true class, given label) table stays within the limit of all methods."""
    return 8 * n_annotators * n_classes**2 <= MAX_TABLE_BYTES


def confusions_against(annotations: Annotations, class_probabilities: NDArray[Any]) -> NDArray[np.float64] | None:
    """Each annotator's confusions against class probabilities, or None where they would not fit in memory.

    Examples
    --------
    >>> confusions_against(Annotations.from_dense([[0], [1]]), np.eye(2))[0].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not confusions_fit(annotations.n_annotators, annotations.n_classes):
        return None
    return np.asarray(normalize_rows(confusion_counts(annotations, class_probabilities)), dtype=np.float64)

"""How near the crowd comes to class specialists, and the items to anchors (Ibrahim, Nguyen and Fu 2023, section 3).

A class specialist says a label if and only if its class is the true one; an anchor is an item that surely belongs to
one class. Both distances are zero in the ideal case and bound the error of what is learned (their Theorem 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Nearest:
    """The annotator or item nearest to the ideal of each class.

    Attributes
    ----------
    distance
        (n_classes,) Euclidean distance of the nearest one.
    who
        (n_classes,) its position.
    label
        (n_classes,) the given label that stands for the class under the best assignment; for items the class itself.
    """

    distance: FloatArray
    who: NDArray[np.int64]
    label: NDArray[np.int64]

    @property
    def largest(self) -> float:
        """The distance of the worst served class: xi_1 for annotators, xi_2 for items."""
        return float(self.distance.max())


def nearest_specialists(confusions: Any, *, any_order: bool = True) -> Nearest:
    """For each true class the annotator whose use of a label comes nearest to "if and only if this class".

    Parameters
    ----------
    confusions
        (n_annotators, true class, given label).
    any_order
        Let each class be claimed by any one label, by the assignment with the smallest largest distance: learned
        classes may stand in another order than the labels. Otherwise class k belongs to label k.

    Examples
    --------
    >>> nearest_specialists(np.eye(3)[None]).largest
    0.0
    >>> round(nearest_specialists(np.full((5, 10, 10), 0.1)).largest, 3)
    0.949
    """
    table = np.asarray(confusions, dtype=float)
    n_classes = table.shape[1]
    # |column - e_k|^2 = |column|^2 - 2 column_k + 1, for the column of a label over true classes
    squared = np.square(table).sum(axis=1)[:, None, :] - 2 * table + 1.0  # (annotator, class, label)
    who = squared.argmin(axis=0)
    nearest = np.sqrt(np.maximum(np.take_along_axis(squared, who[None], axis=0)[0], 0.0))
    label = bottleneck_assignment(nearest) if any_order else np.arange(n_classes)
    place = np.arange(n_classes)
    return Nearest(nearest[place, label], who[place, label], label)


def nearest_anchors(class_probabilities: Any) -> Nearest:
    """For each class the item whose class probabilities come nearest to certainty of it.

    Reordering the classes reorders the distances, so no assignment is needed.

    Examples
    --------
    >>> nearest_anchors([[1.0, 0.0], [0.2, 0.8]]).distance.round(3).tolist()
    [0.0, 0.283]
    """
    table = np.asarray(class_probabilities, dtype=float)
    squared = np.square(table).sum(axis=1, keepdims=True) - 2 * table + 1.0
    who = squared.argmin(axis=0)
    place = np.arange(table.shape[1])
    return Nearest(np.sqrt(np.maximum(squared[who, place], 0.0)), who, place)


def bottleneck_assignment(cost: Any) -> NDArray[np.int64]:
    """Column for each row of a square table such that the largest chosen entry is smallest; then the sum.

    Examples
    --------
    >>> bottleneck_assignment([[0.0, 5.0], [5.0, 9.0]]).tolist()
    [1, 0]
    """
    from scipy.optimize import linear_sum_assignment

    table = np.asarray(cost, dtype=float)
    levels = np.unique(table)
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        rows, columns = linear_sum_assignment(table > levels[middle])
        low, high = (low, middle) if not (table > levels[middle])[rows, columns].any() else (middle + 1, high)
    forbidden = 1.0 + table.sum()
    chosen: NDArray[np.int64] = linear_sum_assignment(np.where(table > levels[low], forbidden, table))[1]
    return chosen

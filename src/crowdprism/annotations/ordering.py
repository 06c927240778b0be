"""Whether classes have an order, and the number that each stands for."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from crowdprism.annotations.container import Annotations


def class_scores(annotations: Annotations) -> NDArray[np.float64] | None:
    """(n_classes,) the number of each class: itself, or its place from 1 if an order was given; None without an order.

    Two numbers, such as 0 and 1, are names and no scale unless an order was given.
    """
    names = annotations.classes.tolist()
    if all(isinstance(name, (int, float)) and not isinstance(name, bool) for name in names):
        rising = all(one < other for one, other in pairwise(names))
        if rising and (len(names) > 2 or annotations.classes_ordered):
            return np.array(names, dtype=np.float64)
    return np.arange(1.0, len(names) + 1) if annotations.classes_ordered else None

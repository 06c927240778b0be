"""Annotations: who gave which label to which item; building, checking, selecting and counting them."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdprism.annotations.container import Annotations
from crowdprism.annotations.frames import annotations_of_frame, is_frame
from crowdprism.errors import InvalidAnnotationsError

__all__ = ["Annotations", "as_annotations"]


def as_annotations(y: Any) -> Annotations:
    """Accept what users pass as `y`: `Annotations`, a long frame, or a table items x annotators with -1 for none.

    Examples
    --------
    >>> as_annotations([[0, -1], [1, 1]]).n_annotations
    3
    """
    if isinstance(y, Annotations):
        return y
    if is_frame(y):
        return annotations_of_frame(Annotations, y)
    shape = np.shape(y)
    if len(shape) != 2:
        raise InvalidAnnotationsError(
            "Annotations must be an Annotations object or a 2-D array (items x annotators, -1 for none), not "
            f"{type(y).__name__} of shape {shape}. Build one with Annotations.from_triplets(items, annotators, labels)."
        )
    return Annotations.from_dense(y)

"""True classes by item, from whatever form they come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdprism.annotations.gold import gold_columns
from crowdprism.annotations.names import NameArray, is_missing, plain, positions
from crowdprism.errors import InvalidParameterError


def classes_by_item(items: NameArray, gold: Any) -> dict[Any, Any]:
    """True class by item name, of a mapping, series, frame, pairs, or an array in the order of the items.

    Unknown classes (None, NaN, masked) are left out. A series or frame whose index or ids are no items is taken in the
    order of the items if it is as long.

    Examples
    --------
    >>> from crowdprism.annotations.names import name_array
    >>> classes_by_item(name_array(["x", "y"]), np.array(["cat", "dog"]))
    {'x': 'cat', 'y': 'dog'}
    """
    if in_order(gold):
        labels = np.ma.asarray(gold).tolist() if isinstance(gold, np.ndarray) else list(gold)
        names: list[Any] = items.tolist()
        if len(labels) != len(names):
            raise InvalidParameterError(
                f"The gold has {len(labels)} entries for {len(names)} items. Pass one per item, or a mapping from item "
                "to class.",
                parameter="gold",
            )
    else:
        names, labels = gold_columns(gold)
        if len(names) == len(items) and not (positions(items, [plain(name) for name in names]) >= 0).any():
            names = items.tolist()  # an index that only counts rows
    return {plain(name): plain(label) for name, label in zip(names, labels, strict=True) if not is_missing(label)}


def in_order(gold: Any) -> bool:
    """Tell whether these are classes alone: an array, list or polars series of them, not pairs."""
    if isinstance(gold, Mapping) or hasattr(gold, "columns") or (hasattr(gold, "index") and hasattr(gold, "items")):
        return False
    if isinstance(gold, (list, tuple)):
        return not any(isinstance(entry, (list, tuple)) for entry in gold)
    return np.ndim(gold) == 1

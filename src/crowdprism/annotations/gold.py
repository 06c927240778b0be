"""True classes from a mapping, a series, a frame, pairs or an array."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations.building import gold_by_item, gold_codes
from crowdprism.annotations.checks import check_known, require
from crowdprism.annotations.frames import columns_of_frame
from crowdprism.annotations.names import NameArray, is_missing, plain, positions
from crowdprism.errors import AlignmentWarning, InvalidAnnotationsError, InvalidParameterError, some

if TYPE_CHECKING:
    from crowdprism.annotations.container import Annotations

LABEL_COLUMNS = ("gold", "label", "answer")  # of a frame, the first that it has


def known_classes(annotations: Annotations) -> NDArray[np.int32] | None:
    """(n_items,) true class of each item, -1 where it is unknown; None without any gold."""
    if annotations.gold is None or not annotations.gold.count():
        return None
    return np.where(np.ma.getmaskarray(annotations.gold), -1, annotations.gold.data).astype(np.int32)


def with_gold(annotations: Annotations, gold: Any) -> Annotations:
    if gold is None:
        return replace(annotations, gold=None)
    items, labels = gold_columns(gold)
    known = [(plain(item), plain(label)) for item, label in zip(items, labels, strict=True) if not is_missing(label)]
    if not known:
        raise InvalidAnnotationsError("The gold is empty: no item has a label.", parameter="gold")
    items, labels = map(list, zip(*known, strict=True))
    require_some_known(items, annotations)
    codes, place_of = positions(annotations.classes, labels), (lambda row: f"for item {items[row]!r}")
    remedy = "Correct them. On reading, {fold_classes:True} joins spellings, and {classes} adds classes."
    require([check_known(codes, labels, annotations.classes, "gold label", place=place_of, remedy=remedy)])
    before = annotations.gold_by_name()
    merged = gold_by_item([*before, *items], [*before.values(), *labels])
    return replace(annotations, gold=gold_codes(merged, annotations.items, annotations.classes))


def gold_columns(gold: Any) -> tuple[list[Any], list[Any]]:
    """Items and labels of a mapping, a pandas series, a frame with two such columns, or pairs."""
    if isinstance(gold, Mapping):
        return list(gold), list(gold.values())
    if hasattr(gold, "index") and hasattr(gold, "items") and not hasattr(gold, "columns"):  # a pandas series
        return list(gold.index), list(gold)
    if hasattr(gold, "columns"):
        names = [str(name) for name in getattr(gold, "column_names", gold.columns)]  # pyarrow lists columns, not names
        label = next((name for name in LABEL_COLUMNS if name in names), None)
        if "item" not in names or label is None:
            raise InvalidAnnotationsError(
                f"A frame of gold has the columns item and {' or '.join(LABEL_COLUMNS)}; this one has "
                f"{some(names, 10)}. Rename its columns, or pass a mapping from item to class."
            )
        columns, _ = columns_of_frame(gold, {"item": "item", "label": label})
        return list(columns["item"]), list(columns["label"])
    pairs = [tuple(pair) for pair in (gold.tolist() if isinstance(gold, np.ndarray) else gold)]
    odd = next((row for row, pair in enumerate(pairs) if len(pair) != 2), None)
    if odd is not None:
        raise InvalidAnnotationsError(f"Gold is given as pairs (item, class); row {odd} is {pairs[odd]!r}.")
    return [item for item, _ in pairs], [label for _, label in pairs]


def require_some_known(items: list[Any], annotations: Annotations) -> None:
    """Count gold of items that nobody annotated: a warning for some, an error for all."""
    unknown = [item for item, at in zip(items, positions(annotations.items, items), strict=True) if at < 0]
    if len(unknown) == len(items):
        raise InvalidAnnotationsError(
            f"None of the {len(items)} gold items is among the {annotations.n_items} items. Gold looks like "
            f"{some(items)}; items look like {some(annotations.items.tolist())}. Check that both use the same names."
        )
    if unknown:
        warnings.warn(
            f"{len(unknown)} of {len(items)} gold items are not among the items and were left out; the first is "
            f"{unknown[0]!r}.",
            AlignmentWarning,
            stacklevel=4,
        )


def classes_by_item(items: NameArray, gold: Any) -> dict[Any, Any]:
    """True class by item name, from named gold or from values in the order of items; unknown ones are left out."""
    if has_no_names(gold):
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


def has_no_names(gold: Any) -> bool:
    """Tell whether these are classes alone: an array, list or polars series of them, not pairs."""
    if isinstance(gold, Mapping) or hasattr(gold, "columns") or (hasattr(gold, "index") and hasattr(gold, "items")):
        return False
    if isinstance(gold, (list, tuple)):
        return not any(isinstance(entry, (list, tuple)) for entry in gold)
    return np.ndim(gold) == 1

"""How raw columns become `Annotations`: encode names, check every rule, sort."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import checks
from crowdprism.annotations.columns import as_column, as_numbers
from crowdprism.annotations.names import (
    INT32_MAX,
    INT64_MAX,
    NameArray,
    encode,
    is_missing,
    name_array,
    plain,
    positions,
)
from crowdprism.annotations.sorting import MANY, sort_many
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError

if TYPE_CHECKING:
    from crowdprism.annotations.container import Annotations, Repeats

INT16_MAX = np.iinfo(np.int16).max
NO_NUMBERS: Mapping[str, None] = {"weight": None, "duration": None, "timestamp": None}


def build(
    cls: type[Annotations],
    items: Any,
    annotators: Any,
    labels: Any,
    *,
    classes: Any,
    item_names: Any,
    annotator_names: Any,
    extras: Mapping[str, Any],
    gold: Mapping[Any, Any] | None,
    repeats: Repeats,
) -> Annotations:
    """Do the work of `Annotations.from_triplets`."""
    require_known_repeats(repeats)
    columns = {"item": as_column(items), "annotator": as_column(annotators), "label": as_column(labels)}
    numbers = {name: as_numbers(values, name) for name, values in extras.items()}
    checks.require([checks.check_lengths({**columns, **numbers})])
    checks.require([checks.check_any(len(columns["label"]))])
    checks.require(
        rule(values, role)
        for role, values in columns.items()
        for rule in (checks.check_present, checks.check_hashable, checks.check_one_type)
    )
    wanted = {"item": item_names, "annotator": annotator_names, "label": classes}
    named = {role: name_codes(values, wanted[role], role) for role, values in columns.items()}
    if gold is not None and classes is None:
        named["label"] = with_gold_classes(*named["label"], gold)
    checks.require(breach for _, _, breach in named.values())
    return assemble(
        cls,
        names=(named["item"][0], named["annotator"][0], named["label"][0]),
        codes=(named["item"][1], named["annotator"][1], named["label"][1]),
        numbers=numbers,
        gold=gold,
        repeats=repeats,
    )


def build_from_codes(
    cls: type[Annotations],
    labels: Any,
    *,
    classes: Any,
    names: tuple[NameArray, NameArray],
    codes: tuple[NDArray[Any], NDArray[Any]],
    repeats: Repeats,
) -> Annotations:
    """Build where items and annotators are known by position already and only the labels are raw."""
    labels = as_column(labels)
    checks.require([checks.check_any(len(labels)), checks.check_distinct(names[0], "item")])
    checks.require([checks.check_distinct(names[1], "annotator")])
    checks.require([checks.check_hashable(labels, "label"), checks.check_one_type(labels, "label")])
    class_names, label, breach = name_codes(labels, classes, "label")
    checks.require([breach])
    return assemble(
        cls, names=(*names, class_names), codes=(*codes, label), numbers=NO_NUMBERS, gold=None, repeats=repeats
    )


def require_known_repeats(repeats: str) -> None:
    """Stop at a misspelt choice."""
    if repeats not in ("keep", "last", "error"):
        raise InvalidParameterError(f'repeats must be "keep", "last" or "error", not {repeats!r}.')


def assemble(
    cls: type[Annotations],
    *,
    names: tuple[NameArray, NameArray, NameArray],
    codes: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    numbers: Mapping[str, NDArray[Any] | None],
    gold: Mapping[Any, Any] | None,
    repeats: Repeats,
    frame_kind: str = "polars",
) -> Annotations:
    """Sort codes into the container's order. Names and codes are (item, annotator, label)."""
    items, annotators, classes = names
    item, annotator, label = codes
    checks.require(
        [
            *(checks.check_code_range(len(given), role) for given, role in zip(names, ROLES, strict=True)),
            checks.check_two_classes(classes),
            checks.check_finite(numbers["weight"], "weight", positive=True),
        ]
    )
    if repeats == "error":
        checks.require([checks.check_no_repeats(item, annotator, items, annotators)])
    if repeats == "last":
        kept = last_of_repeats(item, annotator, numbers["timestamp"])
        item, annotator, label = item[kept], annotator[kept], label[kept]
        numbers = {name: None if values is None else values[kept] for name, values in numbers.items()}
    start, annotator, label, numbers = in_container_order(
        item, annotator, label, numbers, (len(items), len(annotators), len(classes))
    )
    return cls(
        start,
        annotator,
        label,
        items,
        annotators,
        classes,
        frame_kind=frame_kind,
        gold=None if gold is None else gold_codes(gold, items, classes),
        **numbers,
    )


ROLES = ("item", "annotator", "class")


def in_container_order(
    item: NDArray[Any],
    annotator: NDArray[Any],
    label: NDArray[Any],
    numbers: Mapping[str, NDArray[Any] | None],
    sizes: tuple[int, int, int],
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[Any], dict[str, Any]]:
    """Sort by item, annotator, label and then the numbers; return item_start and the sorted columns."""
    n_items, n_annotators, n_classes = sizes
    present = {name: values for name, values in numbers.items() if values is not None}
    dtype = label_dtype(n_classes)
    one_number = n_items * n_annotators * n_classes <= INT64_MAX
    if not present and not one_number and len(item) >= MANY:
        ranks = {"item_rank": n_items, "annotator_rank": n_annotators, "label_rank": n_classes}
        ranked = {name: np.arange(size, dtype=np.int32) for name, size in ranks.items()}
        start, annotator, label = sort_many(item, annotator, label, label_dtype=dtype, **ranked)
        return start, annotator, label, dict(numbers)
    start = np.zeros(n_items + 1, dtype=np.int32 if len(item) <= INT32_MAX else np.int64)
    np.cumsum(np.bincount(item, minlength=n_items), out=start[1:])
    if not present and one_number:
        # One number per triplet sorts several times faster than three columns, and gives the columns back. At 10^7
        # rows it is no slower than `sort_many` and needs neither numba nor as much memory.
        key = item.astype(np.int64)
        for size, codes in ((n_annotators, annotator), (n_classes, label)):
            key *= size
            key += codes
        key.sort()
        sorted_label = (key % n_classes).astype(dtype)
        key //= n_classes
        key %= n_annotators
        return start, key.astype(np.int32), sorted_label, dict(numbers)
    order = np.lexsort([*present.values(), label, annotator, item])
    sorted_numbers = {name: None if values is None else values[order] for name, values in numbers.items()}
    return start, annotator[order].astype(np.int32), label[order].astype(dtype), sorted_numbers


def label_dtype(n_classes: int) -> type[np.signedinteger[Any]]:
    """The smallest of int16 and int32 that holds every class code."""
    return np.int16 if n_classes <= INT16_MAX else np.int32


def name_codes(values: Any, wanted: Any, role: str) -> tuple[NameArray, NDArray[np.int64], checks.Breach | None]:
    """Return names, codes and the breach if a value is not among the wanted names."""
    if wanted is None:
        names, codes = encode(values)
        return names, codes, None
    names = name_array(wanted)
    checks.require([checks.check_distinct(names, role)])
    present, codes = encode(values)
    place = positions(names, present)
    if not np.array_equal(place, np.arange(len(place))):
        codes = place[codes]
    return names, codes, checks.check_known(codes, values, names, role)


def with_gold_classes(
    names: NameArray, codes: NDArray[np.int64], breach: checks.Breach | None, gold: Mapping[Any, Any]
) -> tuple[NameArray, NDArray[np.int64], checks.Breach | None]:
    """Add classes that occur only as gold, so that a class nobody chose is still a class."""
    extra = {plain(label) for label in gold.values()} - set(names.tolist())
    if not extra:
        return names, codes, breach
    everything, place = encode([*names.tolist(), *extra])
    return everything, place[: len(names)][codes], breach


def gold_codes(gold: Mapping[Any, Any], items: NameArray, classes: NameArray) -> np.ma.MaskedArray[Any, Any]:
    """Return the true class code per item, masked where gold does not say; gold of unknown items is left out."""
    named = {plain(item): plain(label) for item, label in gold.items() if not is_missing(label)}
    labels = positions(classes, list(named.values()))
    checks.require([checks.check_known(labels, list(named.values()), classes, "gold label")])
    place = positions(items, list(named))
    codes = np.zeros(len(items), dtype=label_dtype(len(classes)))
    unknown = np.ones(len(items), dtype=bool)
    codes[place[place >= 0]] = labels[place >= 0]
    unknown[place[place >= 0]] = False
    return np.ma.MaskedArray(codes, mask=unknown)


def gold_by_item(items: Any, gold: Any) -> dict[Any, Any]:
    """Collect a per-row gold column into one label per item; two different golds for an item are an error."""
    gold = as_column(gold)
    known = np.ones(len(gold), dtype=bool)
    known[checks.missing_rows(gold)] = False
    rows = np.flatnonzero(known)
    if not len(rows):
        return {}
    names, item = encode(rows_of(as_column(items), rows))
    classes, label = encode(rows_of(gold, rows))
    first = np.zeros(len(names), dtype=np.int64)
    first[item[::-1]] = np.arange(len(item))[::-1]
    differs = np.flatnonzero(label != label[first[item]])
    if len(differs):
        at = differs[0]
        raise InvalidAnnotationsError(
            f"{len(differs)} rows give an item another gold label than an earlier row; the first is item "
            f"{plain(names[item[at]])!r} with {plain(classes[label[first[item[at]]]])!r} and then "
            f"{plain(classes[label[at]])!r}. Correct the gold column."
        )
    return dict(zip(names.tolist(), classes[label[first]].tolist(), strict=True))


def rows_of(values: Any, rows: NDArray[Any]) -> Any:
    """Pick rows of a column, whatever holds it."""
    if isinstance(values, list):
        return [values[row] for row in rows]
    return values[rows]


def last_of_repeats(item: NDArray[Any], annotator: NDArray[Any], timestamp: NDArray[Any] | None) -> NDArray[np.int64]:
    """Return the rows that are the last of their (item, annotator) pair, by timestamp and then by row."""
    rows = np.arange(len(item))
    when = rows if timestamp is None else np.where(np.isnan(timestamp), -np.inf, timestamp)
    order = np.lexsort([rows, when, annotator, item])
    pair_changes = (np.diff(item[order]) != 0) | (np.diff(annotator[order]) != 0)
    return np.sort(order[np.append(pair_changes, True)])


def triplets_of_dense(table: Any, missing: Any) -> tuple[NDArray[Any], NDArray[Any], Any, tuple[int, int]]:
    """Return (item row, annotator column, label) of the cells that hold a label, and the table's shape."""
    masked = np.ma.getmaskarray(table) if isinstance(table, np.ma.MaskedArray) else None
    cells = np.asarray(table.to_numpy() if hasattr(table, "to_numpy") else table)
    if cells.ndim != 2:
        raise InvalidAnnotationsError(f"The table must be two-dimensional (items x annotators), not {cells.shape}.")
    absent = np.zeros(cells.shape, dtype=bool)
    absent.reshape(-1)[checks.missing_rows(cells.reshape(-1))] = True
    if missing is not None:
        absent |= np.asarray(cells == missing, dtype=bool)
    if masked is not None:
        absent |= masked
    items, annotators = np.nonzero(~absent)
    labels: Any = cells[items, annotators]
    if cells.dtype.kind == "f":
        labels = whole_labels(labels, items, annotators)
    elif cells.dtype == object:
        labels = [plain(label) for label in labels]
        if labels and all(isinstance(label, float) and label.is_integer() for label in labels):
            labels = [int(label) for label in labels]
    return items, annotators, labels, (cells.shape[0], cells.shape[1])


def whole_labels(labels: NDArray[Any], items: NDArray[Any], annotators: NDArray[Any]) -> NDArray[np.int64]:
    """Turn float class codes into ints; a cell such as 1.5 is an error."""
    broken = np.flatnonzero(~np.isfinite(labels) | (labels != np.floor(labels)))
    if len(broken):
        first = broken[0]
        raise InvalidAnnotationsError(
            f"{len(broken)} of {len(labels)} labels in the table are not whole numbers; the first is {labels[first]} "
            f"at row {items[first]}, column {annotators[first]}. A table holds class codes; "
            "pass class names as strings, or use Annotations.from_triplets."
        )
    return labels.astype(np.int64)

"""How raw columns become `Annotations`: take any sequence, check every rule, encode names, sort."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import checks
from crowdprism.annotations import names as naming
from crowdprism.annotations.names import INT64_MAX, NameArray, encode, is_missing, name_array, plain, positions
from crowdprism.annotations.times import seconds_since_1970
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError

if TYPE_CHECKING:
    from crowdprism.annotations.container import Annotations, Repeats

INT16_MAX = np.iinfo(np.int16).max
MAX_WHOLE_FLOAT = 2.0**63
Names = Iterable[Hashable] | None
ROLES = ("item", "annotator", "class")
NO_NUMBERS: Mapping[str, None] = {"weight": None, "duration": None, "timestamp": None}


def as_column(values: Any) -> Any:
    """A column as 1-D array, list or polars text; 7.0 becomes 7, because tools read ids with gaps as floats."""
    if isinstance(values, (str, bytes, Mapping)):
        raise InvalidAnnotationsError(f"A column must be a sequence of names, not {type(values).__name__}.")
    if naming.is_text_column(values):
        return values
    if not hasattr(values, "__len__"):
        values = list(values)
    if hasattr(values, "to_numpy") and not isinstance(values, np.ndarray):
        values = values.to_numpy()
    if isinstance(values, list) and set(map(type, values)) == {float}:
        values = np.array(values)
    if not isinstance(values, np.ndarray):
        return values
    if values.ndim != 1:
        raise InvalidAnnotationsError(
            f"A column must be one-dimensional, not of shape {values.shape}. "
            "For an items x annotators table use Annotations.from_dense."
        )
    if values.dtype.kind != "f" or not len(values):
        return values
    is_whole = np.all(values == np.floor(values)) and np.all(np.abs(values) < MAX_WHOLE_FLOAT)
    return values.astype(np.int64) if is_whole else values


def as_numbers(values: Any, role: str) -> NDArray[Any] | None:
    """Return an optional numeric column as floats; timestamps may be datetimes or text."""
    if values is None:
        return None
    try:
        array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
        if role == "timestamp" and array.dtype.kind not in "iuf":
            return seconds_since_1970(array)
        with np.errstate(over="ignore"):  # beyond the range is infinite, which the checks see
            return array.astype(np.float64 if role == "timestamp" else np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidAnnotationsError):
            raise
        raise InvalidAnnotationsError(f"The {role} column is not numeric: {error}.") from error


def build(
    cls: type[Annotations],
    columns: Mapping[str, Any],  # raw item, annotator and label
    *,
    names: Mapping[str, Names],  # by the same roles: the names wanted, or None
    numbers: Mapping[str, Any],
    gold: Mapping[Any, Any] | None,
    repeats: Repeats,
) -> Annotations:
    require_known_repeats(repeats)
    columns = {role: as_column(values) for role, values in columns.items()}
    numbers = {role: as_numbers(values, role) for role, values in numbers.items()}
    checks.require([checks.check_lengths({**columns, **numbers})])
    checks.require([checks.check_any(len(columns["label"]))])
    checks.require(
        rule(values, role)
        for role, values in columns.items()
        for rule in (checks.check_present, checks.check_hashable, checks.check_one_type)
    )
    roles = [name_codes(columns[role], names[role], role) for role in columns]
    (items, item, _), (annotators, annotator, _), (classes, label, _) = roles
    if gold is not None and names["label"] is None:
        classes, label = with_gold_classes(classes, label, gold)
    checks.require([breach for _, _, breach in roles])
    people, codes = (items, annotators, classes), (item, annotator, label)
    return assemble(cls, names=people, codes=codes, numbers=numbers, gold=gold, repeats=repeats)


def build_dense(cls: type[Annotations], table: Any, missing: Any, *, names: tuple[Names, Names, Names]) -> Annotations:
    item, annotator, labels, shape = triplets_of_dense(table, missing)
    items = name_array(range(shape[0]) if names[0] is None else names[0])
    annotators = name_array(range(shape[1]) if names[1] is None else names[1])
    rows = checks.check_lengths({"rows of the table": range(shape[0]), "item_names": items})
    columns = checks.check_lengths({"columns of the table": range(shape[1]), "annotator_names": annotators})
    checks.require([rows, columns])
    labels = as_column(labels)
    checks.require([checks.check_any(len(labels)), checks.check_distinct(items, "item")])
    checks.require([checks.check_distinct(annotators, "annotator")])
    checks.require([checks.check_hashable(labels, "label"), checks.check_one_type(labels, "label")])
    classes, label, breach = name_codes(labels, names[2], "label")
    checks.require([breach])
    return assemble(cls, names=(items, annotators, classes), codes=(item, annotator, label))


def require_known_repeats(repeats: str) -> None:
    if repeats not in ("keep", "first", "last", "error"):
        raise InvalidParameterError(f"repeats can be keep, first, last or error, not {repeats!r}.", parameter="repeats")


def name_codes(values: Any, wanted: Any, role: str) -> tuple[NameArray, NDArray[Any], checks.Breach | None]:
    present, codes = encode(values)
    if wanted is None:
        return present, codes, None
    names = name_array(wanted)
    checks.require([checks.check_distinct(names, role)])
    place = positions(names, present)
    if not np.array_equal(place, np.arange(len(place))):
        codes = place[codes]
    return names, codes, checks.check_known(codes, values, names, role)


def assemble(
    cls: type[Annotations],
    *,
    names: tuple[NameArray, NameArray, NameArray],  # items, annotators, classes
    codes: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],  # (annotation,) each: item, annotator, label
    numbers: Mapping[str, NDArray[Any] | None] = NO_NUMBERS,
    gold: Mapping[Any, Any] | None = None,
    repeats: Repeats = "keep",
    frame_kind: str = "polars",
) -> Annotations:
    """Sort codes into the container's order."""
    items, annotators, classes = names
    item, annotator, label = codes
    checks.require(
        [
            *(checks.check_code_range(len(given), role) for given, role in zip(names, ROLES, strict=True)),
            checks.check_two_classes(classes),
            checks.check_weights(numbers["weight"]),
        ]
    )
    if repeats == "error":
        checks.require([checks.check_no_repeats(item, annotator, items, annotators)])
    if repeats in ("first", "last"):
        kept = one_of_repeats(item, annotator, numbers["timestamp"], last=repeats == "last")
        item, annotator, label = item[kept], annotator[kept], label[kept]
        numbers = {name: None if values is None else values[kept] for name, values in numbers.items()}
    start = np.zeros(len(items) + 1, dtype=np.int32 if len(item) <= naming.INT32_MAX else np.int64)
    np.cumsum(np.bincount(item, minlength=len(items)), out=start[1:])
    present = [values for values in numbers.values() if values is not None]
    if not present and len(items) * len(annotators) * len(classes) <= INT64_MAX:
        annotator, label = sort_as_one_number(item, annotator, label, len(annotators), len(classes))
    else:
        order = np.lexsort([*present, label, annotator, item])
        annotator, label = annotator[order], label[order]
        numbers = {name: None if values is None else values[order] for name, values in numbers.items()}
    extras: dict[str, Any] = dict(numbers)
    return cls(
        start,
        annotator.astype(np.int32, copy=False),
        label.astype(label_dtype(len(classes)), copy=False),
        items,
        annotators,
        classes,
        frame_kind=frame_kind,
        gold=None if gold is None else gold_codes(gold, items, classes),
        **extras,
    )


def sort_as_one_number(
    item: NDArray[Any], annotator: NDArray[Any], label: NDArray[Any], n_annotators: int, n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Annotator and label sorted by item, annotator, label: one number per triplet sorts faster than three columns."""
    key = item.astype(np.int64)
    for size, codes in ((n_annotators, annotator), (n_classes, label)):
        key *= size
        key += codes
    key.sort()
    sorted_label = key % n_classes
    key //= n_classes
    key %= n_annotators
    return key, sorted_label


def label_dtype(n_classes: int) -> type[np.signedinteger[Any]]:
    """The smallest of int16 and int32 that holds every class code."""
    return np.int16 if n_classes <= INT16_MAX else np.int32


def one_of_repeats(
    item: NDArray[Any], annotator: NDArray[Any], timestamp: NDArray[Any] | None, *, last: bool
) -> NDArray[np.int64]:
    """Return the rows that are the first or last of their (item, annotator) pair, by timestamp and then by row."""
    rows = np.arange(len(item))
    when = rows if timestamp is None else np.where(np.isnan(timestamp), -np.inf, timestamp)
    order = np.lexsort([rows, when, annotator, item])
    pair_changes = (np.diff(item[order]) != 0) | (np.diff(annotator[order]) != 0)
    return np.sort(order[np.append(pair_changes, True) if last else np.insert(pair_changes, 0, True)])


def with_gold_classes(names: NameArray, codes: NDArray[Any], gold: Mapping[Any, Any]) -> tuple[NameArray, NDArray[Any]]:
    """Add classes that occur only as gold, so that a class nobody chose is still a class."""
    extra = {plain(label) for label in gold.values()} - set(names.tolist())
    if not extra:
        return names, codes
    everything, place = encode([*names.tolist(), *extra])
    return everything, place[: len(names)][codes]


def gold_codes(gold: Mapping[Any, Any], items: NameArray, classes: NameArray) -> np.ma.MaskedArray[Any, Any]:
    """Return the true class code per item, masked where gold does not say; gold of unknown items is left out."""
    named = {plain(item): plain(label) for item, label in gold.items() if not is_missing(label)}
    labels = positions(classes, list(named.values()))
    checks.require([checks.check_known(labels, list(named.values()), classes, "gold label")])
    place = positions(items, list(named))
    found = place >= 0
    codes = np.zeros(len(items), dtype=label_dtype(len(classes)))
    unknown = np.ones(len(items), dtype=bool)
    codes[place[found]] = labels[found]
    unknown[place[found]] = False
    return np.ma.MaskedArray(codes, mask=unknown)


def gold_by_item(items: Any, gold: Any) -> dict[Any, Any]:
    """Collect a per-row gold column into one label per item; two different golds for an item are an error."""
    gold = as_column(gold)
    known = np.ones(len(gold), dtype=bool)
    known[checks.missing_rows(gold)] = False
    rows = np.flatnonzero(known)
    if not len(rows):
        return {}
    items, gold = rows_of(as_column(items), rows), rows_of(gold, rows)
    checks.require([checks.check_hashable(items, "item"), checks.check_hashable(gold, "gold label")])
    (names, item), (classes, label) = encode(items), encode(gold)
    first = np.zeros(len(names), dtype=np.int64)
    first[item[::-1]] = np.arange(len(item))[::-1]
    differs = np.flatnonzero(label != label[first[item]])
    if len(differs):
        at = differs[0]
        raise InvalidAnnotationsError(
            f"{len(differs)} of {len(label)} rows give an item another gold label than an earlier row; the first is "
            f"item {plain(names[item[at]])!r} with {plain(classes[label[first[item[at]]]])!r} and then "
            f"{plain(classes[label[at]])!r}. Correct the gold column."
        )
    return dict(zip(names.tolist(), classes[label[first]].tolist(), strict=True))


def rows_of(values: Any, rows: NDArray[Any]) -> Any:
    return [values[row] for row in rows] if isinstance(values, list) else values[rows]


def triplets_of_dense(table: Any, missing: Any) -> tuple[NDArray[Any], NDArray[Any], Any, tuple[int, int]]:
    """Return (item row, annotator column, label) of the cells that hold a label, and the table's shape."""
    cells = np.asarray(table.to_numpy() if hasattr(table, "to_numpy") else table)
    if cells.ndim != 2:
        raise InvalidAnnotationsError(f"The table must be two-dimensional (items x annotators), not {cells.shape}.")
    absent = np.zeros(cells.shape, dtype=bool)
    absent.reshape(-1)[checks.missing_rows(cells.reshape(-1))] = True
    if missing is not None:
        absent |= np.asarray(cells == missing, dtype=bool)
    if isinstance(table, np.ma.MaskedArray):
        absent |= np.ma.getmaskarray(table)
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

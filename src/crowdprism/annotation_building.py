"""How raw columns become `Annotations`: encode names, check every rule, sort, merge."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism import annotation_checks as checks
from crowdprism.errors import AlignmentWarning, InvalidAnnotationsError, InvalidParameterError, some
from crowdprism.names import NameArray, encode, is_missing, name_array, plain, positions, same_names

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations, Repeats

INT16_MAX = np.iinfo(np.int16).max


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
    if repeats not in ("keep", "last", "error"):
        raise InvalidParameterError(f'repeats must be "keep", "last" or "error", not {repeats!r}.')
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
    checks.require(
        [
            *(checks.check_code_range(len(names), role) for role, (names, _, _) in named.items()),
            checks.check_two_classes(named["label"][0]),
            checks.check_finite(numbers["weight"], "weight", positive=True),
        ]
    )
    return assemble(
        cls,
        names=(named["item"][0], named["annotator"][0], named["label"][0]),
        codes=(named["item"][1], named["annotator"][1], named["label"][1]),
        numbers=numbers,
        gold=gold,
        repeats=repeats,
    )


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
    """Sort checked codes into the container's order. Names and codes are (item, annotator, label)."""
    items, annotators, classes = names
    item, annotator, label = codes
    if repeats == "error":
        checks.require([checks.check_no_repeats(item, annotator, items, annotators)])
    if repeats == "last":
        kept = last_of_repeats(item, annotator, numbers["timestamp"])
        item, annotator, label = item[kept], annotator[kept], label[kept]
        numbers = {name: None if values is None else values[kept] for name, values in numbers.items()}
    order = np.lexsort([*(values for values in numbers.values() if values is not None), label, annotator, item])
    start = np.zeros(len(items) + 1, dtype=np.int64)
    np.cumsum(np.bincount(item, minlength=len(items)), out=start[1:])
    return cls(
        start,
        annotator[order].astype(np.int32),
        label[order].astype(label_dtype(len(classes))),
        items,
        annotators,
        classes,
        frame_kind=frame_kind,
        gold=None if gold is None else gold_codes(gold, items, classes),
        **{name: None if values is None else values[order] for name, values in numbers.items()},  # type: ignore[arg-type]
    )


def label_dtype(n_classes: int) -> type[np.signedinteger[Any]]:
    """The smallest of int16 and int32 that holds every class code."""
    return np.int16 if n_classes <= INT16_MAX else np.int32


def as_column(values: Any) -> Any:
    """Return a column as a one-dimensional array or list; whole floats become ints.

    A column of ids with gaps is read as floats by many tools, so 7.0 means 7.
    """
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__"):
        values = list(values) if not isinstance(values, (str, bytes, Mapping)) else values
        if not isinstance(values, list):
            raise InvalidAnnotationsError(f"A column must be a sequence of names, not {type(values).__name__}.")
    if hasattr(values, "to_numpy") and not isinstance(values, np.ndarray):
        values = values.to_numpy()
    if not isinstance(values, np.ndarray):
        return values
    if values.ndim != 1:
        raise InvalidAnnotationsError(
            f"A column must be one-dimensional, not of shape {values.shape}. "
            "For an items x annotators table use Annotations.from_dense."
        )
    if values.dtype.kind == "f" and len(values) and bool(np.all(values == np.floor(values))):
        return values.astype(np.int64)
    return values


def as_numbers(values: Any, role: str) -> NDArray[Any] | None:
    """Return an optional numeric column as floats; timestamps may be datetimes or ISO text."""
    if values is None:
        return None
    kind = np.float64 if role == "timestamp" else np.float32
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if role == "timestamp" and array.dtype.kind not in "iuf":
        return seconds_since_1970(array)
    try:
        return array.astype(kind)
    except (TypeError, ValueError) as error:
        raise InvalidAnnotationsError(f"The {role} column is not numeric: {error}.") from error


def seconds_since_1970(values: NDArray[Any]) -> NDArray[np.float64]:
    """Convert datetimes or ISO 8601 text (with or without zone) to seconds; missing becomes NaN."""
    from datetime import datetime

    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)

    def one(value: Any) -> float:
        if is_missing(value) or value == "":
            return float("nan")
        if isinstance(value, (int, float)):
            return float(value)
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).replace(" UTC", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    try:
        return np.array([one(value) for value in values.tolist()], dtype=np.float64)
    except ValueError as error:
        raise InvalidAnnotationsError(f"The timestamp column is neither numeric nor ISO 8601: {error}.") from error


def name_codes(values: Any, wanted: Any, role: str) -> tuple[NameArray, NDArray[np.int64], checks.Breach | None]:
    """Return names, codes and the breach if a value is not among the wanted names."""
    if wanted is None:
        names, codes = encode(values)
        return names, codes, None
    names = name_array(wanted)
    checks.require([checks.check_distinct(names.tolist(), role)])
    present, inner = encode(values)
    codes = positions(names, present.tolist())[inner]
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
    codes = np.ma.masked_all(len(items), dtype=label_dtype(len(classes)))
    codes[place[place >= 0]] = labels[place >= 0]
    return codes


def gold_by_item(items: Any, gold: Any) -> dict[Any, Any]:
    """Collect a per-row gold column into one label per item; two different golds for an item are an error."""
    known: dict[Any, Any] = {}
    for row, (item, label) in enumerate(zip(items, gold, strict=True)):
        item, label = plain(item), plain(label)
        if is_missing(label):
            continue
        if known.setdefault(item, label) != label:
            raise InvalidAnnotationsError(
                f"Item {item!r} has two gold labels, {known[item]!r} and {label!r} (row {row}). Correct the gold column."
            )
    return known


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
    if cells.dtype.kind == "f":
        absent = np.isnan(cells)
    elif cells.dtype == object:
        absent = np.array([[is_missing(plain(cell)) for cell in row] for row in cells], dtype=bool).reshape(cells.shape)
    else:
        absent = np.zeros(cells.shape, dtype=bool)
    if missing is not None:
        absent |= np.asarray(cells == missing, dtype=bool)
    if masked is not None:
        absent |= masked
    items, annotators = np.nonzero(~absent)
    labels = cells[items, annotators]
    if cells.dtype.kind == "f":
        labels = whole_labels(labels, items, annotators)
    elif cells.dtype == object:
        labels = [plain(label) for label in labels]
        if labels and all(isinstance(label, float) and label.is_integer() for label in labels):
            labels = [int(label) for label in labels]
    return items, annotators, labels, (cells.shape[0], cells.shape[1])


def whole_labels(labels: NDArray[Any], items: NDArray[Any], annotators: NDArray[Any]) -> NDArray[np.int64]:
    """Turn float class codes into ints; a cell such as 1.5 is an error."""
    broken = np.flatnonzero(labels != np.floor(labels))
    if len(broken):
        first = broken[0]
        raise InvalidAnnotationsError(
            f"{len(broken)} of {len(labels)} labels in the table are not whole numbers; the first is {labels[first]} "
            f"at row {items[first]}, column {annotators[first]}. A table holds class codes; "
            "pass class names as strings, or use Annotations.from_triplets."
        )
    return labels.astype(np.int64)


def aligned_to(annotations: Annotations, ids: NameArray) -> Annotations:
    """Do the work of `Annotations.align_items`."""
    checks.require([checks.check_distinct(ids.tolist(), "item")])
    place = positions(annotations.items, ids.tolist())
    found = place >= 0
    annotated = annotations.labels_per_item > 0
    n_matched = int(annotated[place[found]].sum())
    if n_matched == 0:
        raise InvalidAnnotationsError(
            f"None of the {len(ids)} ids is an annotated item. Ids look like {some(ids.tolist())}; "
            f"items look like {some(annotations.items.tolist())}. Check that both use the same names and type."
        )
    n_left_out = int(annotated.sum()) - n_matched
    if n_left_out or n_matched < len(ids):
        absent = [name for name, has in zip(ids.tolist(), found, strict=True) if not has]
        warnings.warn(
            f"{n_matched} of {len(ids)} ids are annotated items; {len(ids) - n_matched} ids have no annotation"
            + (f" (first: {some(absent)})" if absent else "")
            + f"; {n_left_out} annotated items have no id and were left out.",
            AlignmentWarning,
            stacklevel=3,
        )
    order = np.where(found, place, 0)
    counts = np.where(found, annotations.labels_per_item[order], 0)
    start = np.zeros(len(ids) + 1, dtype=np.int64)
    np.cumsum(counts, out=start[1:])
    rows = np.arange(start[-1]) + np.repeat(annotations.item_start[order] - start[:-1], counts)
    gold = None
    if annotations.gold is not None:
        gold = annotations.gold[order]
        gold[~found] = np.ma.masked
    return annotations._take(rows, start, ids, gold)


def concatenated(parts: Sequence[Annotations]) -> Annotations:
    """Do the work of `Annotations.concat`."""
    from crowdprism.annotations import EXTRAS

    names = tuple(merged_names([getattr(part, name) for part in parts]) for name in ("items", "annotators", "classes"))
    item, annotator, label = (
        np.concatenate([positions(union, getattr(part, plural).tolist())[getattr(part, code)] for part in parts])
        for union, plural, code in zip(
            names, ("items", "annotators", "classes"), ("item", "annotator", "label"), strict=True
        )
    )
    numbers = {
        name: None
        if all(getattr(part, name) is None for part in parts)
        else np.concatenate([number_or_default(part, name) for part in parts])
        for name in EXTRAS
    }
    gold = None
    if any(part.gold is not None for part in parts):
        gold = merged_gold(parts)
    return assemble(
        type(parts[0]),
        names=names,  # type: ignore[arg-type]
        codes=(item, annotator, label),
        numbers=numbers,
        gold=gold,
        repeats="keep",
        frame_kind=parts[0].frame_kind,
    )


def merged_names(vocabularies: Sequence[NameArray]) -> NameArray:
    """The names of the first, then the new ones of each next, each in its own order."""
    first = vocabularies[0]
    if all(same_names(first, other) for other in vocabularies[1:]):
        return first
    return name_array(dict.fromkeys(name for names in vocabularies for name in names.tolist()))


def number_or_default(part: Annotations, name: str) -> NDArray[Any]:
    """A part's numeric column, or what its absence means: weight 1, time unknown."""
    values: NDArray[Any] | None = getattr(part, name)
    if values is not None:
        return values
    kind = np.float64 if name == "timestamp" else np.float32
    return np.full(part.n_annotations, 1.0 if name == "weight" else np.nan, dtype=kind)


def merged_gold(parts: Sequence[Annotations]) -> dict[Any, Any]:
    """Gold of all parts by item name; two different golds for an item are an error."""
    items: list[Any] = []
    labels: list[Any] = []
    for part in parts:
        if part.gold is not None:
            known = ~np.ma.getmaskarray(part.gold)
            items.extend(part.items[known].tolist())
            labels.extend(part.classes[np.asarray(part.gold[known])].tolist())
    return gold_by_item(items, labels)

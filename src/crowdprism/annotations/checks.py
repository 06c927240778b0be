"""The rules of raw annotations: each returns a `Breach` or None, and `require` raises all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdprism.annotations.names import INT32_MAX, NameArray, is_missing, plain
from crowdprism.errors import InvalidAnnotationsError, some

MAYBE_NAN = (float, np.floating, np.datetime64, np.timedelta64)
MOST_SHOWN = 1000  # rows that are looked at for unknown names
MISSING_KINDS = ("NAType", "NaTType", "MaskedConstant")


@dataclass(frozen=True)
class Breach:
    """One broken rule: what is wrong (with count and first place) and the way out."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return str(InvalidAnnotationsError(self.problem, remedy=self.remedy))


def require(breaches: Iterable[Breach | None], where: str = "") -> None:
    """Raise one error that lists every breach; do nothing if there is none."""
    found = [breach for breach in breaches if breach is not None]
    if not found:
        return
    prefix = f"{where}: " if where else ""
    if len(found) == 1:
        raise InvalidAnnotationsError(f"{prefix}{found[0].problem}", remedy=found[0].remedy)
    lines = "\n".join(f"  - {breach}" for breach in found)
    raise InvalidAnnotationsError(f"{prefix}{len(found)} problems:\n{lines}")


def check_lengths(columns: dict[str, Any]) -> Breach | None:
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) <= 1:
        return None
    listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
    return Breach(f"The columns have different lengths: {listed}.", "Give one value per annotation in each.")


def check_any(n_annotations: int) -> Breach | None:
    if n_annotations:
        return None
    return Breach("There is no annotation.", "Check that the file has rows and that not all of them were skipped.")


def check_present(values: Sequence[Any] | NameArray, role: str) -> Breach | None:
    rows = missing_rows(values)
    if not len(rows):
        return None
    return Breach(
        f"{len(rows)} of {len(values)} {role}s are missing; the first is in row {rows[0]}.",
        f"Drop these rows first, or give the {role} (an annotation that was not made must be absent).",
    )


def missing_rows(values: Any) -> np.ndarray:
    if hasattr(values, "null_count"):  # a polars column of text
        return np.flatnonzero(values.is_null().to_numpy()) if values.null_count() else np.empty(0, dtype=np.int64)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iubUS":
        return np.empty(0, dtype=np.int64)
    if isinstance(values, np.ndarray) and values.dtype.kind in "fmM":
        return np.flatnonzero(values != values)
    kinds = set(map(type, values))  # at the speed of C, so that rules need not look at each value in Python
    if not any(kind is type(None) or issubclass(kind, MAYBE_NAN) or kind.__name__ in MISSING_KINDS for kind in kinds):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero([is_missing(value) for value in values])


def is_typed_column(values: Any) -> bool:
    return hasattr(values, "null_count") or (isinstance(values, np.ndarray) and values.dtype != object)


def check_one_type(values: Sequence[Any] | NameArray, role: str) -> Breach | None:
    """All names are of one type, so that 1 and "1" cannot stand for two different things."""
    if is_typed_column(values) or len(set(map(type, values))) <= 1:
        return None
    kinds = [type(plain(value)).__name__ for value in values]
    if len(set(kinds)) <= 1 or any(is_missing(value) for value in values):
        return None
    row = next(row for row, kind in enumerate(kinds) if kind != kinds[0])
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
    return Breach(
        f"The {role}s are of mixed types ({counts}); the first that differs is {values[row]!r} in row {row}.",
        "Convert them to one type, for example with str().",
    )


def check_hashable(values: Sequence[Any] | NameArray, role: str) -> Breach | None:
    """Every name can be a dictionary key."""
    kinds = () if is_typed_column(values) else set(map(type, values))
    if all(kind is not tuple and issubclass(kind, Hashable) for kind in kinds):
        return None
    rows = [row for row, value in enumerate(values) if not _can_be_hashed(value)]
    if not rows:
        return None
    return Breach(
        f"{len(rows)} of {len(values)} {role}s are not hashable; the first is {values[rows[0]]!r} in row {rows[0]}.",
        "Use text, numbers or tuples; several labels per annotation are not supported, choose one.",
    )


def _can_be_hashed(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:  # also a tuple that holds a list
        return False
    return True


def check_known(
    codes: np.ndarray,
    values: Any,
    known: NameArray,
    role: str,
    *,
    place: Callable[[int], str] = "in row {}".format,
    remedy: str = "",
) -> Breach | None:
    """Every value is one of the names that the caller listed (codes are -1 where it is not)."""
    rows = np.flatnonzero(codes < 0)
    if not len(rows):
        return None
    row = int(rows[0])
    unknown = list(dict.fromkeys(plain(values[int(at)]) for at in rows[:MOST_SHOWN]))
    return Breach(
        f"{len(rows)} of {len(values)} {role}s are not among the {len(known)} given; the first is "
        f"{plain(values[row])!r} {place(row)}. Given were {some(known.tolist(), 10)}. Unknown are {some(unknown, 10)}.",
        remedy or f"Extend that list or correct the {role}s.",
    )


def check_two_classes(classes: NameArray) -> Breach | None:
    if len(classes) >= 2:
        return None
    return Breach(
        f"There is only one class: {some(classes.tolist())}; every answer is this one.",
        "Check the column of the labels, or list every class that annotators could choose with {classes}",
    )


def check_distinct(names: Sequence[Any] | NameArray, role: str) -> Breach | None:
    listed = names.tolist() if isinstance(names, np.ndarray) else list(names)
    if len(set(listed)) == len(listed):
        return None
    first = {name: row for row, name in reversed(list(enumerate(listed)))}
    row = next(row for row, name in enumerate(listed) if first[name] != row)
    return Breach(
        f"{len(listed) - len(first)} of {len(listed)} {role}s are repeated; the first is {plain(listed[row])!r} at "
        f"position {row}.",
        "List each once.",
    )


def check_code_range(count: int, role: str) -> Breach | None:
    if count <= INT32_MAX:
        return None
    return Breach(
        f"{count} {role}s are more than the {INT32_MAX} that 32-bit codes can tell apart.",
        "Split the data, or check that the right column was used.",
    )


def check_weights(weights: np.ndarray | None) -> Breach | None:
    if weights is None:
        return None
    rows = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if not len(rows):
        return None
    return Breach(
        f"{len(rows)} of {len(weights)} weights are not finite and at least 0; "
        f"the first is {weights[rows[0]]} in row {rows[0]}.",
        "Correct them or leave the column out.",
    )


def check_no_repeats(item: np.ndarray, annotator: np.ndarray, items: NameArray, annotators: NameArray) -> Breach | None:
    key = item.astype(np.int64) * max(len(annotators), 1) + annotator
    order = np.argsort(key, kind="stable")
    repeated = np.sort(order[1:][key[order][1:] == key[order][:-1]])
    if not len(repeated):
        return None
    row = repeated[0]
    return Breach(
        f"{len(repeated)} annotations repeat an annotator on the same item; the first is "
        f"annotator {plain(annotators[annotator[row]])!r} on item {plain(items[item[row]])!r} in row {row}.",
        "Pass {repeats:'keep'} to count each, or {repeats:'last'} to keep the last.",
    )

"""Names of items, annotators and classes: any hashable, kept in a stated order, saved as JSON with their types.

Names live in read-only one-dimensional arrays: int64 where every name is an `int`, object otherwise. The order
is that of the values where they can be compared and that of their `repr` where they cannot, so it never depends
on the order of rows in a file.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Hashable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError, ResultFormatError, some

if TYPE_CHECKING:
    import polars as pl

NameArray = NDArray[Any]
INT32_MAX = np.iinfo(np.int32).max
INT64_MAX = np.iinfo(np.int64).max
MANY_TEXTS = 50_000  # from here on polars is quicker than a dict
FEW_NAMES = 2**12  # to which a cast is quicker than a join


class Named:
    """The sizes of what has items, annotators and classes by name."""

    items: NameArray
    annotators: NameArray
    classes: NameArray

    @property
    def n_items(self) -> int:
        """Number of items, those without annotations included."""
        return len(self.items)

    @property
    def n_annotators(self) -> int:
        """Number of annotators, those without annotations included."""
        return len(self.annotators)

    @property
    def n_classes(self) -> int:
        """Number of classes, those that nobody chose included."""
        return len(self.classes)


def plain(value: Any) -> Any:
    """Turn a NumPy scalar into the Python value it stands for; leave anything else alone."""
    return value.item() if isinstance(value, np.generic) else value


def is_missing(value: Any) -> bool:
    """Tell whether a value stands for "no entry": None, NaN, NaT, or a data frame's NA."""
    if value is None:
        return True
    if isinstance(value, (float, np.floating, np.datetime64, np.timedelta64)):
        return bool(value != value)  # NaN and NaT alone differ from themselves
    return type(value).__name__ in ("NAType", "NaTType") or value is np.ma.masked


def name_array(values: Iterable[Hashable]) -> NameArray:
    """Return names as a read-only array: int64 where all are ints, object otherwise."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.ndim == 1 and _fits_int64(values):
        names: NameArray = values.astype(np.int64)
    elif isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1:
        names = values.copy()
    else:
        listed = [plain(value) for value in values]
        if listed and all(type(value) is int for value in listed) and _fits_int64(listed):
            names = np.array(listed, dtype=np.int64)
        else:
            names = np.empty(len(listed), dtype=object)
            names[:] = listed
    names.flags.writeable = False
    return names


def _fits_int64(values: Sequence[int] | NDArray[Any]) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype != np.uint64 or not len(values) or int(values.max()) <= INT64_MAX
    return min(values) >= -INT64_MAX - 1 and max(values) <= INT64_MAX


def in_order(values: Iterable[Hashable]) -> list[Any]:
    """Sort names by value, or by their `repr` where the values cannot be compared."""
    listed = list(values)
    try:
        return sorted(listed)
    except TypeError:
        return sorted(listed, key=repr)


def is_text_column(values: Any) -> bool:
    """Tell whether this is a polars column of text, without importing polars."""
    return type(values).__module__.startswith("polars") and str(values.dtype) == "String"


def encode(values: Any) -> tuple[NameArray, NDArray[Any]]:
    """Return the distinct names in order, and for each value the position of its name."""
    if is_text_column(values) and len(values) >= MANY_TEXTS:
        return _encode_text(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return _encode_ints(values)
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    kinds = set(map(type, listed))
    if kinds == {int} and _fits_int64(listed):
        return _encode_ints(np.array(listed, dtype=np.int64))
    if kinds == {str} and len(listed) >= MANY_TEXTS:
        import polars as pl

        try:
            return _encode_text(pl.Series(listed, dtype=pl.String))
        except (UnicodeError, TypeError, pl.exceptions.PolarsError):
            pass  # a lone surrogate, which polars cannot hold
    if any(issubclass(kind, np.generic) for kind in kinds):
        listed = [plain(value) for value in listed]
    place: dict[Any, int] = {}
    codes = np.fromiter((place.setdefault(value, len(place)) for value in listed), dtype=np.int64, count=len(listed))
    ordered = in_order(place)
    rank = np.empty(len(ordered), dtype=np.int64)
    rank[[place[name] for name in ordered]] = np.arange(len(ordered))
    return name_array(ordered), rank[codes]


def _encode_text(column: pl.Series) -> tuple[NameArray, NDArray[np.int32]]:
    """Encode many texts. Polars orders text by its UTF-8 bytes, which is Python's order by code points."""
    import polars as pl

    texts = pl.LazyFrame({"name": column})  # a lazy frame works on all cores, a series on one
    for part in (texts.gather_every(len(column) // MANY_TEXTS), texts):  # where names are few, a sample mostly has all
        names = part.unique().collect()["name"].sort()
        if len(names) <= FEW_NAMES and not names.null_count():
            coded = texts.select(code=pl.col("name").cast(pl.Enum(names), strict=False).to_physical().cast(pl.Int32))
            codes = coded.collect(engine="streaming")["code"]
            if not codes.null_count():
                break
    else:
        place = pl.LazyFrame({"name": names, "code": np.arange(len(names), dtype=np.int32)})
        coded = texts.join(place, on="name", how="left", maintain_order="left").select("code")
        codes = coded.collect(engine="streaming")["code"]
    return name_array(names.to_numpy()), codes.to_numpy()


def _encode_ints(values: NDArray[Any]) -> tuple[NameArray, NDArray[np.int64]]:
    """Encode whole numbers; by counting where their range is small, which avoids the sort."""
    if not len(values):
        return name_array([]), np.empty(0, dtype=np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low <= 4 * len(values) and high <= INT64_MAX:
        shifted = values.astype(np.int64)
        shifted -= low
        present = np.zeros(high - low + 1, dtype=bool)
        present[shifted] = True
        names = name_array(np.flatnonzero(present) + low)
        if len(names) == len(present):  # no gaps: the numbers are the positions already
            return names, shifted
        return names, (np.cumsum(present) - 1)[shifted]
    names, codes = np.unique(values, return_inverse=True)
    return name_array(names), codes.astype(np.int64).reshape(-1)


def positions(names: NameArray, values: Iterable[Hashable]) -> NDArray[np.int64]:
    """Position of each value in `names`, and -1 for values that are not names, which the caller must resolve."""
    listed = values.tolist() if isinstance(values, np.ndarray) else [plain(value) for value in values]
    index = {name: place for place, name in enumerate(names.tolist())}
    return np.fromiter((index.get(value, -1) for value in listed), dtype=np.int64, count=len(listed))


def known_positions(
    names: NameArray, values: Iterable[Hashable], role: str, *, given: str = "names", parameter: str | None = None
) -> NDArray[np.int64]:
    """Return where each value stands in `names`; values that are not names are an error."""
    listed = list(values)
    place = positions(names, listed)
    unknown = [plain(value) for value, at in zip(listed, place, strict=True) if at < 0]
    if unknown:
        raise InvalidParameterError(
            f"{len(unknown)} of {len(listed)} {given} are not {role}: {some(unknown)}. "
            f"{role.capitalize()} are {some(names.tolist(), 10)}.",
            parameter=parameter,
        )
    return place


def same_names(first: NameArray, second: NameArray) -> bool:
    return first is second or (len(first) == len(second) and bool(first.tolist() == second.tolist()))


def same_arrays(first: Any, second: Any) -> bool:
    """Tell whether two optional arrays, masked ones included, are equal; NaN equals NaN."""
    if first is None or second is None:
        return first is second
    if isinstance(first, np.ma.MaskedArray):
        masks = np.ma.getmaskarray(first), np.ma.getmaskarray(second)
        return np.array_equal(*masks) and np.array_equal(first.compressed(), second.compressed())
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


# How each type of name is written and read back: an id 7 stays an int and "7" stays text. No pickle.
_STORED: dict[type, tuple[str, Any, Any]] = {
    int: ("int", int, int),
    str: ("str", str, str),
    bool: ("bool", bool, bool),
    float: ("float", float.hex, float.fromhex),
    bytes: ("bytes", lambda name: base64.b64encode(name).decode(), base64.b64decode),
    uuid.UUID: ("uuid", str, uuid.UUID),
    Decimal: ("decimal", str, Decimal),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    date: ("date", date.isoformat, date.fromisoformat),
    tuple: ("tuple", lambda name: [_tagged(part) for part in name], lambda parts: tuple(_untagged(parts))),
    frozenset: (
        "frozenset",
        lambda name: sorted((_tagged(part) for part in name), key=repr),
        lambda parts: frozenset(_untagged(parts)),
    ),
    type(None): ("none", lambda name: None, lambda stored: None),
}
_READERS = {kind: read for kind, _, read in _STORED.values()}


def _tagged(name: Any) -> list[Any]:
    if type(name) not in _STORED:
        raise InvalidParameterError(
            f"A name of type {type(name).__name__} cannot be saved: {name!r}. "
            f"Use {', '.join(sorted(_READERS))} as names."
        )
    kind, write, _ = _STORED[type(name)]
    return [kind, write(name)]


def _untagged(parts: Iterable[Any]) -> list[Any]:
    return [_READERS[kind](stored) for kind, stored in parts]


def names_to_json(names: NameArray) -> dict[str, Any]:
    """Return `{"type": ..., "values": [...]}` for names of one type, with type "mixed" and tagged values otherwise."""
    tagged = [_tagged(name) for name in names.tolist()]
    kinds = {kind for kind, _ in tagged}
    if len(kinds) == 1:
        return {"type": kinds.pop(), "values": [stored for _, stored in tagged]}
    return {"type": "mixed", "values": tagged}


def names_from_json(record: dict[str, Any]) -> NameArray:
    """Read what `names_to_json` wrote."""
    try:
        kind, values = record["type"], record["values"]
        if kind != "mixed" and kind not in _READERS:
            raise ResultFormatError(f"Names of unknown type {kind!r}. Upgrade crowdprism to read them.")
        names = _untagged(values) if kind == "mixed" else [_READERS[kind](stored) for stored in values]
        if len(set(names)) < len(names):
            raise ResultFormatError(f"{len(names) - len(set(names))} of {len(names)} names are repeated.")
        return name_array(names)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        if isinstance(error, ResultFormatError):
            raise
        raise ResultFormatError(f"Names are damaged: {type(error).__name__} {error}.") from error

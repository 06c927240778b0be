"""Names of items, annotators and classes: any hashable, kept in a stated order.

Names live in read-only one-dimensional arrays: int64 where every name is an `int`, object otherwise. The order
is that of the values where they can be compared and that of their `repr` where they cannot, so it never depends
on the order of rows in a file.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

NameArray = NDArray[Any]
INT32_MAX = np.iinfo(np.int32).max
INT64_MAX = np.iinfo(np.int64).max
MANY_TEXTS = 50_000  # from here on the way through polars is shorter


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
    """Return names as a read-only array: int64 where all are ints, object otherwise.

    Examples
    --------
    >>> name_array(["cat", "dog"])
    array(['cat', 'dog'], dtype=object)
    """
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


def encode(values: Any) -> tuple[NameArray, NDArray[Any]]:
    """Return the distinct names in order, and for each value the position of its name.

    Examples
    --------
    >>> encode(["dog", "cat", "dog"])
    (array(['cat', 'dog'], dtype=object), array([1, 0, 1]))
    """
    if type(values).__module__.startswith("polars"):
        from crowdprism.annotations.text_encoding import encode_text

        return encode_text(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return _encode_ints(values)
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    kinds = set(map(type, listed))
    if kinds == {int} and _fits_int64(listed):
        return _encode_ints(np.array(listed, dtype=np.int64))
    if kinds == {str} and len(listed) >= MANY_TEXTS:
        found = _encode_texts(listed)
        if found is not None:
            return found
    if any(issubclass(kind, np.generic) for kind in kinds):
        listed = [plain(value) for value in listed]
    position: dict[Any, int] = {}
    codes = np.fromiter(
        (position.setdefault(value, len(position)) for value in listed), dtype=np.int64, count=len(listed)
    )
    ordered = in_order(position)
    rank = np.empty(len(ordered), dtype=np.int64)
    rank[[position[name] for name in ordered]] = np.arange(len(ordered))
    return name_array(ordered), rank[codes] if len(listed) else codes


def _encode_texts(values: list[str]) -> tuple[NameArray, NDArray[Any]] | None:
    """Encode many texts outside the interpreter; None where a text is no valid Unicode (a lone surrogate)."""
    import polars as pl

    from crowdprism.annotations.text_encoding import encode_text

    try:
        return encode_text(pl.Series(values, dtype=pl.String))
    except (UnicodeError, TypeError, pl.exceptions.PolarsError):
        return None


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
    """Return where each value stands in `names`, and -1 for values that are not names.

    The -1 is for the caller to resolve at once; it never enters `Annotations`.
    """
    if isinstance(values, np.ndarray):
        listed = values.tolist()
    else:
        listed = [plain(value) for value in values]
    index = {name: place for place, name in enumerate(names.tolist())}
    return np.fromiter((index.get(value, -1) for value in listed), dtype=np.int64, count=len(listed))


def same_names(first: NameArray, second: NameArray) -> bool:
    """Tell whether two name arrays hold equal names in the same order."""
    if first is second:
        return True
    if len(first) != len(second):
        return False
    return bool(first.tolist() == second.tolist())

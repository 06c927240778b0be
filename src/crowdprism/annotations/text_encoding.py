"""Millions of text ids become codes: the distinct names in order, and each row's position among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.annotations.sorting import MANY

if TYPE_CHECKING:
    from crowdprism.annotations.names import NameArray


def encode_text(column: pl.Series) -> tuple[NameArray, NDArray[Any]]:
    """Return the distinct texts in order, and for each row the position of its text.

    Polars orders text by its UTF-8 bytes, which is Python's order by code points.

    Examples
    --------
    >>> encode_text(pl.Series(["dog", "cat", "dog"]))
    (array(['cat', 'dog'], dtype=object), array([1, 0, 1], dtype=int32))
    """
    if len(column) >= MANY:
        found = encode_many(column)
        if found is not None:
            return found
    names = column.unique().sort()
    codes = column.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int32)
    return text_names(names), codes


def encode_many(column: pl.Series) -> tuple[NameArray, NDArray[np.int32]] | None:
    """Encode by hashes, then compare the texts themselves; None in the all but impossible case that two collide."""
    from crowdprism.annotations.annotation_kernels import code_hashes

    hashes = column.hash().to_numpy()
    size = 1 << (2 * len(column)).bit_length()
    slots, slot_codes = np.empty(size, dtype=np.uint64), np.full(size, -1, dtype=np.int32)
    first, codes = np.empty(len(column), dtype=np.int32), np.empty(len(column), dtype=np.int32)
    n_names = code_hashes(hashes, slots, slot_codes, first, codes)
    del slots, slot_codes
    names = column.gather(first[:n_names])
    if not (names.gather(codes) == column).all():
        return None
    ordered = names.sort()
    rank = names.cast(pl.Enum(ordered)).to_physical().to_numpy().astype(np.int32)
    return text_names(ordered), rank[codes]


def text_names(names: pl.Series) -> NameArray:
    """Return distinct texts as a read-only array of names."""
    array = np.empty(len(names), dtype=object)
    array[:] = names.to_list()
    array.flags.writeable = False
    return array

"""Millions of text ids become codes: the distinct names in order, and each row's position among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.names import NameArray


def encode_text(column: pl.Series) -> tuple[NameArray, NDArray[Any]]:
    """Return the distinct texts in order, and for each row the position of its text.

    Polars orders text by its UTF-8 bytes, which is Python's order by code points.

    Examples
    --------
    >>> encode_text(pl.Series(["dog", "cat", "dog"]))
    (array(['cat', 'dog'], dtype=object), array([1, 0, 1], dtype=int32))
    """
    names = column.unique().sort()
    codes = column.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int32)
    return text_names(names), codes


def text_names(names: pl.Series) -> NameArray:
    """Return distinct texts as a read-only array of names."""
    array = np.empty(len(names), dtype=object)
    array[:] = names.to_list()
    array.flags.writeable = False
    return array

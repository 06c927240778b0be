"""Compiled loops for millions of annotations; loaded only where there are that many.

`annotation_kernel_sources` has the loops themselves; their machine code is kept by `machine_code`. Texts are told apart
exactly: a hash finds the place in a table, and the bytes themselves are compared. All loops release the interpreter
lock, so that two threads can share the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.machine_code import Kernels

NOT_PLAIN = -1
# A record of the names' store, in words of 8 bytes: code and length, hash, count, then the bytes.
RECORD_WORDS = 3
FIRST_PLACE = 1  # 0 marks a free slot
INSERTION_LIMIT = 128  # longer runs are sorted by NumPy, which is not quadratic
AHEAD = 256  # rows looked at together
VECTOR_BYTES = 16  # text is searched, and read beyond its end, by so many bytes at once

# slots, words, state and codes of one column; see `annotation_kernel_sources`
Table = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64], NDArray[np.int32]]

# Numbers of rows, and of annotators times classes, that fit 4 bytes are counted in 4; so are labels that fit 2 in 2.
SORTERS = {f"place_rows_{wide}": f"i4 i4 i4 n i4 i4 {wide} n {wide}" for wide in ("i4", "i8")} | {
    f"sort_within_items_{wide}_{label}": f"{wide} n n n n {wide} i4 {label}"
    for wide in ("i4", "i8")
    for label in ("i2", "i4")
}
KERNELS = Kernels(
    "crowdprism.annotations.annotation_kernel_sources",
    {
        "encode_lines": f"u1 n n n i8 n {'u8 n u8 n i8 i4 ' * 3} n i4 i4 u8 u8 i8",
        "look_up": "u8 n u8 n u8 n n i8 u8 i4 i8",
        "rehash": "u8 n u8 n",
        "join_names": "u8 n i4 n i8 u1 n i8 i8",
        "join_ordered": "u1 n i8 n i8 i8 u1",
        "common_prefix": "u1 i8 n i8",
        "sort_words": "u1 i8 n n u8 n i8",
        "whole_numbers": "u1 i8 n n i8 i8",
        "code_hashes": "u8 n u8 i4 n i4 i4 i8",
        **SORTERS,
    },
    imports=[__name__, "crowdprism.annotations.annotation_kernel_words"],
)


def encode_lines(
    buffer: NDArray[np.uint8],  # (bytes,) whole lines; VECTOR_BYTES more than `end` can be read
    begin: int,
    end: int,
    delimiter: int,
    role_of_column: NDArray[np.int64],  # (column,) which of the tables it belongs to, else -1
    tables: tuple[Table, Table, Table],
    done: int,
) -> tuple[int, int]:
    """Encode the wanted columns of whole lines.

    Returns the number of rows done in this block and the place reached: less than `end` where a table is full, and
    NOT_PLAIN for rows at anything unusual.
    """
    given: list[Any] = []
    for slots, words, state, codes in tables:
        given += [slots, len(slots), words, len(words), state, codes]
    n_cells = len(tables) * AHEAD
    working = [np.empty(n_cells, np.int32), np.empty(n_cells, np.int32), np.empty(n_cells, np.uint64)]
    touched, found = np.empty(AHEAD, np.uint64), np.empty(2, np.int64)
    columns = (role_of_column, len(role_of_column))
    KERNELS("encode_lines", buffer, begin, end, delimiter, *columns, *given, done, *working, touched, found)
    return int(found[0]), int(found[1])


def look_up(
    other: NDArray[np.uint64],  # the names' store of another table
    used: int,
    slots: NDArray[np.uint64],
    words: NDArray[np.uint64],
    part: int,  # of n_parts, the share of one thread
    n_parts: int,
    codes: NDArray[np.int32],  # (name of the other table,) out: its code in this one, -1 if it is not here
) -> None:
    """Find the names of another table in this one, which stays as it is."""
    places, touched, found = np.empty(AHEAD, np.int64), np.empty(AHEAD, np.uint64), np.empty(1, np.int64)
    shares = (part, n_parts)
    KERNELS("look_up", other, used, slots, len(slots), words, *shares, places, touched, codes, found)


def rehash(words: NDArray[np.uint64], used: int, slots: NDArray[np.uint64]) -> None:
    """Enter every stored name into a new, larger table."""
    KERNELS("rehash", words, used, slots, len(slots))


def join_names(
    words: NDArray[np.uint64],
    used: int,
    codes: NDArray[np.int32],  # (name,) rising by one from one written name to the next
    first: int,  # names with lower codes are left out
    counts: NDArray[np.int64],  # (name,) out
    joined: NDArray[np.uint8],  # out
    begin: int,
    lengths: NDArray[np.int64],  # (code,) out
) -> int:
    """Write the stored names, a line each, from `begin` on; return the place after them."""
    found = np.empty(1, np.int64)
    KERNELS("join_names", words, used, codes, first, counts, joined, begin, lengths, found)
    return int(found[0])


def join_ordered(
    joined: NDArray[np.uint8], lengths: NDArray[np.int64], order: NDArray[Any], out: NDArray[np.uint8]
) -> None:
    """Write names that stand a line each in another order."""
    order = np.ascontiguousarray(order, dtype=np.int64)
    places = np.empty(len(lengths), np.int64)
    KERNELS("join_ordered", joined, len(joined), lengths, len(lengths), order, places, out)


def common_prefix(joined: NDArray[np.uint8], lengths: NDArray[np.int64]) -> int:
    """Number of bytes with which all names begin."""
    found = np.empty(1, np.int64)
    KERNELS("common_prefix", joined, lengths, len(lengths), found)
    return int(found[0])


def sort_words(joined: NDArray[np.uint8], lengths: NDArray[np.int64], skip: int, keys: NDArray[np.uint64]) -> bool:
    """Write names as numbers (name, word) that sort as their bytes do, `skip` bytes left out; False at a zero byte."""
    found = np.empty(1, np.int64)
    KERNELS("sort_words", joined, lengths, len(lengths), skip, keys, keys.shape[1], found)
    return bool(found[0])


def whole_numbers(joined: NDArray[np.uint8], lengths: NDArray[np.int64], cut: int, numbers: NDArray[np.int64]) -> bool:
    """Read names as whole numbers; False unless every one is written as Python writes it, `cut` bytes left out."""
    found = np.empty(1, np.int64)
    KERNELS("whole_numbers", joined, lengths, len(lengths), cut, numbers, found)
    return bool(found[0])


def code_hashes(
    hashes: NDArray[np.uint64],
    slots: NDArray[np.uint64],
    slot_codes: NDArray[np.int32],
    first: NDArray[np.int32],
    codes: NDArray[np.int32],
) -> int:
    """Number distinct hashes in order of appearance; `first` gets the row of each. Return how many there are."""
    found = np.empty(1, np.int64)
    KERNELS("code_hashes", hashes, len(hashes), slots, slot_codes, len(slots), first, codes, found)
    return int(found[0])


def place_rows(
    item: NDArray[np.int32],  # (row,) codes
    annotator: NDArray[np.int32],
    label: NDArray[np.int32],
    annotator_rank: NDArray[np.int32],  # (annotator code,) position of the name
    label_rank: NDArray[np.int32],
    next_place: NDArray[Any],  # (item code,) where the item's next annotation goes; advanced; of the type of keys
    n_classes: int,
    keys: NDArray[Any],  # (row of all,) out, int32 or int64: annotator and label as one number, grouped by item
) -> None:
    """Put annotator and label of each row in the place of its item (a counting sort)."""
    given = (item, annotator, label, len(item), annotator_rank, label_rank)
    KERNELS(f"place_rows_{keys.dtype.str[1:]}", *given, next_place, n_classes, keys)


def sort_within_items(
    start: NDArray[Any],  # (item + 1,) of the type of keys
    begin: int,
    end: int,
    n_classes: int,
    keys: NDArray[Any],
    annotator: NDArray[np.int32],  # out
    label: NDArray[Any],  # out
) -> None:
    """Sort the keys of each item in begin..end-1, long runs excepted, and take them apart."""
    name = f"sort_within_items_{keys.dtype.str[1:]}_{label.dtype.str[1:]}"
    KERNELS(name, start, begin, end, n_classes, INSERTION_LIMIT, keys, annotator, label)


def sort_long_runs(start: NDArray[Any], begin: int, end: int, keys: NDArray[Any]) -> None:
    """Sort the keys of those items in begin..end-1 that have more than INSERTION_LIMIT."""
    many = begin + np.flatnonzero(np.diff(start[begin : end + 1]) > INSERTION_LIMIT)
    for first, last in zip(start[many].tolist(), start[many + 1].tolist(), strict=True):
        keys[first:last].sort()

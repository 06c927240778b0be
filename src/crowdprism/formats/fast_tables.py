"""Large plain text tables: read block by block, ids to codes at once, so that memory stays near the result's size.

Only what is plain is read here: three columns with item, annotator and label, nothing missing, every line whole.
Anything else (line breaks inside quotes, missing cells, bytes that are not UTF-8, ...) is left to the general
reader, which knows what to say about it. The result is the same, bit for bit.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.building import label_dtype
from crowdprism.annotations.names import NameArray, name_array
from crowdprism.annotations.sorting import N_THREADS, CodedRows, in_order, place_parts
from crowdprism.formats.tables import MISSING_LABELS, REQUIRED

BLOCK_BYTES = 1 << 22
WORD_BYTES = 8
BYTES_BEYOND = 16  # the kernels read whole vectors, also at the end
MAX_LINE_BYTES = 1 << 18
MAX_HEADER_BYTES = 1 << 20
MAX_SORT_WORDS = 4  # names that differ in more than 32 bytes are sorted as text
PACKED_TOGETHER = 1 << 15  # names whose keys stay in the fastest memory
LONGEST_MARKER = max(map(len, MISSING_LABELS))


class NameTable:
    """Texts seen so far and their codes, in order of appearance."""

    def __init__(self) -> None:
        self.slots: NDArray[np.uint64] = np.zeros(1 << 14, dtype=np.uint64)
        self.words: NDArray[np.uint64] = np.empty(1 << 14, dtype=np.uint64)
        self.words[0] = 0
        self.state = np.array([1, 0, 0])  # words used, names known, and a place for the kernel's own sum

    def make_room(self, n_bytes: int) -> None:
        """Room for as many names again, and for the names in some bytes."""
        from crowdprism.annotations.annotation_kernels import AHEAD, RECORD_WORDS, rehash

        used, n_names = int(self.state[0]), int(self.state[1])
        words: NDArray[np.uint64] = np.empty(2 * used + AHEAD * (RECORD_WORDS + 1) + n_bytes // 8, dtype=np.uint64)
        words[:used] = self.words[:used]
        self.words = words
        if 3 * (n_names + AHEAD) > 2 * len(self.slots):
            self.slots = np.zeros(4 * len(self.slots), dtype=np.uint64)
            rehash(self.words, used, self.slots)

    def look_up(self, other: NameTable, pool: Executor) -> NDArray[np.int32]:
        """The codes that the names of another table have here, -1 where they have none."""
        from crowdprism.annotations.annotation_kernels import look_up

        used, n_names = int(other.state[0]), int(other.state[1])
        codes = np.empty(n_names, dtype=np.int32)

        def find(part: int) -> None:
            look_up(other.words, used, self.slots, self.words, part, N_THREADS, codes)

        list(pool.map(find, range(N_THREADS)))
        return codes


def shared_codes(tables: list[NameTable], pool: Executor) -> list[NDArray[np.int32]]:
    """For each table the codes of its names among the distinct names of all: those of the first come first."""
    shared: list[NDArray[np.int32]] = []
    known = 0
    for table in tables:
        codes = np.full(int(table.state[1]), -1, dtype=np.int32)
        for earlier, its_codes in zip(tables, shared, strict=False):
            found = earlier.look_up(table, pool)
            known_there = np.flatnonzero(found >= 0)
            codes[known_there] = its_codes[found[known_there]]
        new = np.flatnonzero(codes < 0)
        codes[new] = np.arange(known, known + len(new), dtype=np.int32)
        known += len(new)
        shared.append(codes)
    return shared


def joined_names(
    tables: list[NameTable], shared: list[NDArray[np.int32]]
) -> tuple[StoredNames, list[NDArray[np.int64]]]:
    """The distinct names of all tables, and how often each table counted its own; the tables are given up."""
    from crowdprism.annotations.annotation_kernels import join_names

    lengths = np.empty(max(int(codes.max(initial=-1)) for codes in shared) + 1, dtype=np.int64)
    joined = np.empty(sum(int(table.state[0]) for table in tables) * WORD_BYTES, dtype=np.uint8)
    counts = [np.empty(len(codes), dtype=np.int64) for codes in shared]
    known = n_bytes = 0
    for table, codes, own in zip(tables, shared, counts, strict=True):
        n_bytes = join_names(table.words, int(table.state[0]), codes, known, own, joined, n_bytes, lengths)
        known = max(known, int(codes.max(initial=-1)) + 1)
        table.slots, table.words = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64)
    return StoredNames(joined[:n_bytes].copy(), lengths), counts


class StoredNames:
    """Distinct names as bytes: which are whole numbers, and in which order they stand."""

    def __init__(self, joined: NDArray[np.uint8], lengths: NDArray[np.int64]) -> None:
        from crowdprism.annotations.annotation_kernels import whole_numbers

        self.joined, self.lengths = joined, lengths
        numbers = np.empty(len(lengths), dtype=np.int64)
        is_whole = whole_numbers(joined, lengths, 0, numbers) or whole_numbers(joined, lengths, 2, numbers)
        self.numbers = numbers if is_whole else None

    def order(self) -> NDArray[np.int64]:
        """Codes in the order of their names."""
        from crowdprism.annotations.annotation_kernels import common_prefix, sort_words

        if self.numbers is not None:
            return order_of_rows((self.numbers - self.numbers.min()).view(np.uint64)[:, None])
        skip = common_prefix(self.joined, self.lengths)
        n_words = -(-(int(self.lengths.max()) - skip) // 8) or 1
        keys = np.empty((len(self.lengths), n_words if n_words <= MAX_SORT_WORDS else 0), dtype=np.uint64)
        if n_words > MAX_SORT_WORDS or not sort_words(self.joined, self.lengths, skip, keys):
            return pl.Series(self.texts()).arg_sort().to_numpy()
        return order_of_rows(keys)

    def texts(self) -> list[str]:
        """The names as text, in order of their codes."""
        return self.joined[:-1].tobytes().decode().split("\n")

    def in_order(self, order: NDArray[np.int64]) -> NameArray:
        """The names as the container keeps them. Raises where they are missing or not UTF-8."""
        from crowdprism.annotations.annotation_kernels import join_ordered

        if self.numbers is not None:
            return name_array(self.numbers[order])
        ordered = np.empty_like(self.joined)  # bytes are quicker to put in order than Python's texts
        join_ordered(self.joined, self.lengths, order, ordered)
        texts = ordered[:-1].tobytes().decode().split("\n")
        if self.lengths.min() <= LONGEST_MARKER and any(
            len(text) <= LONGEST_MARKER and text.strip().lower() in MISSING_LABELS for text in texts
        ):
            raise NotPlainError("a cell is missing")
        names = np.empty(len(texts), dtype=object)
        names[:] = texts
        names.flags.writeable = False
        return names


def order_of_rows(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The order of distinct rows (row, word), compared word by word.

    Where the bits that differ at all and the row's number fit one word, as with running numbers, such words are
    sorted: three times as quick as sorting positions.
    """
    n_rows = len(keys)
    if keys.shape[1] == 1 and (keys[1:] > keys[:-1]).all():
        return np.arange(n_rows)
    index_bits = max(n_rows - 1, 1).bit_length()
    varying = [int(word) for word in np.bitwise_or.reduce(keys ^ keys[0], axis=0)]
    if sum(bits.bit_count() for bits in varying) + index_bits > 64:
        return np.argsort(keys[:, 0]) if keys.shape[1] == 1 else np.lexsort(keys.T[::-1])
    runs = [(word, *run) for word, bits in enumerate(varying) for run in runs_of_ones(bits)]
    packed = np.arange(n_rows, dtype=np.uint64)
    for begin in range(0, n_rows, PACKED_TOGETHER):
        rows = keys[begin : begin + PACKED_TOGETHER]
        value = np.zeros(len(rows), dtype=np.uint64)
        for word, low, width in runs:
            value <<= np.uint64(width)
            value |= (rows[:, word] >> np.uint64(low)) & np.uint64((1 << width) - 1)
        packed[begin : begin + PACKED_TOGETHER] |= value << np.uint64(index_bits)
    packed.sort()
    packed &= np.uint64((1 << index_bits) - 1)
    return packed.view(np.int64)


def runs_of_ones(bits: int) -> list[tuple[int, int]]:
    """Lowest place and width of each run of ones, the highest run first.

    Examples
    --------
    >>> runs_of_ones(0b110100)
    [(4, 2), (2, 1)]
    """
    found = []
    while bits:
        low = (bits & -bits).bit_length() - 1
        width = (~(bits >> low) & ((bits >> low) + 1)).bit_length() - 1
        found.append((low, width))
        bits &= ~(((1 << width) - 1) << low)
    return found[::-1]


class NotPlainError(Exception):
    """The table needs the general reader."""


def read_plain(
    path: Path, *, packing: str, delimiter: str, columns: list[str], roles: dict[str, str]
) -> Annotations | None:
    """Read a plain long table; None if it is not plain after all. `roles` names the three columns."""
    places = [columns.index(roles[role]) for role in REQUIRED]

    def encode(part: tuple[int, int | None]) -> Encoded:
        with opened(path, packing) as file:
            return encode_part(file, *part, ord(delimiter), len(columns), places)

    try:
        with ThreadPoolExecutor(N_THREADS) as pool:
            return finished(list(pool.map(encode, parts_of(path, packing))), pool)
    except (NotPlainError, UnicodeDecodeError, EOFError, OSError, zlib.error):
        return None


class Encoded:
    """The columns of one part of a file as codes, with the names that these codes stand for."""

    def __init__(self) -> None:
        self.tables = [NameTable() for _ in REQUIRED]
        self.blocks: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]] = []


def parts_of(path: Path, packing: str) -> list[tuple[int, int | None]]:
    """Where each thread begins and ends: after the header, at line breaks; a packed file is read by one thread."""
    with opened(path, packing) as file:
        first = line_after(file, 0, MAX_HEADER_BYTES)
        if packing == "gzip":
            return [(first, None)]
        size = path.stat().st_size
        cuts = [first]
        for part in range(1, N_THREADS):
            middle = first + (size - first) * part // N_THREADS
            cuts.append(max(cuts[-1], line_after(file, middle, MAX_LINE_BYTES) if middle < size else size))
    return list(zip(cuts, [*cuts[1:], size], strict=True))


def line_after(file: Any, place: int, longest: int) -> int:
    """The place after the next line break; the end of the file if there is none."""
    file.seek(place)
    head = file.read(longest)
    found = head.find(b"\n")
    if found < 0 and len(head) == longest:
        raise NotPlainError("a very long line")
    return place + (len(head) if found < 0 else found + 1)


def encode_part(file: Any, begin: int, end: int | None, delimiter: int, n_columns: int, places: list[int]) -> Encoded:
    """Read block by block and turn every cell of the wanted columns into the code of its text."""
    from crowdprism.annotations.annotation_kernels import encode_lines

    encoded = Encoded()
    max_rows = BLOCK_BYTES // n_columns + 2  # each cell, even an empty one, is followed by a delimiter or the end
    codes = [np.empty(max_rows, dtype=np.int32) for _ in places]
    role_of_column = np.full(n_columns, -1, dtype=np.int64)
    role_of_column[places] = np.arange(len(places))
    file.seek(begin)
    for buffer, filled in blocks(file, None if end is None else end - begin):
        n_rows = place = 0
        while place < filled:
            first, second, third = (
                (table.slots, table.words, table.state, out) for table, out in zip(encoded.tables, codes, strict=True)
            )
            before = place
            n_rows, place = encode_lines(
                buffer, place, filled, delimiter, role_of_column, (first, second, third), n_rows
            )
            if n_rows < 0:
                raise NotPlainError("quotes or line breaks inside cells, or lines of different lengths")
            if place < filled:
                for table in encoded.tables:
                    table.make_room(filled - before)
        item, annotator, label = (out[:n_rows].copy() for out in codes)
        encoded.blocks.append((item, annotator, label))
    return encoded


def opened(path: Path, packing: str) -> Any:
    """The file as unpacked bytes."""
    return gzip.open(path, "rb") if packing == "gzip" else open(path, "rb", buffering=0)


def blocks(file: Any, n_bytes: int | None) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Whole lines, up to the place given, in one buffer that is used again; `n_bytes` in all, or to the end."""
    buffer: NDArray[np.uint8] = np.zeros(BLOCK_BYTES + BYTES_BEYOND, dtype=np.uint8)
    view = memoryview(buffer)[:BLOCK_BYTES]  # type: ignore[arg-type]
    held = 0
    left = n_bytes
    while True:
        room = BLOCK_BYTES - held if left is None else min(BLOCK_BYTES - held, left)
        n_read = file.readinto(view[held : held + room])
        left = None if left is None else left - n_read
        filled = held + n_read
        if not filled:
            return
        end = filled if not n_read else line_end(buffer, filled)
        yield buffer, end
        if not n_read:
            return
        held = filled - end
        buffer[:held] = buffer[end:filled].copy()


def line_end(buffer: NDArray[np.uint8], before: int) -> int:
    """The place after the last line break before a place; 0 if there is none."""
    low = max(0, before - MAX_LINE_BYTES)
    found = buffer[low:before].tobytes().rfind(b"\n")
    if found < 0 and before:
        raise NotPlainError("a very long line")
    return low + found + 1


def finished(parts: list[Encoded], pool: Executor) -> Annotations | None:
    """Order names and rows."""
    shared, stored, counts = [], [], []
    for tables in zip(*(part.tables for part in parts), strict=True):
        shared.append(shared_codes(list(tables), pool))
        names, own_counts = joined_names(list(tables), shared[-1])
        stored.append(names)
        counts.append(own_counts)
    sizes = len(stored[0].lengths), len(stored[1].lengths), len(stored[2].lengths)
    if sizes[2] < 2:
        return None
    orders = [names.order() for names in stored]
    ranks = [inverse(order) for order in orders]
    rows = []
    for part, item_counts, *codes in zip(parts, counts[0], *shared, strict=True):
        item, annotator, label = (rank[own] for rank, own in zip(ranks, codes, strict=True))
        rows.append(CodedRows(part.blocks, item_counts, item, annotator, label))
    # Python makes the names while compiled code, which needs no interpreter, sorts the rows of each item.
    ordered = in_order(place_parts(rows, pool, sizes=sizes), pool, label_dtype=label_dtype(sizes[2]))
    items, annotators, classes = (names.in_order(order) for names, order in zip(stored, orders, strict=True))
    start, annotator, label = ordered()
    return Annotations(start, annotator, label, items, annotators, classes)


def inverse(order: NDArray[Any]) -> NDArray[np.int32]:
    """The rank of each, from the order of all."""
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank

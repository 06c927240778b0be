"""NumPy and Parquet files, read only after the sizes that they state were compared with the bytes there are.

The table engine allocates what a page header of a Parquet file states and ends the process where that fails, so a
damaged file must not reach it. Headers are Thrift structs in the compact protocol; of them, only numbers are looked at
(https://parquet.apache.org/docs/file-format/metadata/).
"""

from __future__ import annotations

import io
import math
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.unpacking import limit_for, too_large, unzip

KINDS = "biufUS"  # truth values, numbers and text
# What NumPy raises where a header, which is a Python literal, is damaged.
HEADER_ERRORS = (
    ValueError, SyntaxError, TypeError, KeyError, AttributeError, IndexError, TokenError, OverflowError, RecursionError,
    MemoryError,
)  # fmt: skip


def arrays_of(data: bytes, name: str, *, is_archive: bool, max_size: int | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file by name; the one of an .npy file has no name."""
    if not is_archive:
        return {"": array_of(data, name)}
    members = unzip(data, name, max_size=max_size, endings=(".npy",))
    return {member.removesuffix(".npy"): array_of(found, f"{name}/{member}") for member, found in members.items()}


def array_of(data: bytes, name: str) -> NDArray[Any]:
    """Read one array without pickle, after its stated shape was compared with the bytes that are there."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, in_columns, dtype = read(file)
    except HEADER_ERRORS as error:
        raise UnreadableFileError(f"{name} is a damaged or truncated NumPy file ({error}). Save it again.") from error
    if dtype.hasobject:
        raise UnreadableFileError(
            f"{name} holds Python objects, which are stored as pickle and never read. "
            "Save text as a fixed-width array, for example numpy.array(names, dtype=str)."
        )
    content = data[file.tell() :]
    stated = f"{dtype} of shape {list(shape)}"
    if dtype.kind not in KINDS or not math.prod(shape) * dtype.itemsize or min(shape, default=1) < 0:
        raise UnreadableFileError(f"{name} holds {stated}; expected numbers or text, at least one.")
    if math.prod(shape) * dtype.itemsize != len(content):
        raise UnreadableFileError(f"{name} is damaged: it says {stated} but has {len(content)} bytes. Save it again.")
    try:
        return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if in_columns else "C")
    except ValueError as error:  # more dimensions than NumPy has
        raise UnreadableFileError(f"{name} is a damaged or truncated NumPy file ({error}). Save it again.") from error


CELL_BYTES = 16  # what polars takes at least for a cell of text
MAGIC = b"PAR1"
MOST_NESTED = 16  # a footer nests six deep
MOST_PARTS = 2**24  # of one header; that of 50,000 columns has some 4 million, and a part takes up to 100 bytes
BOOLEANS, BYTE, INTEGERS, DOUBLE, BINARY, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
# Numbers of fields in the structs of the format.
ROW_GROUPS, N_ROWS = 4, 3
COLUMNS, COLUMN, N_VALUES, PACKED_SIZE, DATA_START, DICTIONARY_START = 1, 3, 5, 7, 9, 11
PAGE_SIZE, PACKED_PAGE_SIZE, DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 2, 3, 5, 7, 8
Struct = dict[int, Any]
Buffer = bytes | mmap.mmap


def read_parquet(data: bytes, name: str, max_size: int | None) -> pl.DataFrame:
    """Read a Parquet file whose pages and cells fit the limit: a few bytes can stand for millions of equal rows."""
    limit = limit_for(len(data), max_size)
    with damaged_parquet(name):
        n_rows, n_bytes = checked_sizes(data)
        n_cells = sum(n_rows) * max(len(pl.scan_parquet(io.BytesIO(data)).collect_schema()), 1)
        if max(n_bytes, n_cells * CELL_BYTES) <= limit:
            return pl.read_parquet(io.BytesIO(data))
    raise too_large(name, "states that it unpacks to", limit)


@contextmanager
def damaged_parquet(name: str) -> Iterator[None]:
    """Turn what is raised while a Parquet file is read into an error that names the file."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        if isinstance(error, UnreadableFileError):
            raise
        why = str(error).split("\n")[0]
        raise UnreadableFileError(f"{name} is a damaged or truncated Parquet file ({why}). Save it again.") from error


def sizes_of_parquet(path: Path) -> tuple[list[int], int]:
    """As `checked_sizes`, of a file that is not read into memory."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise UnreadableFileError(f"{path} is empty. Export it again.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return checked_sizes(data)


def checked_sizes(data: Buffer) -> tuple[list[int], int]:
    """Rows of each row group, and the unpacked bytes of all pages; raises if a page lies outside the file."""
    groups = row_groups(read_footer(data))
    n_bytes = sum(checked_column(data, column) for group in groups for column in structs(group, COLUMNS))
    return [number(group, N_ROWS) for group in groups], n_bytes


def read_footer(data: Buffer) -> Struct:
    size = int.from_bytes(data[-8:-4], "little")
    if len(data) < 12 or data[-4:] != MAGIC or size > len(data) - 12:
        raise ValueError("it has no footer")
    return Thrift(data, len(data) - 8 - size).struct()


def row_groups(footer: Struct) -> list[Struct]:
    """The row groups; their rows add up to those of the file."""
    groups = structs(footer, ROW_GROUPS)
    n_rows = [number(group, N_ROWS) for group in groups]
    if min(n_rows, default=0) < 0 or sum(n_rows) != number(footer, N_ROWS):
        raise ValueError("its numbers of rows do not add up")
    return groups


def checked_column(data: Buffer, chunk: Struct) -> int:
    """Bytes that the pages of a column unpack to; every page lies in the file and holds a part of the values stated."""
    (column,) = structs(chunk, COLUMN) or [{}]
    n_values, size, start = (number(column, field) for field in (N_VALUES, PACKED_SIZE, DATA_START))
    start = min(start, number(column, DICTIONARY_START, 0) or start)
    if min(n_values, size, start) < 0 or start + size > len(data):
        raise ValueError("a column lies outside the file")
    thrift, found, n_bytes = Thrift(data, start), 0, 0
    while thrift.at < start + size:
        page = thrift.struct()
        unpacked, packed = number(page, PAGE_SIZE), number(page, PACKED_PAGE_SIZE)
        n_names = [number(one, 1) for one in structs(page, DICTIONARY_PAGE)]
        contents = [*structs(page, DATA_PAGE), *structs(page, DATA_PAGE_V2)]
        stated = [value for one in contents for value in one.values() if isinstance(value, int)]
        if min([unpacked, packed, *n_names, *stated]) < 0 or max(n_names, default=0) > max(unpacked, n_values):
            raise ValueError("a page has a negative or impossible size")
        n_bytes += unpacked
        found += sum(number(one, 1) for one in contents)
        thrift.at += packed
    if found != n_values or thrift.at != start + size:
        raise ValueError("the pages of a column do not add up")
    return n_bytes


def number(struct: Struct, field: int, default: int = -1) -> int:
    """A field that is a number; -1, which is no valid size, if it is absent."""
    value = struct.get(field, default)
    return value if isinstance(value, int) else -1


def structs(struct: Struct, field: int) -> list[Struct]:
    """A field that is a struct or a list of structs, as a list."""
    value = struct.get(field, [])
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in found):
        raise ValueError("a header is not as the format has it")
    return found


class Thrift:
    """A reader of Thrift's compact protocol; past the end is a ValueError."""

    def __init__(self, data: Buffer, at: int) -> None:
        self.data = data
        self.at = at
        self.n_parts = 0

    def take(self, size: int) -> bytes:
        self.n_parts += 1
        if not 0 <= size <= len(self.data) - self.at or self.n_parts > MOST_PARTS:
            raise ValueError("a header ends too early, or is too long")
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        number = shift = 0
        while shift < 64:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
        raise ValueError("a header holds a number of more than 64 bits")

    def zigzag(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def struct(self, depth: int = 0) -> Struct:
        if depth > MOST_NESTED:
            raise ValueError("a header is nested too deeply")
        fields: Struct = {}
        field = 0
        while header := self.take(1)[0]:
            field = field + (header >> 4) if header >> 4 else self.zigzag()
            kind = header & 15
            fields[field] = kind == BOOLEANS[0] if kind in BOOLEANS else self.value(kind, depth)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if kind in INTEGERS:
            return self.zigzag()
        if kind in (*BOOLEANS, BYTE, DOUBLE):
            return self.take(8 if kind == DOUBLE else 1)
        if kind == BINARY:
            return self.take(self.varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in LISTS and depth <= MOST_NESTED:
            header = self.take(1)[0]
            size = header >> 4 if header >> 4 < 15 else self.varint()
            return [self.value(header & 15, depth + 1) for _ in range(size)]
        raise ValueError(f"a header holds a value of unknown kind {kind}")  # maps do not occur in this format

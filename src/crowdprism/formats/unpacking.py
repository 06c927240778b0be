"""Bytes of a file or an archive, unpacked under a limit: a size that a file states is checked, not believed."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path

import polars as pl

from crowdprism.errors import InvalidParameterError, UnreadableFileError

GIGABYTE = 1 << 30
MOST_BYTES = 4 * GIGABYTE - 1  # polars holds a text of at most 2**32 - 1 bytes
SHARE_OF_MEMORY = 4  # a table takes about four times its size while it is read
SMALL_ENOUGH = 256 << 20  # packed files may unpack to this much whatever their size
USUAL_RATIO = 100  # tables and JSON seldom pack better; zeros pack 1000:1
DEFLATE_RATIO = 1032  # no deflate stream unpacks to more than this many times its size
CHUNK = 1 << 20
PACKINGS = (".gz", ".zst")
FIRST = "Unpack it before it is read."
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ZSTD_BLOCK = 1 << 17  # the most that one block unpacks to
SKIPPABLE_FRAME = 0x184D2A50
RAW_BLOCK, REPEATED_BLOCK = 0, 1
UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": GIGABYTE}
ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, struct.error,
    NotImplementedError,  # an unknown method of compression
    RuntimeError,  # encrypted
)  # fmt: skip


def size_in_bytes(size: int | str | None) -> int | None:
    """Return a size such as 500000 or "2GB" as a number of bytes; None stays None."""
    if size is None:
        return None
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([KMG]?B?)\s*", str(size).upper())
    number = float(found[1]) * UNITS[found[2]] if found and found[2] in UNITS else 0.0
    if number < 1:
        remedy = "Pass {max_size} as a number of bytes, such as 500000000 or 500MB."
        raise InvalidParameterError(f"{size!r} is not the size of a file.", remedy=remedy)
    return int(number)


def default_limit() -> int:
    """Most bytes of one file, unpacked: 4 GB, or a quarter of the memory if that is less."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a POSIX system
        return MOST_BYTES
    return min(MOST_BYTES, memory // SHARE_OF_MEMORY)


def limit_for(packed_size: int, max_size: int | None) -> int:
    """Most bytes that a packed file may unpack to: as the caller says, else a multiple of its size."""
    if max_size is not None:
        return max_size
    return min(default_limit(), max(SMALL_ENOUGH, USUAL_RATIO * packed_size))


def too_large(name: str, what: str, limit: int) -> UnreadableFileError:
    return UnreadableFileError(
        f"{name} {what} more than {limit / (1 << 20):,.0f} MB, the most that is read. Nothing was read.",
        remedy="If the file is what you expect, allow more with {max_size:'8GB'}.",
    )


def read_bytes(path: Path, max_size: int | None) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFileError(f"{path} is not a regular file but a device, pipe or folder. Pass a file.")
        limit = default_limit() if max_size is None else max_size
        if status.st_size > limit:
            raise too_large(str(path), "holds", limit)
        with path.open("rb") as file:
            return file.read(min(limit, status.st_size + CHUNK))  # Python takes the memory of all it is asked to read
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}. Check the path and its rights.") from error


def packing_of(data: bytes) -> str:
    return "gzip" if data[:2] == GZIP else "zstd" if data[:4] == ZSTD else ""


def unpack(packed: bytes, name: str, max_size: int | None = None) -> bytes:
    """Decompress gzip and zstd under the limit; a file that ends too early is an error, not a shorter file."""
    packing = packing_of(packed)
    if not packing:
        return packed
    limit = limit_for(len(packed), max_size)
    try:
        if packing == "zstd":
            return unpack_zstd(packed, name, limit)
        if len(packed) * DEFLATE_RATIO > limit:  # count first, without keeping anything
            sizes = accumulate(map(len, gzip_chunks(packed)))
            if any(size > limit for size in sizes):
                raise too_large(name, "unpacks to", limit)
        return b"".join(gzip_chunks(packed))
    except (EOFError, OSError, zlib.error, pl.exceptions.PolarsError) as error:
        raise UnreadableFileError(
            f"{name} is a damaged or truncated {packing} file ({error}). Copy or export it again; nothing was read."
        ) from error


def gzip_chunks(packed: bytes) -> Iterator[bytes]:
    """Unpack every gzip member, piece by piece; zeros after the last one are padding."""
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
        yield from iter(partial(file.read, CHUNK), b"")


def unpack_zstd(packed: bytes, name: str, limit: int) -> bytes:
    """Unpack text in zstd with the table reader, as one row, by delimiters that do not occur in text."""
    if zstd_bound(packed) > min(limit, MOST_BYTES):
        raise too_large(name, "may unpack to", limit)
    try:
        cells = pl.read_csv(
            packed, has_header=False, separator="\x01", eol_char="\x02", quote_char=None, infer_schema=False
        )
    except pl.exceptions.NoDataError:
        return b""
    except pl.exceptions.ComputeError as error:
        if "utf-8" not in str(error):
            raise
        raise UnreadableFileError(f"{name} is no text in UTF-8; zstd is read for such text only. {FIRST}") from error
    if cells.height != 1:
        raise UnreadableFileError(f"{name} is no text: it holds the sign U+0002. {FIRST}")
    return "\x01".join(cell or "" for cell in cells.row(0)).encode()


def zstd_bound(packed: bytes) -> int:
    """Most bytes that zstd frames can unpack to, from the headers of their blocks (RFC 8878, 3.1)."""
    at = total = 0
    while at < len(packed):
        magic = int.from_bytes(packed[at : at + 4], "little")
        if magic & ~0xF == SKIPPABLE_FRAME:
            byte_at(packed, at + 7)
            at += 8 + int.from_bytes(packed[at + 4 : at + 8], "little")
            continue
        if packed[at : at + 4] != ZSTD:
            raise EOFError(f"its bytes from {at} on are no zstd frame")
        descriptor = byte_at(packed, at + 4)
        one_segment, dictionary = descriptor >> 5 & 1, (0, 1, 2, 4)[descriptor & 3]
        content_size = (one_segment, 2, 4, 8)[descriptor >> 6]
        at += 5 + (1 - one_segment) + dictionary + content_size
        is_last = False
        while not is_last:
            byte_at(packed, at + 2)
            header = int.from_bytes(packed[at : at + 3], "little")
            is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            total += size if kind in (RAW_BLOCK, REPEATED_BLOCK) else ZSTD_BLOCK
            at += 3 + (1 if kind == REPEATED_BLOCK else size)
        at += 4 * (descriptor >> 2 & 1)  # a checksum
    return total


def byte_at(data: bytes, place: int) -> int:
    """One byte; past the end is an error of the file."""
    if place >= len(data):
        raise EOFError("it ends before the end of its content")
    return data[place]


def unzip(data: bytes, name: str, *, max_size: int | None, endings: tuple[str, ...]) -> dict[str, bytes]:
    """Members of a zip archive with one of the endings, sorted by name, unpacked; all together keep to the limit."""
    limit = limit_for(len(data), max_size)
    members: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            wanted = [one for one in archive.infolist() if data_ending(one.filename) in endings]
            wanted = sorted((one for one in wanted if "__MACOSX" not in one.filename), key=lambda one: one.filename)
            if sum(one.file_size for one in wanted) > limit:
                raise too_large(name, "states that it unpacks to", limit)
            for one in wanted:
                if one.filename in members:
                    raise UnreadableFileError(f"{name} holds two files {one.filename}. Pack it again.")
                members[one.filename] = unpack(archive.read(one), f"{name}/{one.filename}", limit)
                limit -= len(members[one.filename])
    except UnreadableFileError:
        raise
    except ZIP_ERRORS as error:
        raise UnreadableFileError(f"{name} is a damaged or truncated zip file ({error}). Export it again.") from error
    return members


def data_ending(name: str) -> str:
    stem, ending = os.path.splitext(name.lower())
    return os.path.splitext(stem)[1] if ending in PACKINGS else ending

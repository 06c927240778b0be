"""NumPy files as arrays, without pickle; a stated shape is compared with the bytes before anything is allocated."""

from __future__ import annotations

import io
import math
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.unpacking import unzip

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
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[
            version
        ]
        shape, in_columns, dtype = read_header(file)
    except HEADER_ERRORS as error:
        raise UnreadableFileError(f"{name} is a damaged or truncated NumPy file ({error}).") from error
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
        raise UnreadableFileError(
            f"{name} is damaged or truncated: it states {stated} but holds {len(content)} bytes. Save it again."
        )
    try:
        return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if in_columns else "C")
    except ValueError as error:  # more dimensions than NumPy has
        raise UnreadableFileError(f"{name} is a damaged or truncated NumPy file ({error}).") from error

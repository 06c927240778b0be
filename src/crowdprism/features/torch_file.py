"""Tensors out of an old torch file, read as data: nothing in the file can run.

Files of `torch.save` before version 1.6 are five pickles and the raw numbers. A pickle is a program for a small stack
machine; loading it lets the file call functions. Here its instructions are listed (`pickletools.genops`, which executes
nothing) and followed by a machine of our own that knows dictionaries, tuples, numbers, texts, and two constructions: an
ordered dictionary and a tensor made from a storage. Anything else is refused.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import UnreadableFileError

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
STORAGES = {"torch FloatStorage": "<f4", "torch DoubleStorage": "<f8", "torch LongStorage": "<i8"}
MARK = object()
SIMPLE = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
WITH_VALUE = {"LONG1", "BININT", "BININT1", "BININT2", "BINUNICODE"}
ENDS = {"PROTO", "STOP"}


@dataclass(frozen=True)
class Word:
    """The name of a function or class that the file asks for; it is never looked up."""

    name: str


@dataclass(frozen=True)
class Storage:
    """A block of numbers that follows the pickles."""

    key: str
    dtype: str


@dataclass(frozen=True)
class View:
    """A tensor as a view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch_file(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a state dict that old torch saved, by name, as NumPy arrays.

    A file that holds anything but tensors by name is refused, and nothing of it is executed.
    """
    try:
        with path.open("rb") as file:
            if follow(file) != MAGIC or follow(file) != PROTOCOL:
                raise UnreadableFileError("It is no file of tensors as torch saved them before version 1.6.")
            follow(file)  # sizes of C types on the machine that wrote it
            state, keys = follow(file), follow(file)
            dtypes = {view.storage.key: view.storage.dtype for view in state.values() if isinstance(view, View)}
            numbers = {key: read_storage(file, dtypes[key]) for key in keys}
    except (ValueError, KeyError, IndexError, AttributeError, TypeError, struct.error, OSError) as error:
        kind = "" if isinstance(error, UnreadableFileError) else f"{type(error).__name__}: "
        raise UnreadableFileError(f"{path} cannot be read as tensors: {kind}{error}") from error
    return {name: array_of(view, numbers) for name, view in state.items() if isinstance(view, View)}


def read_storage(file: IO[bytes], dtype: str) -> NDArray[Any]:
    """The next block of numbers: how many, then they."""
    (count,) = struct.unpack("<q", file.read(8))
    return np.frombuffer(file.read(count * np.dtype(dtype).itemsize), dtype=dtype, count=count)


def array_of(view: View, numbers: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """A copy of a tensor's numbers in its shape; a view that reaches beyond its storage is refused."""
    storage = numbers[view.storage.key]
    furthest = view.offset + sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))
    if min((view.offset, *view.shape, *view.strides)) < 0 or furthest >= len(storage) or 0 in view.shape:
        raise UnreadableFileError(f"A tensor of shape {view.shape} reaches beyond its {len(storage)} numbers.")
    strides = [stride * storage.itemsize for stride in view.strides]
    return np.lib.stride_tricks.as_strided(storage[view.offset :], view.shape, strides).copy()


def follow(file: IO[bytes]) -> Any:
    """Follow the instructions of the next pickle in the file, none of which leaves this function."""
    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    for instruction, value, _ in pickletools.genops(file):
        name = instruction.name
        if name in SIMPLE:
            stack.append(SIMPLE[name])
        elif name in WITH_VALUE:
            stack.append(value)
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[value] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[value])
        elif name in STEPS:
            STEPS[name](stack, value)
        elif name not in ENDS:
            raise UnreadableFileError(f"The file has the instruction {name}, which tensors do not need.")
    return stack[-1]


def since_mark(stack: list[Any]) -> list[Any]:
    """Take what stands above the last mark."""
    place = max(at for at, one in enumerate(stack) if one is MARK)
    taken = stack[place + 1 :]
    del stack[place:]
    return taken


def last(stack: list[Any], count: int) -> list[Any]:
    """Take the last few."""
    taken = stack[-count:]
    del stack[-count:]
    return taken


def put_items(stack: list[Any], pairs: list[Any]) -> None:
    """Put keys and values into the dictionary below them."""
    stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))


def construct(stack: list[Any], value: Any) -> None:
    """An ordered dictionary, or a tensor from its storage; any other call is refused."""
    function, arguments = last(stack, 2)
    if function == Word("collections OrderedDict") and not arguments:
        stack.append({})
    elif function == Word("torch._utils _rebuild_tensor_v2"):
        storage, offset, shape, strides = arguments[:4]
        stack.append(View(storage, offset, shape, strides))
    else:
        raise UnreadableFileError(f"The file asks to call {function}, which tensors do not need.")


def name_storage(stack: list[Any], value: Any) -> None:
    """A storage, by its kind and key."""
    parts = stack.pop()
    if parts[0] != "storage" or parts[1].name not in STORAGES:
        raise UnreadableFileError(f"The file holds a storage of an unknown kind: {parts[:2]}.")
    stack.append(Storage(parts[2], STORAGES[parts[1].name]))


STEPS: dict[str, Callable[[list[Any], Any], None]] = {
    "GLOBAL": lambda stack, value: stack.append(Word(value)),
    "EMPTY_TUPLE": lambda stack, value: stack.append(()),
    "EMPTY_DICT": lambda stack, value: stack.append({}),
    "EMPTY_LIST": lambda stack, value: stack.append([]),
    "MARK": lambda stack, value: stack.append(MARK),
    "TUPLE": lambda stack, value: stack.append(tuple(since_mark(stack))),
    "TUPLE1": lambda stack, value: stack.append(tuple(last(stack, 1))),
    "TUPLE2": lambda stack, value: stack.append(tuple(last(stack, 2))),
    "TUPLE3": lambda stack, value: stack.append(tuple(last(stack, 3))),
    "APPENDS": lambda stack, value: (lambda more: stack[-1].extend(more))(since_mark(stack)),
    "APPEND": lambda stack, value: (lambda more: stack[-1].extend(more))(last(stack, 1)),
    "SETITEMS": lambda stack, value: (lambda pairs: put_items(stack, pairs))(since_mark(stack)),
    "SETITEM": lambda stack, value: (lambda pairs: put_items(stack, pairs))(last(stack, 2)),
    "BUILD": lambda stack, value: stack.__delitem__(-1),  # attributes of a dictionary, such as its version
    "REDUCE": construct,
    "BINPERSID": name_storage,
}

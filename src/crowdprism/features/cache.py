"""Embeddings kept in the cache folder, so that a second run begins at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.atomic import replacing_file
from crowdprism.datasets.places import cache_folder

EMBEDDINGS = "embeddings"
VERSION = 1  # raise it when an embedding changes


def remembered(what: Iterable[Any], make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """The array that `make` returns, from the cache where `what` was described before.

    A cache that cannot be read or written costs time only.
    """
    key = hashlib.sha256(json.dumps([VERSION, *what], default=str).encode()).hexdigest()
    path = cache_folder() / EMBEDDINGS / f"{key[:32]}.npy"
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError):
        pass
    made = make()
    try:
        with replacing_file(path, suffix=".npy") as fresh:
            np.save(fresh, made)
    except OSError:
        pass
    return made


def marks_of(path: Path) -> tuple[str, int, int]:
    """What tells whether a file has changed: its place, size and time."""
    status = path.stat()
    return str(path.resolve()), status.st_size, status.st_mtime_ns

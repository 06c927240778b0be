"""CIFAR-10 images that are kept as JPEG mosaics of 100 x 100 images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import MissingDependencyError, UnreadableFileError

PER_ROW = 100
SIDE = 32


def read_mosaics(paths: Sequence[Path]) -> NDArray[np.uint8]:
    """(n_items, 32, 32, 3): the images of each mosaic, row by row, one mosaic after the other."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(
            "These images are JPEG files, which need Pillow: pip install pillow. "
            "The exact images can be fetched instead: crowdprism datasets fetch cifar10"
        ) from error
    found = []
    for path in paths:
        try:
            with Image.open(path) as picture:
                found.append(tiles_of(np.asarray(picture)))
        except (OSError, ValueError) as error:
            raise UnreadableFileError(f"{path} cannot be read ({error}). Copy the file again.") from error
    return np.concatenate(found)


def tiles_of(mosaic: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(3200, 3200, 3) -> (10000, 32, 32, 3)."""
    grid = mosaic.reshape(PER_ROW, SIDE, PER_ROW, SIDE, 3)
    return grid.transpose(0, 2, 1, 3, 4).reshape(-1, SIDE, SIDE, 3)

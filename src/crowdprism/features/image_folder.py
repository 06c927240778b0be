"""Images in a folder: which there are, which items they show, and their pixels."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidAnnotationsError, MissingDependencyError, UnreadableFileError, some
from crowdprism.features.matching import match_files

ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
MOST_PIXELS = 200_000_000  # a picture that unpacks to more is taken for an attack or a mistake


def image_files(folder: Path) -> list[PurePosixPath]:
    """Images below a folder, as paths from there, in the order of their names; an empty folder is an error."""
    found = sorted(
        PurePosixPath(path.relative_to(folder).as_posix())
        for path in folder.rglob("*")
        if path.suffix.lower() in ENDINGS and path.is_file() and not path.name.startswith(".")
    )
    if not found:
        holds = some(sorted(os.listdir(folder)), 5) or "nothing"
        raise UnreadableFileError(
            f"The folder {folder} holds no image ({', '.join(ENDINGS)}); it holds {holds}. "
            "Pass a folder of images, or a file of features (.npy, .npz, .csv, .tsv, .parquet)."
        )
    return found


def images_of_items(
    folder: Path, ids: Sequence[Hashable], other_names: Mapping[Any, Sequence[str]]
) -> dict[Any, PurePosixPath]:
    """The image of each item that has one.

    Parameters
    ----------
    ids
        Items, by the user's own names.
    other_names
        What else an item is called where its id is no file name, such as the address in its task.
    """
    files = image_files(folder)
    found = dict(zip(ids, match_files(ids, files), strict=True))
    if not any(place is not None for place in found.values()):
        for name in ids:
            places = match_files(other_names.get(name, ()), files)
            found[name] = next((place for place in places if place is not None), None)
    matched = {name: files[place] for name, place in found.items() if place is not None}
    if not matched:
        raise InvalidAnnotationsError(
            f"None of the {len(files)} images in {folder} belongs to an annotated item. Images are called "
            f"{some([str(file) for file in files])}; items are called {some(list(ids))}. "
            "Rename the files after the items, or say with item=... which field of the annotations names the file."
        )
    require_one_each(matched)
    return matched


def require_one_each(matched: Mapping[Any, PurePosixPath]) -> None:
    """Raise where two items would have the same image."""
    owner: dict[PurePosixPath, Any] = {}
    for name, file in matched.items():
        if owner.setdefault(file, name) != name:
            raise InvalidAnnotationsError(
                f"The image {file} belongs to two items, {owner[file]!r} and {name!r}. Use ids that tell them apart."
            )


def pixels_of(path: Path, side: int) -> NDArray[np.uint8]:
    """(side, side, 3) colours of an image, scaled so that the whole picture is kept."""
    Image = pillow()
    try:
        with Image.open(path) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise UnreadableFileError(f"{path} has {picture.width} x {picture.height} pixels, which is too many.")
            picture.draft("RGB", (side, side))  # lets JPEG unpack at a smaller size, which is much quicker
            return np.asarray(picture.convert("RGB").resize((side, side), Image.Resampling.BICUBIC))
    except UnreadableFileError:
        raise
    except Exception as error:  # Pillow raises many kinds for damaged files
        raise UnreadableFileError(f"{path} cannot be read as an image: {error}. Save it again or remove it.") from error


def pillow() -> Any:
    """Pillow's Image, or an error that says how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingDependencyError(
            'Images need Pillow: pip install "crowdprism[images]" (which also brings a pretrained network).'
        ) from error
    return Image

"""Images in a folder: which files there are, which item each shows, and their pixels."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from crowdprism.datasets.folder import import_pillow
from crowdprism.errors import InvalidAnnotationsError, UnreadableFileError, some

ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
MOST_PIXELS = 200_000_000  # a larger image is an attack or a mistake
UPLOAD_PREFIX = re.compile(r"^[0-9a-f]{6,}-")  # Label Studio puts a hash before the name of an uploaded file
AMBIGUOUS = -1


def image_files(folder: Path) -> list[PurePosixPath]:
    """Images below a folder, as sorted relative paths; a folder without images is an error."""
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
    files: Sequence[PurePosixPath], ids: Sequence[Hashable], other_names: Mapping[Any, Sequence[str]], folder: Path
) -> dict[Any, PurePosixPath]:
    """The image of each item that has one; `other_names` are tried only when no id matches a file.

    Two items with the same image are an error, and so are images that match no item at all.
    """
    found = dict(zip(ids, match_files(ids, files), strict=True))
    if all(place is None for place in found.values()):
        for name in ids:
            places = match_files(other_names.get(name, ()), files)
            found[name] = next((place for place in places if place is not None), None)
    matched = {name: files[place] for name, place in found.items() if place is not None}
    if not matched:
        raise InvalidAnnotationsError(
            f"None of the {len(files)} images in {folder} matches an annotated item. Images are called "
            f"{some([str(file) for file in files])}; items are called {some(list(ids))}.",
            remedy="Rename the files after the items, or name the field that holds the file name with {item}",
        )
    owner: dict[PurePosixPath, Any] = {}
    for name, file in matched.items():
        if owner.setdefault(file, name) != name:
            raise InvalidAnnotationsError(
                f"The image {file} matches two items, {owner[file]!r} and {name!r}. Use ids that tell them apart."
            )
    return matched


def match_files(ids: Sequence[Hashable], files: Sequence[PurePosixPath]) -> list[int | None]:
    """The position of each id's file, or None.

    An id matches a file if it equals the end of the file's path, with or without the suffix: the more folders both
    name, the better (`photos/a/1.png` matches `a/1.png`, not `b/1.png`). The path of a URL counts as an id, and a whole
    number matches a stem with leading zeros. An id that matches several files equally well matches none.
    """
    index: dict[str, int] = {}
    for place, path in enumerate(files):
        number = {str(int(path.stem))} if path.stem.isascii() and path.stem.isdigit() else set()
        for key in {*tails(path), *tails(path.with_suffix("")), *number}:
            index[key] = place if index.setdefault(key, place) == place else AMBIGUOUS
    found = (next((index[one] for one in candidates(name) if one in index), AMBIGUOUS) for name in ids)
    return [None if place == AMBIGUOUS else place for place in found]


def tails(path: PurePosixPath) -> list[str]:
    """Every end of a path, the longest first: `a/b/c`, `b/c`, `c`."""
    parts = [part for part in path.parts if part not in ("/", ".")]
    return ["/".join(parts[start:]) for start in range(len(parts))]


def candidates(name: Any) -> list[str]:
    """File names that an id may stand for, the most specific first."""
    text = str(name).replace("\\", "/")
    found = tails(PurePosixPath(text))
    address = unquote(urlsplit(text).path) if "://" in text or "?" in text or "%" in text else text
    for tail in tails(PurePosixPath(address)):
        folder, _, last = tail.rpartition("/")
        found += [tail, f"{folder}/{UPLOAD_PREFIX.sub('', last)}".lstrip("/")]
    return found


def read_pixels(path: Path, side: int) -> NDArray[np.uint8]:
    """(side, side, 3) RGB pixels of the whole image, scaled and not cropped."""
    Image = import_pillow('pip install "crowdprism[images]" (this also installs a pretrained network).')
    try:
        with Image.open(path) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise UnreadableFileError(
                    f"{path} has {picture.width} x {picture.height} pixels; at most {MOST_PIXELS} are read."
                )
            picture.draft("RGB", (side, side))  # lets JPEG decode at a smaller size, which is much faster
            return np.asarray(picture.convert("RGB").resize((side, side), Image.Resampling.BICUBIC))
    except UnreadableFileError:
        raise
    except Exception as error:  # Pillow raises many kinds for damaged files
        raise UnreadableFileError(f"{path} cannot be read as an image: {error}. Save it again or remove it.") from error

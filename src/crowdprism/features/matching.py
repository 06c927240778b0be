"""Which file belongs to which item: by path, name or stem, also where ids are addresses."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

UPLOAD_PREFIX = re.compile(r"^[0-9a-f]{6,}-")  # Label Studio puts a hash before the name of an uploaded file
AMBIGUOUS = -1


def match_files(ids: Sequence[Hashable], files: Sequence[PurePosixPath]) -> list[int | None]:
    """For each id the position of its file, or None.

    A path matches by its last parts, as many as decide (`photos/a/1.png` is `a/1.png`, not `b/1.png`); an id without
    ending matches a stem; an address matches by its path; a whole number matches a stem with leading zeros. An id that
    fits several files equally well matches none.

    Examples
    --------
    >>> files = [PurePosixPath("a/1.png"), PurePosixPath("b/1.png"), PurePosixPath("0007.jpg")]
    >>> match_files(["https://host/x/b/1.png?v=2", 7, "1.png"], files)
    [1, 2, None]
    """
    index = tails_of(files)
    return [first_match(index, candidates(name)) for name in ids]


def tails_of(files: Iterable[PurePosixPath]) -> dict[str, int]:
    """Every ending of a path, with and without suffix, and the file it stands for; AMBIGUOUS where several do."""
    index: dict[str, int] = {}
    for place, path in enumerate(files):
        for key in {*tails(path), *tails(path.with_suffix("")), *number_of(path)}:
            index[key] = place if index.setdefault(key, place) == place else AMBIGUOUS
    return index


def tails(path: PurePosixPath) -> list[str]:
    """The last parts of a path, the longest first."""
    parts = [part for part in path.parts if part not in ("/", ".")]
    return ["/".join(parts[start:]) for start in range(len(parts))]


def number_of(path: PurePosixPath) -> set[str]:
    """A stem of digits without leading zeros."""
    return {str(int(path.stem))} if path.stem.isascii() and path.stem.isdigit() else set()


def candidates(name: Any) -> list[str]:
    """What an id may be called as a file, the most exact first."""
    text = str(name).replace("\\", "/")
    found = tails(PurePosixPath(text))
    address = unquote(urlsplit(text).path) if "://" in text or "?" in text or "%" in text else text
    for tail in tails(PurePosixPath(address)):
        folder, _, last = tail.rpartition("/")
        found += [tail, f"{folder}/{UPLOAD_PREFIX.sub('', last)}".lstrip("/")]
    return found


def first_match(index: dict[str, int], names: Iterable[str]) -> int | None:
    """The file of the first name that decides; a name that fits several files ends the search."""
    for name in names:
        place = index.get(name)
        if place is not None:
            return None if place == AMBIGUOUS else place
    return None

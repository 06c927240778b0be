"""The catalogue of data sets (`catalogue.toml`), and downloads of their files, resumed and verified."""

from __future__ import annotations

import difflib
import hashlib
import os
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from crowdprism import __version__
from crowdprism.errors import DownloadError, InvalidParameterError
from crowdprism.progress import Bar, progress

Kind = Literal["files", "embedded"]


@dataclass(frozen=True)
class Download:
    """One public file: its addresses, its name in the cache, and how to check that it is complete."""

    urls: tuple[str, ...]
    file: str
    checksum: str | None = None  # "sha256:..." or "md5:..."
    n_bytes: int | None = None


@dataclass(frozen=True)
class DatasetEntry:
    """What the catalogue knows about one data set.

    Attributes
    ----------
    n_items, n_annotated, n_gold
        Items in all, items with at least one annotation, items whose true class is known.
    label_accuracy, annotator_accuracy, majority_vote
        Per cent correct: of all annotations, mean over annotators, of the majority vote with ties split evenly.
    files
        SHA-256 by name of the files in the set's folder under `CROWDPRISM_DATA`.
    downloads
        Public files that can be fetched in place of that folder; empty if there are none.
    """

    name: str
    what: str
    classes: tuple[Any, ...]
    n_items: int
    splits: Mapping[str, int]
    licence: str
    citation: str
    origin: str
    kind: Kind = "files"
    folder: str = ""
    n_annotated: int = 0
    n_annotators: int = 0
    n_annotations: int = 0
    n_gold: int = 0
    n_repeats: int = 0
    label_accuracy: float | None = None
    annotator_accuracy: float | None = None
    majority_vote: float | None = None
    features: tuple[str, ...] = ()
    images: bool = False
    texts: bool = False
    extras: tuple[str, ...] = ()
    remarks: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    downloads: tuple[Download, ...] = ()

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def can_be_fetched(self) -> bool:
        """Whether the set is publicly downloadable."""
        return bool(self.downloads)


@cache
def catalogue() -> Mapping[str, DatasetEntry]:
    """Every data set by name.

    Examples
    --------
    >>> catalogue()["music"].n_annotations
    2945
    """
    text = resources.files("crowdprism.datasets").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return {name: _entry_of(name, record) for name, record in tomllib.loads(text).items()}


def _entry_of(name: str, record: dict[str, Any]) -> DatasetEntry:
    downloads = tuple(Download(**{**one, "urls": tuple(one["urls"])}) for one in record.pop("downloads", ()))
    listed: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in record.items()}
    listed.setdefault("folder", name)
    listed.setdefault("n_gold", listed["n_items"])
    return DatasetEntry(name=name, downloads=downloads, **listed)


def find_entry(name: str) -> DatasetEntry:
    """The record of one data set; `truth_inference/rte` means `rte`."""
    known = catalogue()
    short = str(name).removeprefix("truth_inference/").replace("-", "_")
    if short in known:
        return known[short]
    near = difflib.get_close_matches(short, known, n=3)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    raise InvalidParameterError(f"There is no data set {name!r}. {hint}There are {', '.join(known)}.")


BYTES_PER_STEP = 1 << 20  # the bar counts megabytes
ATTEMPTS = 3


class _FailedTransferError(Exception):
    """The connection ended early, or the complete file has the wrong checksum."""


# Errors after which the next address is tried; any other OSError comes from writing to disk.
_FAILURES = (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError, _FailedTransferError)


def fetch_file(download: Download, folder: Path) -> Path:
    """The path of a public file in `folder`, downloaded if needed: each address in turn, resumed `ATTEMPTS` times."""
    target, part = folder / download.file, folder / f".{download.file}.part"
    if target.is_file():
        return target
    failures = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.open("ab").close()
        for url in download.urls:
            try:
                _fetch_from(url, part, download)
                os.replace(part, target)
                return target
            except _FAILURES as error:
                failures.append(f"{url}: {getattr(error, 'reason', None) or error}")
    except OSError as error:
        raise DownloadError(
            f"Cannot write into the cache folder {folder} ({error.strerror or error}). "
            "Free some space, or set CROWDPRISM_CACHE to a folder that you can write to."
        ) from error
    kept = part.stat().st_size if part.exists() else 0
    if not kept:
        part.unlink(missing_ok=True)
    listed = "\n".join(f"  {failure}" for failure in failures)
    left = f"{kept} bytes were kept; the next call resumes there." if kept else "Nothing was kept."
    raise DownloadError(
        f"{download.file} could not be downloaded:\n{listed}\n{left} You can also put the file into {folder} yourself."
    )


def _fetch_from(url: str, part: Path, download: Download) -> None:
    """Complete and verify `part`; remove it if the checksum is wrong."""
    continued = part.exists() and part.stat().st_size > 0
    _transfer(url, part, download)
    found = download.checksum and checksum(part, like=download.checksum)
    if continued and found != download.checksum:  # the part may be of another version: start again
        part.unlink()
        _transfer(url, part, download)
        found = checksum(part, like=download.checksum)
    if found != download.checksum:
        part.unlink()
        raise _FailedTransferError(f"the checksum of the received file is {found}, not {download.checksum}")


def _transfer(url: str, part: Path, download: Download) -> None:
    for _ in range(ATTEMPTS - 1):
        with suppress(_FailedTransferError, TimeoutError, ConnectionError):
            return _receive(url, part, download)
    return _receive(url, part, download)


def _receive(url: str, part: Path, download: Download) -> None:
    begun = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": f"crowdprism/{__version__}", "Accept-Encoding": "identity"}
    if begun:
        headers["Range"] = f"bytes={begun}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30.0)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not begun:
            raise
        if error.headers.get("Content-Range") == f"bytes */{begun}":
            return  # complete already; the checksum is verified next
        part.unlink()  # longer than the file, so it is of another version
        raise _FailedTransferError("the part on disk did not fit") from error
    with response:
        if response.status != HTTPStatus.PARTIAL_CONTENT:
            begun = 0
        length = response.headers.get("Content-Length")
        total = download.n_bytes if length is None else begun + int(length)
        steps = None if total is None else -(-total // BYTES_PER_STEP)
        with progress(f"fetching {download.file} (MB)", steps) as bar, part.open("ab" if begun else "wb") as file:
            bar.advance(begun // BYTES_PER_STEP)
            size = begun + _copy(response, file, bar)
    if total is not None and size < total:
        raise _FailedTransferError(f"the transfer ended after {size} of {total} bytes")


def _copy(response: Any, file: Any, bar: Bar) -> int:
    n_bytes = 0
    try:
        while chunk := response.read(1 << 18):
            file.write(chunk)
            bar.advance((n_bytes + len(chunk)) // BYTES_PER_STEP - n_bytes // BYTES_PER_STEP)
            n_bytes += len(chunk)
    except HTTPException as error:
        raise _FailedTransferError(f"the transfer ended after {n_bytes} bytes") from error
    return n_bytes


def checksum(path: Path, *, like: str | None = None) -> str:
    """Checksum of a file as `kind:hexadecimal`, of the same kind as `like` (by default SHA-256)."""
    kind = "sha256" if like is None else like.partition(":")[0]
    with path.open("rb") as file:
        return f"{kind}:{hashlib.file_digest(file, kind).hexdigest()}"

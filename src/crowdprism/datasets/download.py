"""Fetch a public file: continued where it was cut, checked, and in its place only when whole.

Only the standard library is used: what matters here, continuing a transfer with a Range request, is what the usual
download packages lack.
"""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

from crowdprism import __version__
from crowdprism.datasets.catalogue import Download
from crowdprism.errors import DownloadError
from crowdprism.progress import Bar, progress

CHUNK_BYTES = 1 << 18
BYTES_PER_STEP = 1 << 20  # the bar counts megabytes
TIMEOUT_SECONDS = 30.0
ATTEMPTS = 3
RANGE_NOT_SATISFIABLE = 416
PARTIAL_CONTENT = 206


class _CutTransferError(Exception):
    """The connection ended early; a part of the file is on disk."""


class _WrongContentError(Exception):
    """What arrived is whole but not the file that was wanted; it was removed."""


# Reasons to try the next address; any other OSError is about writing to disk.
_FAILURES = (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError, _CutTransferError, _WrongContentError)


def fetch_file(download: Download, folder: Path) -> Path:
    """Return the path of a public file in `folder`, fetched if it is not there.

    A transfer that is cut is continued up to `ATTEMPTS` times, then by the next call. A file whose checksum is
    wrong is removed. Each address is tried in turn.
    """
    target = folder / download.file
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f".{download.file}.part"
        part.open("ab").close()
    except OSError as error:
        raise _unwritable(folder, error) from error
    failures = []
    for url in download.urls:
        try:
            _fetch_from(url, part, download)
        except _FAILURES as error:
            failures.append(f"{url}: {getattr(error, 'reason', None) or error}")
            continue
        except OSError as error:
            raise _unwritable(folder, error) from error
        os.replace(part, target)
        return target
    raise _not_fetched(part, download, failures)


def _fetch_from(url: str, part: Path, download: Download) -> None:
    """Bring `part` to the whole, right file; leave nothing where the content is wrong."""
    continued = part.exists() and part.stat().st_size > 0
    _transfer(url, part, download)
    if _is_right(part, download):
        return
    if continued:  # what an earlier call left may be of another version: once more from the start
        part.unlink()
        _transfer(url, part, download)
        if _is_right(part, download):
            return
    found = _digest(part, download.checksum)
    part.unlink()
    raise _WrongContentError(f"the checksum of what it sent is {found}, not {download.checksum}")


def _transfer(url: str, part: Path, download: Download) -> None:
    for attempt in range(ATTEMPTS):
        try:
            return _receive(url, part, download)
        except (_CutTransferError, TimeoutError, ConnectionError):
            if attempt == ATTEMPTS - 1:
                raise
    return None


def _receive(url: str, part: Path, download: Download) -> None:
    """Append to `part` what it lacks."""
    begun = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": f"crowdprism/{__version__}", "Accept-Encoding": "identity"}
    if begun:
        headers["Range"] = f"bytes={begun}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != RANGE_NOT_SATISFIABLE or not begun:
            raise
        if error.headers.get("Content-Range") == f"bytes */{begun}":
            return  # nothing is lacking; the checksum tells whether it is right
        part.unlink()  # longer than the file: of another version
        raise _CutTransferError("the part on disk did not fit") from error
    with response:
        if response.status != PARTIAL_CONTENT:
            begun = 0
        total = _total_bytes(response, begun, download)
        steps = None if total is None else -(-total // BYTES_PER_STEP)
        with progress(f"fetching {download.file} (MB)", steps) as bar, part.open("ab" if begun else "wb") as file:
            bar.advance(begun // BYTES_PER_STEP)
            size = begun + _copy(response, file, bar)
    if total is not None and size < total:
        raise _CutTransferError(f"the transfer ended after {size} of {total} bytes")


def _total_bytes(response: Any, begun: int, download: Download) -> int | None:
    """Size of the whole file as the server tells it, else as the catalogue does."""
    length = response.headers.get("Content-Length")
    return begun + int(length) if length is not None else download.n_bytes


def _copy(response: Any, file: Any, bar: Bar) -> int:
    """Write what arrives, and say how many bytes that was."""
    n_bytes = 0
    while True:
        try:
            chunk = response.read(CHUNK_BYTES)
        except HTTPException as error:
            raise _CutTransferError(f"the transfer ended after {n_bytes} bytes") from error
        if not chunk:
            return n_bytes
        file.write(chunk)
        steps_before = n_bytes // BYTES_PER_STEP
        n_bytes += len(chunk)
        bar.advance(n_bytes // BYTES_PER_STEP - steps_before)


def _is_right(path: Path, download: Download) -> bool:
    """Tell whether the checksum is the expected one; without one, the transfer's own length must do."""
    return download.checksum is None or _digest(path, download.checksum) == download.checksum


def _digest(path: Path, like: str | None) -> str:
    kind = "sha256" if like is None else like.partition(":")[0]
    with path.open("rb") as file:
        return f"{kind}:{hashlib.file_digest(file, kind).hexdigest()}"


def _unwritable(folder: Path, error: OSError) -> DownloadError:
    return DownloadError(
        f"Cannot write into the cache folder {folder} ({error.strerror or error}). "
        "Make room or set CROWDPRISM_CACHE to a folder that can be written to."
    )


def _not_fetched(part: Path, download: Download, failures: list[str]) -> DownloadError:
    kept = part.stat().st_size if part.exists() else 0
    if not kept:
        part.unlink(missing_ok=True)
    told = "\n".join(f"  {failure}" for failure in failures)
    left = f"{kept} bytes are kept; the next try continues there." if kept else "Nothing was kept."
    return DownloadError(
        f"{download.file} could not be fetched:\n{told}\n{left} You can also put the file into {part.parent} yourself."
    )

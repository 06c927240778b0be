"""Atomic writing, and the folders that crowdprism reads data sets from and caches files in.

A file or folder is written under a temporary name beside its target and renamed once it is complete, so that an
interrupted program leaves the old content or none.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DATA_VARIABLE = "CROWDPRISM_DATA"
CACHE_VARIABLE = "CROWDPRISM_CACHE"


@contextmanager
def replacing_file(path: str | os.PathLike[str], suffix: str = "") -> Iterator[Path]:
    """Yield a temporary path beside `path`; it replaces `path` only if the block succeeds.

    Parameters
    ----------
    suffix
        Ending of the temporary name, for writers that choose the format by it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing_file(f"{folder}/labels.csv") as fresh:
    ...         _ = fresh.write_text("item,label")
    ...     os.listdir(folder)
    ['labels.csv']
    """
    target = Path(path)
    fresh = _temporary_path(target, suffix)
    fresh.touch(exist_ok=False)  # fails before the work if the folder cannot be written to
    try:
        yield fresh
        os.replace(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new empty folder beside `path`; it replaces `path` only if the block succeeds."""
    target = Path(path)
    fresh = _temporary_path(target)
    fresh.mkdir()
    try:
        yield fresh
        _swap(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _temporary_path(target: Path, suffix: str = "") -> Path:
    """A hidden name beside `target` that nothing has yet; the parent folder is made if it is missing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.parent / f".{target.name}.{secrets.token_hex(8)}{suffix}"


def _swap(fresh: Path, target: Path) -> None:
    """Rename `fresh` to `target`; the old folder is deleted only after that succeeded."""
    if not target.exists():
        os.rename(fresh, target)
        return
    old = _temporary_path(target, ".old")
    os.rename(target, old)
    try:
        os.rename(fresh, target)
    except OSError:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def data_folder() -> Path | None:
    """The folder named by `CROWDPRISM_DATA`, or None if that is not set."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """The folder named by `CROWDPRISM_CACHE`, by default the platform's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "crowdprism" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "crowdprism"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crowdprism"

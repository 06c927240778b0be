"""Files that appear complete or not at all, locks, and the folders that crowdprism reads data sets from and caches in.

A file is written under a temporary name beside its target and renamed once it is complete, so that an interrupted
program leaves the old content or none. What killed programs left behind is removed by the next one that writes there:
a program holds a lock on what it is writing, and the system releases the locks of a process that ends.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

DATA_VARIABLE = "CROWDPRISM_DATA"
CACHE_VARIABLE = "CROWDPRISM_CACHE"
TOKEN = r"[0-9a-f]{16}"  # the random part of a temporary name
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # opening a FIFO returns at once


def new_token() -> str:
    """A random part for a temporary name; matches `TOKEN`."""
    return secrets.token_hex(8)


@contextmanager
def replacing_file(path: str | os.PathLike[str], suffix: str = "") -> Iterator[Path]:
    """Yield a temporary path beside `path`, with an ending if wanted; it replaces `path` only if the block succeeds."""
    target = Path(path)
    if os.path.lexists(target) and not stat.S_ISREG(os.lstat(target).st_mode):
        raise FileExistsError(errno.EEXIST, "It exists and is no regular file", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    fresh = target.parent / f".{target.name}.{new_token()}{suffix}"
    try:
        with locked(fresh):  # fails before the work if the folder cannot be written to
            yield fresh
            os.replace(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], text: str) -> Path:
    with replacing_file(path) as fresh:
        fresh.write_text(text, encoding="utf-8")
    return Path(path)


def remove_leftovers(target: Path) -> None:
    """Remove temporary files of killed programs that were writing `target`; those of running programs are locked."""
    if sys.platform == "win32":
        return
    pattern = re.compile(rf"\.{re.escape(target.name)}\.{TOKEN}(\.[a-z]+)?")
    for path in [one for one in target.parent.iterdir() if pattern.fullmatch(one.name)]:
        try:
            with locked(path):
                path.unlink(missing_ok=True)
        except OSError:
            continue


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file (made if it is missing) so that no other `locked` can; BlockingIOError if somebody else holds it.

    The lock ends with the block or with the process, however that ends. On Windows nothing is locked: a file that is
    open there can neither be renamed nor removed.
    """
    flags = os.O_RDWR | os.O_CREAT | NO_LINKS | NO_WAITING
    if sys.platform == "win32":
        os.close(os.open(path, flags, 0o666))
        yield
        return
    while True:
        with open(os.open(path, flags, 0o666), "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_file_at(path, file):
                yield
                return  # else the process that held it before has removed it


def is_file_at(path: Path, file: BinaryIO) -> bool:
    """Tell whether an open file is the one that stands at the path now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, but no link, FIFO or device: these could lead elsewhere, wait, or never end."""
    descriptor = os.open(path, os.O_RDONLY | NO_LINKS | NO_WAITING | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return open(descriptor, "rb")


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

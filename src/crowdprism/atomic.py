"""Files and folders that appear whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READABLE_BY_ALL = 0o666
ENTERABLE_BY_ALL = 0o777


def _by_umask(mode: int) -> int:
    """What a plain open() or mkdir() would have granted; temporary names are private otherwise."""
    umask = os.umask(0)
    os.umask(umask)
    return mode & ~umask


@contextmanager
def replacing_file(path: str | os.PathLike[str], suffix: str = "") -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the place of `path` only if the block succeeds.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing_file(f"{folder}/labels.csv") as fresh:
    ...         _ = fresh.write_text("item,label")
    ...     os.listdir(folder)
    ['labels.csv']
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=suffix, dir=target.parent)
    os.close(handle)
    fresh = Path(name)
    try:
        yield fresh
        os.chmod(fresh, _by_umask(READABLE_BY_ALL))
        os.replace(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new empty folder beside `path`; it takes the place of `path` only if the block succeeds."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield fresh
        os.chmod(fresh, _by_umask(ENTERABLE_BY_ALL))
        _swap(fresh, target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _swap(fresh: Path, target: Path) -> None:
    """Put `fresh` in the place of `target`; the old folder is removed only once the new one stands."""
    if not target.exists():
        os.replace(fresh, target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    os.replace(target, old)
    try:
        os.replace(fresh, target)
    except OSError:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)

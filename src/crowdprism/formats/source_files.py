"""Which files to read: paths, globs and folders, in the order of their names."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crowdprism.errors import InvalidParameterError, UnreadableFileError
from crowdprism.formats.documents import ENDINGS
from crowdprism.formats.unpacking import PACKINGS, data_ending

Source = Any  # a path, paths or a table in memory
FoundFile = tuple[Path, bool]  # a file, and whether it comes from a folder: then it may not hold annotations at all


def find_files(source: Source) -> list[FoundFile]:
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    elif not isinstance(source, Iterable):
        raise InvalidParameterError(f"Pass a path, a list of paths or a data frame, not {type(source).__name__}.")
    found = [file for one in source for file in expand(os.fspath(one))]
    if not found:
        raise InvalidParameterError("The list of paths is empty. Pass at least one file.")
    return found


def expand(path: str) -> list[FoundFile]:
    if os.path.isdir(path):
        return folder_files(Path(path))
    if os.path.exists(path):
        return [(Path(path), False)]
    if glob.has_magic(path):
        matched = [Path(one) for one in sorted(glob.glob(path, recursive=True)) if os.path.isfile(one)]
        if not matched:
            raise UnreadableFileError(f"No file matches {path}. Check the folder and the pattern.")
        return [(one, False) for one in matched]
    raise UnreadableFileError(missing_file(Path(path)))


def folder_files(folder: Path) -> list[FoundFile]:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith(".")]
    readable = [file for file in files if data_ending(file.name) in ENDINGS]
    readable = [
        file for file in readable if file.name != "metadata.json" or file.with_name("answers.json") not in files
    ]
    if not readable:
        names = ", ".join(file.name for file in files[:5]) or "nothing"
        raise UnreadableFileError(
            f"The folder {folder} has no readable file (it holds {names}). "
            f"Readable endings are {' '.join(ENDINGS)}, also with {' or '.join(PACKINGS)}."
        )
    return [(file, True) for file in readable]


def missing_file(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {folder}, so {path} cannot be read. Check the path (now in {os.getcwd()})."
    close = difflib.get_close_matches(path.name, os.listdir(folder), n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"The folder {folder} holds no file of a similar name."
    return f"There is no file {path}. {hint}"

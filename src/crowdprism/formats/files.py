"""Which files are meant: one path or several, globs, folders, archives."""

from __future__ import annotations

import difflib
import glob
import io
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from crowdprism.errors import InvalidParameterError, UnreadableFileError
from crowdprism.formats.documents import Document

ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".manifest", ".parquet", ".npy", ".npz", ".zip")
PACKINGS = (".gz", ".zst")
PICKLES = (".pt", ".pth", ".pkl", ".pickle")


@dataclass(frozen=True)
class FoundFile:
    """A file to read; from a folder, it may turn out not to be annotations."""

    path: Path
    from_folder: bool


def find_files(source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[FoundFile]:
    """Expand paths, globs and folders into files."""
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    elif not isinstance(source, Iterable):
        raise InvalidParameterError(f"Pass a path or a list of paths, not {type(source).__name__}.")
    found = [file for one in source for file in expand(os.fspath(one))]
    if not found:
        raise InvalidParameterError("The list of paths is empty. Pass at least one file.")
    return found


def expand(path: str) -> list[FoundFile]:
    """One path, glob or folder as files, in the order of their names."""
    if os.path.isdir(path):
        return folder_files(Path(path))
    if os.path.exists(path):
        return [FoundFile(Path(path), False)]
    if glob.has_magic(path):
        matched = [Path(one) for one in sorted(glob.glob(path, recursive=True)) if os.path.isfile(one)]
        if not matched:
            raise UnreadableFileError(f"No file matches {path}. Check the folder and the pattern.")
        return [FoundFile(one, False) for one in matched]
    raise UnreadableFileError(missing_file(Path(path)))


def folder_files(folder: Path) -> list[FoundFile]:
    """Files below a folder that may hold annotations."""
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
    return [FoundFile(file, True) for file in readable]


def data_ending(name: str) -> str:
    """The ending of a file name, that of a packing left out."""
    stem, ending = os.path.splitext(name.lower())
    return os.path.splitext(stem)[1] if ending in PACKINGS else ending


def missing_file(path: Path) -> str:
    """Say that a file is not there, and which names come close."""
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {folder}, so {path} cannot be read. Check the path (now in {os.getcwd()})."
    close = difflib.get_close_matches(path.name, os.listdir(folder), n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"The folder {folder} holds no file of a similar name."
    return f"There is no file {path}. {hint}"


def open_documents(path: Path, encoding: str) -> list[Document]:
    """A file as documents: an archive gives one for each member."""
    if path.suffix.lower() in PICKLES:
        raise UnreadableFileError(
            f"{path} is a pickle, which may run code when opened and is never read. Load it where you trust it and "
            "save the arrays with numpy.savez(...), then read the .npz."
        )
    document = Document(str(path), path=path, encoding=encoding)
    if document.container != "zip":
        return [document]
    try:
        with zipfile.ZipFile(io.BytesIO(document.data)) as archive:
            members = [one for one in archive.namelist() if data_ending(one) in ENDINGS and "__MACOSX" not in one]
            return [
                Document(f"{path}/{member}", data=archive.read(member), encoding=encoding) for member in sorted(members)
            ]
    except zipfile.BadZipFile as error:
        raise UnreadableFileError(f"{path} is a damaged or truncated zip file ({error}). Export it again.") from error

"""The manifest of a run folder: which files belong to the run, with their sizes and digests; reading them as one state.

`manifest.json` is replaced by one rename, and that moment is when a new run takes the place of an old one. Until the
files have moved to their plain names they stand in a hidden folder that the manifest names, where readers find them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec
from msgspec import Meta

from crowdprism.errors import CrowdprismError, ResultFormatError
from crowdprism.files import TOKEN, open_regular

T = TypeVar("T")

MANIFEST = "manifest.json"
MANIFEST_SCHEMA = 1
STAGING = re.compile(rf"\.crowdprism-{TOKEN}")
LABELS, CHOICES = FOLDERS = "labels", "choices"  # that a run may have: labels in parts, results by choice
# No other separators, so no way out of the folder.
Name = Annotated[str, Meta(pattern=rf"\A(({'|'.join(FOLDERS)})/)?[A-Za-z0-9][A-Za-z0-9_.-]{{0,99}}\Z")]
MAX_MANIFEST = 1_000_000  # bytes
MAX_JSON = 2**30  # bytes; the names of some ten million items
MAX_TRIES = 20  # a reader that is overtaken by this many writers gives up
AGAIN = "Fit and save it again."


@dataclass(frozen=True)
class FileEntry:
    """Size in bytes and SHA-256 of a file."""

    size: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


@dataclass(frozen=True)
class Manifest:
    """What a run folder says of itself: what it is, the crowdprism that wrote it, its files."""

    kind: str  # "result", "classifier", "choices" or "diagnosis"
    version: str
    files: Mapping[Name, FileEntry]
    staging: Annotated[str, Meta(pattern=rf"\A{STAGING.pattern}\Z")]  # where files stand until they have moved
    obsolete: Mapping[Name, FileEntry] = field(default_factory=dict)  # of the run before: removed if still as written

    def to_json(self) -> str:
        return json.dumps({"crowdprism_run": MANIFEST_SCHEMA, **asdict(self)}, indent=1)


def digest_of(file: BinaryIO) -> FileEntry:
    file.seek(0)
    sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    return FileEntry(file.tell(), sha256)


def entry_of(path: Path) -> FileEntry | None:
    """Size and digest of a file; None if there is none, or if it is a link, a folder or a device."""
    try:
        with open_regular(path) as file:
            return digest_of(file)
    except OSError:
        return None


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a run; None if the folder has none, as in version 0.1.0."""
    text = _manifest_bytes(folder)
    return None if text is None else parse_manifest(text, folder / MANIFEST)


def _manifest_bytes(folder: Path) -> bytes | None:
    try:
        with open_regular(folder / MANIFEST) as file:
            return file.read(MAX_MANIFEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ResultFormatError(f"{folder / MANIFEST} cannot be read: {error.strerror or error}.") from error


def parse_manifest(text: bytes, path: Path) -> Manifest:
    """Check every field of a manifest; a name that leads out of the folder is refused."""
    try:
        if len(text) > MAX_MANIFEST:
            raise ValueError(f"it is larger than {MAX_MANIFEST} bytes")
        record = json.loads(text)
        require_schema(record, MANIFEST_SCHEMA, path, key="crowdprism_run")
        return msgspec.convert(record, Manifest)
    except ResultFormatError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ResultFormatError(f"{path} is not a manifest ({type(error).__name__}: {error}). {AGAIN}") from error


def require_schema(record: Mapping[str, Any], newest: int, place: Path, *, key: str = "schema") -> None:
    """Refuse a record of a newer version, and one whose version is no number."""
    schema = record[key]
    if type(schema) is not int or schema < 1:
        raise ValueError(f"schema {schema!r}")
    if schema > newest:
        raise ResultFormatError(
            f"{place} was written by a newer crowdprism (schema {schema}, this one reads up to {newest}). "
            "Upgrade crowdprism to read it."
        )


class RunFiles:
    """The files of a run as its manifest names them, by size and digest; without one, what is in the folder."""

    def __init__(self, folder: Path, manifest: Manifest | None) -> None:
        self.folder = folder
        self.manifest = manifest

    def __contains__(self, name: str) -> bool:
        if self.manifest is not None:
            return name in self.manifest.files
        return os.path.lexists(self.folder / name)

    def open(self, name: str) -> BinaryIO:
        """Open a file of the run; its size has been checked, its digest has not (`verify`)."""
        if self.manifest is None:
            return open_regular(self.folder / name)
        staging = self.folder / self.manifest.staging
        if staging.is_symlink():
            raise ResultFormatError(f"{staging} is a link, which crowdprism never makes. {AGAIN}")
        try:
            file = open_regular(staging / name)
        except (FileNotFoundError, NotADirectoryError):  # it has moved to its plain name
            file = open_regular(self.folder / name)
        expected, size = self.manifest.files[name].size, os.fstat(file.fileno()).st_size
        if size != expected:
            file.close()
            raise ResultFormatError(f"{self.folder / name} is damaged: {size} bytes, not {expected}. {AGAIN}")
        return file

    def verify(self, name: str, file: BinaryIO) -> None:
        """Check the digest of an open file, and go back to its start."""
        if self.manifest is not None and digest_of(file) != self.manifest.files[name]:
            raise ResultFormatError(f"{self.folder / name} is damaged, or was changed after it was written. {AGAIN}")
        file.seek(0)

    def read(self, name: str) -> bytes:
        with self.open(name) as file:
            self.verify(name, file)
            return file.read()

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON object; its size and first character are checked before the rest is read."""
        with self.open(name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_JSON or file.read(1) != b"{":
                raise ResultFormatError(f"{self.folder / name} is no JSON object of at most {MAX_JSON} bytes. {AGAIN}")
            self.verify(name, file)
            file.seek(0)
            text = file.read().decode()  # json would let halves of surrogate pairs pass
            record: dict[str, Any] = json.loads(text)
            if "\\ud" in text.lower():
                json.dumps(record, ensure_ascii=False).encode()  # half of a surrogate pair could never be written again
            return record


def read_run(folder: Path, read: Callable[[RunFiles], T]) -> T:
    """Call `read` with the files of one run, again if it was replaced meanwhile; any error is a `ResultFormatError`."""
    for _ in range(MAX_TRIES):
        before = _manifest_bytes(folder)
        manifest = None if before is None else parse_manifest(before, folder / MANIFEST)
        try:
            return read(RunFiles(folder, manifest))
        except Exception as error:  # a forged or damaged file can make any library raise anything
            if _manifest_bytes(folder) != before:
                continue
            if isinstance(error, CrowdprismError):
                raise
            raise ResultFormatError(f"{folder} is damaged: {type(error).__name__}: {error}. {AGAIN}") from error
    raise ResultFormatError(f"{folder} was replaced {MAX_TRIES} times while it was read. Try again.")

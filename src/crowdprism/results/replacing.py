"""Writing a run folder: the old run or the new one is there at every moment, and files of others are never touched.

A writer holds a lock on the folder, writes all files into a hidden folder inside it, and renames the new manifest into
place. That rename is the switch; after it the files move to their plain names and files of the run before go. A writer
that is killed leaves the old run or the new one, and the next writer finishes its moves or removes what it left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from crowdprism.errors import InvalidParameterError, ResultFormatError, some
from crowdprism.files import locked, new_token
from crowdprism.results.manifest import FOLDERS, MANIFEST, STAGING, FileEntry, Manifest, entry_of, read_manifest

LOCK = ".crowdprism.lock"
RUN_FILES = (  # every name that a run can have, so that a file of somebody else is noticed before the work
    *("result.json", "arrays.npz", "classifier.json", "weights.safetensors", "features.json", "features.npz"),
    *("choices.json", "labels.csv", "annotators.csv", "report.html", "log.txt", "findings.csv", "items.csv"),
)


@contextmanager
def replacing_run(
    folder: str | os.PathLike[str],
    *,
    kind: str,
    force: bool = False,
    inputs: Iterable[str | os.PathLike[str]] = (),
    keep: bool = False,
) -> Iterator[Path]:
    """Yield an empty folder whose files become the run (or with `keep` join it) if the block succeeds; refuse first."""
    target = Path(folder)
    require_own_folder(target, inputs)
    with ExitStack() as on_exit:
        make_folder(target, on_exit)
        hold(target, on_exit)
        old = current_run(target, kind=kind, force=force, keep=keep)
        staging = target / f".crowdprism-{new_token()}"
        staging.mkdir()
        on_exit.callback(remove_staging, target, staging)
        yield staging
        require_no_foreign(target, old, files_in(staging))
        settle(target, commit(target, staging, old=old, kind=kind, keep=keep))


def require_own_folder(target: Path, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse links, the current folder, files, and a folder that holds what the work reads."""
    place = Path(os.path.realpath(target))  # which, unlike `resolve`, takes links that lead in a circle
    if target.is_symlink():
        raise InvalidParameterError(f"{target} is a link. Name the folder itself ({os.path.realpath(target)}).")
    if Path(os.path.realpath(os.curdir)) in (target.absolute(), place):
        raise InvalidParameterError("A run folder cannot be the current folder. Name a folder of its own, such as run.")
    if target.exists() and not target.is_dir():
        raise InvalidParameterError(f"{target} exists and is not a folder; choose another folder.")
    for given in inputs:
        path = Path(os.path.realpath(given))
        if path == place or place in path.parents:
            raise InvalidParameterError(f"The input {given} is inside {target}, where the run goes; choose another.")


def make_folder(target: Path, on_exit: ExitStack) -> None:
    """Make the folder and those above it; those that are still empty at the end are removed again."""
    missing = [path for path in (target, *target.parents) if not path.exists()]
    for path in reversed(missing):
        on_exit.callback(remove_if_empty, path)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(target, error) from error


def not_writable(target: Path, error: OSError) -> InvalidParameterError:
    return InvalidParameterError(
        f"{target} cannot be written: {error.strerror or error}. Choose another place; nothing was written."
    )


def remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def hold(target: Path, on_exit: ExitStack) -> None:
    """Lock the folder until the end; say which process holds it if another one does."""
    path = target / LOCK
    try:
        on_exit.enter_context(locked(path))
        on_exit.callback(path.unlink, missing_ok=True)
        path.write_text(str(os.getpid()), encoding="ascii")
    except BlockingIOError as error:
        process = path.read_text(encoding="ascii", errors="replace") if path.is_file() else ""
        raise InvalidParameterError(
            f"{target} is being written by another program{f' (process {process})' if process.isdigit() else ''}. "
            "Wait until it ends or choose another folder; nothing was written."
        ) from error
    except OSError as error:
        raise not_writable(target, error) from error


def current_run(target: Path, *, kind: str, force: bool, keep: bool) -> Mapping[str, FileEntry]:
    """The files that may be replaced or removed; finishes or removes what a killed writer left."""
    names = [name for name in os.listdir(target) if name != LOCK]
    stagings = [name for name in names if STAGING.fullmatch(name) and not (target / name).is_symlink()]
    own = set(names) - set(stagings)
    try:
        manifest = read_manifest(target)
    except ResultFormatError as error:
        raise InvalidParameterError(f"{target} is not a run folder of crowdprism ({error}); choose another.") from error
    if manifest is not None:
        require_replaceable(target, manifest, kind=kind, force=force, keep=keep)
        settle(target, manifest)
    elif own:
        raise InvalidParameterError(
            f"{target} exists and is not a run folder of crowdprism: it holds {some(sorted(own))}. Choose another."
        )
    for name in stagings:
        shutil.rmtree(target / name, ignore_errors=True)
    return {} if manifest is None else manifest.files


def require_replaceable(target: Path, manifest: Manifest, *, kind: str, force: bool, keep: bool) -> None:
    """Refuse to replace a run of another kind, files that were changed since, and files of others."""
    require_no_foreign(target, {**manifest.files, **manifest.obsolete}, RUN_FILES)
    if force or keep:
        return
    if manifest.kind != kind:
        raise InvalidParameterError(
            f"{target} holds a {manifest.kind}, and this is a {kind}.",
            remedy="Choose another folder, or replace it with {force:True}.",
        )
    if (target / manifest.staging).exists():
        return  # a killed writer's moves are not finished: plain names may still hold the run before
    there = {name: entry for name, entry in manifest.files.items() if os.path.lexists(target / name)}
    changed = [name for name, entry in there.items() if entry_of(target / name) != entry]
    if changed:
        raise InvalidParameterError(
            f"{len(changed)} of {len(manifest.files)} files of {target} were changed after the run was written: "
            f"{some(changed)}.",
            remedy="Choose another folder, or replace them with {force:True}.",
        )


def require_no_foreign(target: Path, known: Mapping[str, FileEntry], names: Iterable[str]) -> None:
    """Refuse if a file or folder that is not of the run has one of these names."""
    names = list(names)
    unknown = {name for name in names if name.partition("/")[0] not in FOLDERS} - set(RUN_FILES)
    assert not unknown, f"{unknown} belong in RUN_FILES"
    folders = [name for name in names if (target / name).is_dir() and not (target / name).is_symlink()]
    foreign = [name for name in names if name in folders or (os.path.lexists(target / name) and name not in known)]
    if foreign:
        raise InvalidParameterError(
            f"{target} holds {some(foreign)}, which the run there does not name. Move it or choose another folder."
        )


def commit(target: Path, staging: Path, *, old: Mapping[str, FileEntry], kind: str, keep: bool) -> Manifest:
    """Put the new manifest in place: from here on the new run is the run."""
    from crowdprism import __version__

    written = {name: to_disk(staging / name) for name in files_in(staging)}
    files = {**old, **written} if keep else written
    obsolete = {name: entry for name, entry in old.items() if name not in files}
    manifest = Manifest(kind, __version__, files, staging.name, obsolete)
    (staging / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    to_disk(staging / MANIFEST)
    os.replace(staging / MANIFEST, target / MANIFEST)
    return manifest


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def to_disk(path: Path) -> FileEntry:
    """Make sure that the bytes of a file are on disk before a rename makes them count; return its size and digest."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    entry = entry_of(path)
    assert entry is not None
    return entry


def settle(target: Path, manifest: Manifest) -> None:
    """Move the files of a run to their plain names, and remove those of the run before."""
    staging = target / manifest.staging
    for path in (place / name for place in (staging, target) for name in ("", *FOLDERS)):
        if path.is_symlink():  # files would be moved from or to where it leads
            raise InvalidParameterError(f"{path} is a link, which crowdprism never makes; remove it.")
    for name in FOLDERS:
        if any(file.startswith(f"{name}/") for file in manifest.files):
            (target / name).mkdir(exist_ok=True)
    for name in manifest.files:
        try:
            os.replace(staging / name, target / name)
        except (FileNotFoundError, NotADirectoryError):
            continue  # moved already
    for name, entry in manifest.obsolete.items():
        if name not in manifest.files and entry_of(target / name) == entry:
            (target / name).unlink()
    for folder in (*(place / name for place in (target, staging) for name in FOLDERS), staging):
        remove_if_empty(folder)


def remove_staging(target: Path, staging: Path) -> None:
    """Remove what a writer that failed has written, but not files that the manifest already names."""
    manifest = read_manifest(target)
    if manifest is None or manifest.staging != staging.name:
        shutil.rmtree(staging, ignore_errors=True)

"""`load_dataset`: from a name to a `Dataset`, from the data folder, the cache, the package or the network."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

from crowdprism.datasets.catalogue import DatasetEntry, find_entry
from crowdprism.datasets.dataset import Dataset
from crowdprism.datasets.download import fetch_file
from crowdprism.datasets.folder import folder_dataset
from crowdprism.datasets.original_formats import original_dataset
from crowdprism.datasets.places import CACHE_VARIABLE, DATA_VARIABLE, cache_folder, data_folder
from crowdprism.errors import InvalidParameterError, MissingDatasetError


def load_dataset(name: str, *, fetch: bool = True) -> Dataset:
    """Open a data set of the catalogue by name; arrays are read when first asked for.

    Looked for in the folder that `CROWDPRISM_DATA` names, then among the files fetched before
    (`CROWDPRISM_CACHE`, by default the platform's cache folder); what is publicly downloadable is then fetched.

    Parameters
    ----------
    name
        A name that `crowdprism datasets` lists.
    fetch
        Whether to download a set that is not on this computer.

    Examples
    --------
    >>> simulated = load_dataset("simulated")
    >>> simulated.annotations
    Annotations(1200 annotations of 1200 items by 12 annotators, 4 classes: 'north', 'east', 'south', ... (4 in all))
    >>> {split: len(items) for split, items in simulated.splits.items()}
    {'train': 600, 'valid': 200, 'test': 400}
    """
    entry = find_entry(name)
    if entry.kind == "embedded":
        from crowdprism.datasets.embedded import embedded_dataset

        return embedded_dataset(entry)
    folder = files_in_data_folder(entry)
    if folder is not None:
        return folder_dataset(entry, folder, cifar10=partial(load_dataset, "cifar10", fetch=fetch))
    if files_in_cache(entry) is None and not (fetch and entry.can_be_fetched):
        raise MissingDatasetError(how_to_get(entry))
    return original_dataset(entry, fetch_dataset(name))


def fetch_dataset(name: str) -> Path:
    """Download the public files of a data set into the cache, as far as they are not there, and return the folder.

    An interrupted transfer is continued by the next call; a file with a wrong checksum is not kept.
    """
    entry = find_entry(name)
    if entry.kind == "embedded":
        raise InvalidParameterError(f"Data set {entry.name!r} comes with crowdprism: nothing to fetch.")
    if not entry.can_be_fetched:
        raise MissingDatasetError(how_to_get(entry))
    folder = cache_folder() / entry.name
    for file in entry.downloads:
        fetch_file(file, folder)
    return folder


def files_in_data_folder(entry: DatasetEntry) -> Path | None:
    """The set's folder under `CROWDPRISM_DATA` if it has all files; an incomplete folder is an error."""
    root = data_folder()
    if root is None or not (root / entry.folder).is_dir():
        return None
    folder = root / entry.folder
    missing = [file for file in entry.files if not (folder / file).is_file()]
    if missing:
        raise MissingDatasetError(
            f"{len(missing)} of the {len(entry.files)} files of data set {entry.name!r} are not in {folder}; "
            f"the first is {missing[0]}. Complete the folder, or remove it to use another copy."
        )
    return folder


def files_in_cache(entry: DatasetEntry) -> Path | None:
    """The set's folder in the cache if everything was fetched."""
    folder = cache_folder() / entry.name
    if entry.downloads and all((folder / one.file).is_file() for one in entry.downloads):
        return folder
    return None


def how_to_get(entry: DatasetEntry) -> str:
    """What to tell a person who has not got a data set: where it was looked for and the ways to get it."""
    root = data_folder()
    looked = f"{root / entry.folder}" if root else f"no folder, as {DATA_VARIABLE} is not set"
    lines = [
        f"Data set {entry.name!r} is not here. Looked in {looked}, and in {cache_folder() / entry.name} "
        f"({CACHE_VARIABLE})."
    ]
    if entry.can_be_fetched:
        lines.append(f"Fetch it with: crowdprism datasets fetch {entry.name}")
    else:
        lines.append(
            f"It cannot be fetched automatically. Origin: {entry.origin}. Put {', '.join(entry.files)} into "
            f"the folder {entry.folder} of a data folder and set {DATA_VARIABLE} to that data folder."
        )
    return "\n".join(lines)


def damaged_files(entry: DatasetEntry, folder: Path) -> list[str]:
    """Names of the files whose SHA-256 is not the catalogue's."""
    return [file for file, expected in entry.files.items() if sha256_of(folder / file) != expected]


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

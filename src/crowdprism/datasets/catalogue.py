"""Which data sets there are: the records of `catalogue.toml`, data only."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

from crowdprism.errors import InvalidParameterError

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

"""How features were made: a recipe kept with each run, and a cache of embeddings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError, some
from crowdprism.files import cache_folder, replacing_file
from crowdprism.progress import progress
from crowdprism.results.loading import read_arrays
from crowdprism.results.manifest import RunFiles, read_run, require_schema

RECIPE_FILE, STATE_FILE = "features.json", "features.npz"
TEXT_FIELDS = ("kind", "embedding", "text_column", "id_column")
SCHEMA = 1
CACHE_VERSION = 1  # raise it when an embedding changes


@dataclass(frozen=True, eq=False)
class Recipe:
    """How items became numbers, so that new items can be embedded in the same way."""

    kind: str = "numbers"  # read as they are, or "images" or "texts"
    embedding: str = ""
    text_column: str = ""
    id_column: str = ""  # where the user named one
    state: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # what the embedding learned from training texts

    def write_into(self, folder: Path) -> None:
        record = {"schema": SCHEMA, **{name: getattr(self, name) for name in TEXT_FIELDS}}
        (folder / RECIPE_FILE).write_text(json.dumps(record), encoding="utf-8")
        if self.state:
            np.savez(folder / STATE_FILE, **cast(dict[str, Any], self.state))

    @classmethod
    def load(cls, folder: Path) -> Recipe:
        """The recipe of a run; plain numbers if the run has none."""
        return read_run(folder, cls._among)

    @classmethod
    def _among(cls, files: RunFiles) -> Recipe:
        if RECIPE_FILE not in files:
            return cls()
        record = files.read_json(RECIPE_FILE)
        require_schema(record, SCHEMA, files.folder)
        texts = {name: record[name] for name in TEXT_FIELDS if name in record or name != "id_column"}  # old runs
        if not all(isinstance(value, str) for value in texts.values()):
            raise TypeError(f"fields of {RECIPE_FILE} must be texts")
        state = read_arrays(files, STATE_FILE, lambda shapes: None) if STATE_FILE in files else {}
        broken = [name for name, values in state.items() if values.dtype.kind == "f" and not np.isfinite(values).all()]
        if broken:
            raise ValueError(f"{some(broken)} of {STATE_FILE} hold values that are not finite")
        return cls(**texts, state=state)


def cached(what: Iterable[Any], make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """The array of `make`, from the cache if `what` was embedded before; a cache that fails only costs time."""
    key = hashlib.sha256(json.dumps([CACHE_VERSION, *what], default=str).encode()).hexdigest()
    path = cache_folder() / "embeddings" / f"{key[:32]}.npy"
    with suppress(OSError, ValueError, EOFError):
        return np.asarray(np.load(path, allow_pickle=False))
    made = make()
    with suppress(OSError), replacing_file(path, suffix=".npy") as fresh:
        np.save(fresh, made)
    return made


def choose_embedding(
    wanted: str, kind: str, embeddings: Mapping[str, str], prefix: str, advice: str
) -> tuple[str, str]:
    """The embedding and a sentence on it: the plain one if there is `advice` to install the other, or one by prefix."""
    pretrained, plain = embeddings
    chosen = wanted if wanted != "auto" else plain if advice else pretrained
    if chosen not in embeddings and not chosen.startswith(prefix):
        raise InvalidParameterError(
            f"There is no {kind.lower()} embedding {wanted!r}; there are auto, {pretrained}, {plain} and {prefix}NAME."
        )
    what = embeddings.get(chosen, f"come from {chosen.removeprefix(prefix)} of {prefix.rstrip(':')}")
    return chosen, f"{kind} features {what}." + (f" {advice}" if wanted == "auto" and advice else "")


def embed_in_batches(
    things: Sequence[Any], embed: Callable[[Sequence[Any]], NDArray[Any]], *, kind: str, batch: int
) -> NDArray[np.float32]:
    found = []
    with progress(f"embedding {kind}", total=len(things)) as bar:
        for start in range(0, len(things), batch):
            some_things = things[start : start + batch]
            found.append(np.asarray(embed(some_things), dtype=np.float32))
            bar.advance(len(some_things))
    return np.concatenate(found)


def file_stamp(path: Path) -> tuple[str, int, int]:
    """Path, size and modification time, by which the cache notices that a file has changed."""
    status = path.stat()
    return str(path.resolve()), status.st_size, status.st_mtime_ns

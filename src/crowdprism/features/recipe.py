"""How features were made, kept with a run so that new items are described in the same way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import ResultFormatError

RECIPE_FILE, STATE_FILE = "features.json", "features.npz"
SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Recipe:
    """How items became numbers.

    Attributes
    ----------
    kind
        `"numbers"` (read as they are), `"images"` or `"texts"`.
    embedding
        How images or texts were described.
    text_column
        Where texts stood.
    state
        What the embedding learned from the training texts.
    """

    kind: str = "numbers"
    embedding: str = ""
    text_column: str = ""
    state: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def write_into(self, folder: Path) -> None:
        """Write the recipe's files into an existing folder."""
        record = {"schema": SCHEMA, "kind": self.kind, "embedding": self.embedding, "text_column": self.text_column}
        (folder / RECIPE_FILE).write_text(json.dumps(record), encoding="utf-8")
        arrays: dict[str, Any] = dict(self.state)
        if arrays:
            np.savez(folder / STATE_FILE, **arrays)

    @classmethod
    def load(cls, folder: Path) -> Recipe:
        """The recipe of a run; plain numbers where none was kept."""
        path = folder / RECIPE_FILE
        if not path.exists():
            return cls()
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            schema = record.pop("schema")
        except (ValueError, KeyError, AttributeError, OSError) as error:
            raise ResultFormatError(f"{path} is damaged: {error}. Train again.") from error
        if schema > SCHEMA:
            raise ResultFormatError(f"{path} was written by a newer crowdprism. Upgrade crowdprism to use it.")
        state: dict[str, NDArray[Any]] = {}
        if (folder / STATE_FILE).exists():
            with np.load(folder / STATE_FILE, allow_pickle=False) as stored:
                state = {name: stored[name] for name in stored.files}
        return cls(**record, state=state)

"""The state of a fit after each iteration, on disk, so that a run that was killed goes on.

A fit is a fixed sequence of climbs. Each has a file with its model, its objective and whether it has ended; what a fit
does between climbs is done again.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from crowdprism.errors import CheckpointMismatchError
from crowdprism.files import replacing_file

RUN_FILE = "run.json"


class DiskJournal:
    """Keeps climbs in a folder.

    Parameters
    ----------
    folder
        Where the files are; made if it is missing.
    run
        What the run is: store, method, parameters. A folder of another run is refused.
    """

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        self.folder = folder
        self.n_climbs = 0
        folder.mkdir(parents=True, exist_ok=True)
        path, wanted = folder / RUN_FILE, json.loads(json.dumps(run))
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            differing = [name for name in wanted if found.get(name) != wanted[name]]
            if differing:
                raise CheckpointMismatchError(
                    f"{folder} is of another run: {', '.join(differing)} differ. Start anew without --resume."
                )
        with replacing_file(path) as fresh:
            fresh.write_text(json.dumps(wanted), encoding="utf-8")

    @property
    def _path(self) -> Path:
        return self.folder / f"climb-{self.n_climbs:03}.npz"

    def begin(self, start: Any) -> tuple[Any, list[float], bool | None]:
        """The state of the climb that begins: as it was left, else at its start."""
        self.n_climbs += 1
        if not self._path.exists():
            return start, [], None
        with np.load(self._path, allow_pickle=False) as stored:
            objective, settled = stored["objective"].tolist(), int(stored["settled"])
            kept = {name: stored[f"model_{name}"] for name in kept_fields(start)}
        model = dataclasses.replace(start, **{name: value[()] for name, value in kept.items()})
        return model, objective, None if settled < 0 else bool(settled)

    def keep(self, model: Any, objective: list[float], settled: bool | None) -> None:
        values = {f"model_{name}": getattr(model, name) for name in kept_fields(model)}
        with replacing_file(self._path, suffix=".npz") as fresh:
            np.savez(fresh, objective=objective, settled=-1 if settled is None else int(settled), **values)


def kept_fields(model: Any) -> list[str]:
    """The fields of a model that are arrays or numbers; others follow from the data."""
    fields = dataclasses.fields(model)
    return [one.name for one in fields if isinstance(getattr(model, one.name), np.ndarray | float)]

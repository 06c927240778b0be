"""The row store: one JSON line per fit, appended as soon as it is measured."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from crowdprism.experiments.fits import Fit, key_of

Row = dict[str, Any]
DONE, FAILED = "done", "failed"


class RowStore:
    """Rows by the key of their fit, in a file that grows line by line.

    The last of several rows of one fit counts. A last line that was cut short is left out, and its fit measured again.

    Examples
    --------
    >>> import tempfile
    >>> from crowdprism.experiments.spec import Data
    >>> fit = Fit(Data("digits"), "nn-mv", {"epochs": 2}, seed=1)
    >>> store = RowStore(Path(tempfile.mkdtemp()) / "rows.jsonl")
    >>> store.append([{"fit": fit.content, "status": "done", "test": 90.0}])
    >>> store.read()[fit.key]["test"]
    90.0
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> dict[str, Row]:
        """All rows by key."""
        rows: dict[str, Row] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []:
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            rows[key_of(row["fit"])] = row
        return rows

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows, each as a whole line, on disk before this returns."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            if file.tell() and not ends_a_line(self.path):
                text = "\n" + text
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def ends_a_line(path: Path) -> bool:
    """Whether a file's last character ends a line, so that the next row does not join one that was cut short."""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def missing_fits(fits: Iterable[Fit], rows: Mapping[str, Row], *, retry: bool, with_confusions: bool) -> list[Fit]:
    """Fits to run: without a row, with `retry` those that failed, and those whose confusions were not kept."""

    def is_missing(row: Row | None) -> bool:
        if row is None:
            return True
        if row["status"] == FAILED:
            return retry
        return with_confusions and "confusions" not in row

    return [fit for fit in fits if is_missing(rows.get(fit.key))]

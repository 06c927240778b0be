"""The account of a reading: what was detected, how columns were mapped, what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Skipped:
    """Rows left out for one reason: how many, and where the first one stands."""

    count: int
    first: str

    def __str__(self) -> str:
        return f"{self.count} (first: {self.first})"


@dataclass(frozen=True)
class ReadingReport:
    """What a reading did; `str()` gives a readable account.

    Attributes
    ----------
    format
        Name of the format that was detected or asked for.
    columns
        Which column or field served as item, annotator, label and so on.
    files
        The files read.
    n_rows
        Rows or records looked at, skipped ones included.
    n_annotations
        Annotations that came of them.
    skipped
        Rows left out, by reason.
    left_out_files
        Files of a folder that were not read, with the reason.
    notes
        What else the user should know, such as information that the export does not hold.

    Examples
    --------
    >>> print(ReadingReport("long", {"item": "task"}, ("a.csv",), 3, 2, {"draft": Skipped(1, "a.csv line 4")}))
    a.csv: read as long; 2 annotations from 3 rows
      item <- task
      skipped, draft: 1 (first: a.csv line 4)
    """

    format: str
    columns: Mapping[str, str]
    files: tuple[str, ...]
    n_rows: int
    n_annotations: int
    skipped: Mapping[str, Skipped] = field(default_factory=dict)
    left_out_files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def n_skipped(self) -> int:
        """Number of rows left out, all reasons together."""
        return sum(skip.count for skip in self.skipped.values())

    def lines(self) -> list[str]:
        """The account line by line."""
        where = self.files[0] if len(self.files) == 1 else f"{len(self.files)} files ({self.files[0]}, ...)"
        told = [f"{where}: read as {self.format}; {self.n_annotations} annotations from {self.n_rows} rows"]
        told += [f"  {role} <- {column}" for role, column in self.columns.items()]
        told += [f"  skipped, {reason}: {skip}" for reason, skip in self.skipped.items()]
        told += [f"  not read: {name} ({reason})" for name, reason in self.left_out_files.items()]
        return told + [f"  note: {note}" for note in self.notes]

    def __str__(self) -> str:
        return "\n".join(self.lines())

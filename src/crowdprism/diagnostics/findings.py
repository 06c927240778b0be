"""Findings: what was checked, how serious the outcome is, and what to do about it.

Diagnostics, report and command line share this record and its one scale of severity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from crowdprism.annotations.frames import frame_of_columns
from crowdprism.errors import InvalidParameterError

Severity = Literal["good", "note", "caution", "warning"]
# From harmless to serious: checked and in order; for information, or could not be checked; use the result with care;
# do not rely on the result yet.
SEVERITIES: tuple[Severity, ...] = ("good", "note", "caution", "warning")
MARKS: Mapping[Severity, str] = {"good": "+", "note": "?", "caution": "~", "warning": "!"}


@dataclass(frozen=True)
class Finding:
    """The outcome of one check: what was checked, how serious it is, what was found, and what would help."""

    name: str
    severity: Severity
    sentence: str
    remedy: str = ""  # empty if nothing is needed
    value: float | None = None
    threshold: float | None = None  # that the value was compared with
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"[{MARKS[self.severity]}] {self.name}: {self.sentence} {self.remedy}".rstrip()


def worst(findings: Iterable[Finding]) -> Severity:
    """The highest severity among findings; "note" if there are none, because then nothing was checked."""
    return max((finding.severity for finding in findings), key=SEVERITIES.index, default="note")


@dataclass(frozen=True)
class Findings:
    """All findings of one examination, by name and in order; `str()` gives a readable page."""

    found: tuple[Finding, ...]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, name: str) -> Finding:
        for finding in self.found:
            if finding.name == name:
                return finding
        raise InvalidParameterError(f"There is no finding {name!r}; there are {', '.join(f.name for f in self.found)}.")

    @property
    def severity(self) -> Severity:
        """The highest severity, as `worst` gives it."""
        return worst(self.found)

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.found)

    def to_records(self) -> list[dict[str, Any]]:
        """Findings as plain dictionaries, for JSON."""
        return [asdict(finding) for finding in self.found]

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per finding: name, severity, sentence, remedy, value, threshold."""
        types = dict.fromkeys(("name", "severity", "sentence", "remedy"), str) | {"value": float, "threshold": float}
        columns = {part: np.array([getattr(f, part) for f in self], dtype=own) for part, own in types.items()}
        return frame_of_columns(columns, kind)

"""Findings: one checked quantity each, with value, threshold, verdict, a plain sentence and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from crowdprism.errors import InvalidParameterError

Verdict = Literal["good", "caution", "bad", "impossible"]
MARKS = {"good": "+", "caution": "~", "bad": "!", "impossible": "?"}


@dataclass(frozen=True)
class Finding:
    """One checked quantity.

    Attributes
    ----------
    name
        What was checked.
    value, threshold
        The number and what it is held against; None where there is none.
    verdict
        "good", "caution", "bad", or "impossible" where the result lacks what the check needs.
    sentence
        What was found, in plain words.
    remedy
        What would help; empty where nothing is needed.
    details
        Further numbers, such as the distance of each class.
    """

    name: str
    value: float | None
    threshold: float | None
    verdict: Verdict
    sentence: str
    remedy: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        helps = f" What would help: {self.remedy}" if self.remedy else ""
        return f"[{MARKS[self.verdict]}] {self.name}: {self.sentence}{helps}"


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
    def verdict(self) -> Verdict:
        """The worst verdict among findings that were possible."""
        verdicts = {finding.verdict for finding in self.found}
        for verdict in ("bad", "caution", "good"):
            if verdict in verdicts:
                return verdict
        return "impossible"

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.found)

    def to_records(self) -> list[dict[str, Any]]:
        """Findings as plain dictionaries, for JSON."""
        return [asdict(finding) for finding in self.found]

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per finding: name, value, threshold, verdict, sentence, remedy."""
        import numpy as np

        from crowdprism.annotations.frames import frame_of_columns

        def numbers(values: list[float | None]) -> Any:
            return np.array([np.nan if value is None else value for value in values], dtype=float)

        columns: dict[str, Any] = {"name": np.array([f.name for f in self.found])}
        columns["value"] = numbers([f.value for f in self.found])
        columns["threshold"] = numbers([f.threshold for f in self.found])
        columns |= {
            part: np.array([getattr(f, part) for f in self.found]) for part in ("verdict", "sentence", "remedy")
        }
        return frame_of_columns(columns, kind)


def impossible(name: str, method: str, lacking: str) -> Finding:
    """A finding that cannot be made because the result lacks a part."""
    return Finding(
        name,
        None,
        None,
        "impossible",
        f"This needs {lacking} and {method} gives none.",
        "fit a method with confusion matrices, such as dawid-skene or geocrowdnet-f.",
    )

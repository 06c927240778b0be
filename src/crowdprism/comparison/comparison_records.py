"""What a comparison of methods found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crowdprism.annotations.frames import frame_of_columns
from crowdprism.results import FitResult

# Attribute of a row -> heading in tables; the order is that of the columns.
COLUMNS = {
    "method": "method",
    "accuracy": "accuracy on gold",
    "log_likelihood": "held-out log-likelihood",
    "held_out_agreement": "held-out agreement",
    "agreement_with_others": "agreement with others",
    "stability": "stability",
    "seconds": "seconds",
}


@dataclass(frozen=True)
class MethodRow:
    """What was measured of one method; None where a method cannot be measured so.

    Attributes
    ----------
    accuracy
        Share of items with gold that are labelled right, where there is gold.
    log_likelihood
        Mean log probability of annotations that were held out; nearer to zero is better.
    held_out_agreement
        Share of held-out annotations equal to the class found for their item.
    agreement_with_others
        Mean share of items that get the same class from another method.
    stability
        Mean share of items that get the same class when seed and held-out annotations change.
    seconds
        Median time of a fit.
    failed
        Why nothing was measured; empty where all went well.
    warnings
        What the method warned of.
    """

    method: str
    accuracy: float | None = None
    log_likelihood: float | None = None
    held_out_agreement: float | None = None
    agreement_with_others: float | None = None
    stability: float | None = None
    seconds: float | None = None
    failed: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods in order of merit, and which to take.

    Attributes
    ----------
    rows
        Best first; those that failed come last.
    recommended, reason
        Name of a method (None where nothing was measured) and why, in a sentence or two.
    interrupted
        Whether the comparison was stopped before every method was measured.
    results
        What each method learned from all annotations, by name.
    """

    rows: tuple[MethodRow, ...]
    recommended: str | None
    reason: str
    interrupted: bool = False
    results: Mapping[str, FitResult] = field(default_factory=dict, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Attributes that at least one method has."""
        return tuple(name for name in COLUMNS if any(getattr(row, name) is not None for row in self.rows))

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per method, best first, by the headings of a table; a last column tells what failed."""
        told = [{COLUMNS[name]: getattr(row, name) for name in self.columns} for row in self.rows]
        if any(row.failed for row in self.rows):
            for record, row in zip(told, self.rows, strict=True):
                record["remark"] = row.failed or None
        return told

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per method; `kind` as in `Annotations.to_frame`."""
        names = [*self.columns, "failed"]
        return frame_of_columns({name: [getattr(row, name) for row in self.rows] for name in names}, kind)

    def __str__(self) -> str:
        records = self.to_records()
        cells = [list(records[0])] + [[shown(value) for value in record.values()] for record in records]
        widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
        return "\n".join([*(line.rstrip() for line in lines), "", self.reason])


def shown(value: Any) -> str:
    """A cell as text: fractions with three digits, absent values as a dash."""
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)

"""A page of sentences and tables without scripts: rankings, ratings and answers with several choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

BAR = 200  # width of a drawn interval, in its own units


@dataclass(frozen=True)
class Span:
    """An interval that is drawn: where it begins, its value, where it ends; on a scale shared by the table."""

    low: float
    value: float
    high: float


@dataclass(frozen=True)
class PageTable:
    """A table of the page: the first column names the rows."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def cells(self) -> list[list[Any]]:
        """Rows as text, and positions for the intervals that are drawn."""
        spans = [cell for row in self.rows for cell in row if isinstance(cell, Span)]
        low = min((span.low for span in spans), default=0.0)
        scale = BAR / max(max((span.high for span in spans), default=1.0) - low, 1e-12)

        def shown(cell: Any) -> Any:
            if isinstance(cell, Span):
                return {name: round((getattr(cell, name) - low) * scale, 1) for name in ("low", "value", "high")}
            if cell is None or cell != cell:
                return ""
            return f"{cell:.3f}" if isinstance(cell, float) else str(cell)

        return [[shown(cell) for cell in row] for row in self.rows]


def tables_page(
    title: str,
    *,
    eyebrow: str,
    lines: Sequence[str],
    tables: Sequence[PageTable],
    foot: str = "",
    made: datetime | None = None,
) -> str:
    """The text of one HTML page."""
    from crowdprism.report.page import fill

    return fill(
        "tables.html.j2",
        made=made,
        title=title,
        eyebrow=eyebrow,
        lines=lines,
        tables=[table for table in tables if table.rows],
        foot=foot,
        bar=BAR,
    )

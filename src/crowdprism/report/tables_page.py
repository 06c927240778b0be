"""Pages of sentences and tables without scripts: rankings, ratings, answers with several choices, and juries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from crowdprism.calibration.jury import JuryReport

BAR = 200  # width of a drawn interval, in its own units


class Span(NamedTuple):
    """An interval that is drawn: where it begins, its value, where it ends; on a scale shared by the table."""

    low: float
    value: float
    high: float


class PageTable(NamedTuple):
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


def table_of(caption: str, columns: Mapping[str, Any], chosen: Any = slice(None)) -> PageTable:
    """The chosen rows of columns by heading; a column (row, 3) holds intervals to draw: low, value, high."""
    parts = [np.asarray(column)[chosen] for column in columns.values()]
    cells = [[Span(*row) for row in part.tolist()] if part.ndim == 2 else part.tolist() for part in parts]
    return PageTable(caption, list(columns), list(zip(*cells, strict=True)))


def tables_page(title: str, *, tables: Sequence[PageTable], foot: str = "", **more: Any) -> str:
    """The text of one HTML page; `more` are its eyebrow, the lines before the tables, and perhaps when it was made."""
    from crowdprism.report.page import fill

    shown = [table for table in tables if table.rows]
    return fill("tables.html.j2", title=title, tables=shown, foot=foot, bar=BAR, **more)


def jury_lines(report: JuryReport) -> Iterator[str]:
    n, vote, number = len(report.judges), report.vote, report.n_independent
    right = f"{vote.value:.1%} ({vote.low:.1%} to {vote.high:.1%})"
    whose = f"The majority vote of all {n}" if n > 1 else str(report.judges[0].name)
    yield f"{whose} is right on {right} of the items."
    if n > 1:
        yield (
            f"{n} judges are worth {number.value:.1f} independent ones ({number.low:.1f} to {number.high:.1f})."
            if number.value == number.value
            else "How many independent judges they are worth is unknown: they make no errors to compare."
        )
        yield (
            f"Recommended panel: {', '.join(map(str, report.panel))}. Panels chosen like this are right on "
            f"{report.panel_accuracy:.1%} of items that had no part in the choice."
        )
    harmful = [str(judge.name) for judge in report.judges if judge.adds.high < 0]
    if harmful:
        yield f"The vote is better without {', '.join(harmful)} (one at a time)."
    if report.replaces:
        passed = [str(name) for name, test in report.replaces.items() if test.passed]
        yield f"May replace a person by the alternative annotator test: {', '.join(passed) or 'none'}."


def jury_page(report: JuryReport, *, made: datetime | None = None) -> str:
    from crowdprism.report.page import fill

    return fill(
        "jury.html.j2",
        made=made,
        report=report,
        lines=jury_lines(report),
        names=[judge.name for judge in report.judges],
        correlation=[[None if value != value else value for value in row] for row in report.correlation.tolist()],
    )

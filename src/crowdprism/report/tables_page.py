"""Pages of sentences and tables without scripts: rankings, ratings, answers with several choices, and juries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from crowdprism.calibration.jury import Figure, JuryReport

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


def jury_lines(report: JuryReport) -> list[str]:
    n = len(report.judges)
    lines = [f"The majority vote of all {n} is right on {percent(report.vote)} of the items."]
    if n > 1:
        number = report.n_independent
        lines.append(
            f"{n} judges are worth {number.value:.1f} independent ones ({number.low:.1f} to {number.high:.1f})."
            if number.value == number.value
            else "How many independent judges they are worth is unknown: they make no errors to compare."
        )
        panel = ", ".join(map(str, report.panel))
        lines.append(
            f"Recommended panel: {panel}. Panels chosen like this are right on {report.panel_accuracy:.1%} of items "
            "that had no part in the choice."
        )
    harmful = [str(judge.name) for judge in report.judges if judge.adds.high < 0]
    if harmful:
        lines.append(f"The vote is better without {', '.join(harmful)} (one at a time).")
    if report.replaces:
        passed = [str(name) for name, test in report.replaces.items() if test.passed]
        lines.append(f"May replace a person by the alternative annotator test: {', '.join(passed) or 'none'}.")
    return lines


def percent(figure: Figure) -> str:
    return f"{figure.value:.1%} ({figure.low:.1%} to {figure.high:.1%})"


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

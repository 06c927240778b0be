"""The page about a jury, in words and as HTML."""

from __future__ import annotations

from datetime import datetime

from crowdprism.calibration.jury import Figure, JuryReport


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
    from crowdprism.report.page import fill  # charts, which the sentences do not need

    return fill(
        "jury.html.j2",
        made=made,
        report=report,
        lines=jury_lines(report),
        names=[judge.name for judge in report.judges],
        correlation=[[None if value != value else value for value in row] for row in report.correlation.tolist()],
    )

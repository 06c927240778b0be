"""`crowdprism jury`: whether a panel of judges can be trusted."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from crowdprism.cli.options import AsJson, Files, ReadingOptions, split_names
from crowdprism.cli.run_folder import require_writable
from crowdprism.cli.screen import print_json, print_table, remark
from crowdprism.files import write_whole

if TYPE_CHECKING:
    from crowdprism.calibration.jury import Figure, JuryReport

OVER_USE_SHOWN = 12  # rows of over-used classes
VERDICTS = {True: "yes", False: "no", None: "unknown"}


def jury(
    files: Files,
    *,
    humans: str | None = typer.Option(None, "--human", help="Annotators who are people, separated by commas."),
    epsilon: float = typer.Option(
        0.2, help="Alternative annotator test: 0.2 for experts, 0.15 for trained people, 0.1 for crowd workers."
    ),
    output: Path | None = typer.Option(None, "--output", "-o", help="HTML page."),
    seed: int = typer.Option(0, help="Seed of the bootstrap."),
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Measure judges, such as language models, against gold or people: accuracy, shared errors, which panel to keep.

    Example: `crowdprism jury labels.csv --gold-file gold.csv -o jury.html`
    """
    from crowdprism.calibration.jury import measure_jury
    from crowdprism.formats.gold_file import Spelling

    if output is not None:
        require_writable(output)
    annotations = reading.read(files)
    spelling = Spelling(annotations.annotators)
    people = [spelling(name) for name in split_names(humans or "")]
    report = measure_jury(annotations, humans=people, epsilon=epsilon, seed=seed)
    if json:
        print_json(asdict(report))
    else:
        print_jury(report)
    if output is not None:
        from crowdprism.report.jury_page import jury_page

        remark(f"wrote {write_whole(output, jury_page(report))}")


def print_jury(report: JuryReport) -> None:
    from crowdprism.report.jury_page import jury_lines

    head = f"Measured against {report.reference}, on {report.n_reference} of {report.n_items} items."
    print("\n".join([head, *jury_lines(report)]))
    print_table(
        "Judges",
        ("judge", "items", "accuracy", "Cohen's kappa", "adds to the vote"),
        [[one.name, one.n, cell(one.accuracy), cell(one.kappa), cell(one.adds)] for one in report.judges],
    )
    used = [(one.name, name, figure) for one in report.judges for name, figure in one.over_use.items()]
    clear = [row for row in used if row[2].low > 0 or row[2].high < 0]
    clear.sort(key=lambda row: -abs(row[2].value))
    if clear:
        rows = [[judge, name, cell(figure)] for judge, name, figure in clear[:OVER_USE_SHOWN]]
        print_table(
            "Classes that a judge names too often (+) or too rarely (-)", ("judge", "class", "share of items"), rows
        )
    print_table(
        "Shares of the classes, corrected for the errors of the vote",
        ("class", "by the vote", "corrected"),
        [[name, report.voted[name], cell(figure)] for name, figure in report.prevalence.items()],
    )
    if report.replaces:
        print_table(
            "Alternative annotator test",
            ("judge", "may replace a person", "winning rate", "advantage", "humans"),
            [
                (name, VERDICTS[one.passed], one.winning_rate, one.advantage, one.n_humans)
                for name, one in report.replaces.items()
            ],
        )


def cell(figure: Figure) -> str:
    return "-" if figure.value != figure.value else f"{figure.value:.3f} ({figure.low:.3f} to {figure.high:.3f})"

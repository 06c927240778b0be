"""`crowdprism report`: a page people open, from a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdprism.cli.reading_options import AnnotatorColumn, Format, GoldColumn, ItemColumn, LabelColumn, Reading, read

if TYPE_CHECKING:
    from crowdprism.results import FitResult

DEFAULT_NAME = "report.html"


def report(
    run: Annotated[Path, typer.Argument(help="Folder that `aggregate` or `train` wrote.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="The annotation files the run was made from; they add agreement and coverage."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML file to write; report.html in the run by default.")
    ] = None,
    format: Format = "auto",
    item: ItemColumn = None,
    annotator: AnnotatorColumn = None,
    label: LabelColumn = None,
    gold: GoldColumn = None,
    reading: Reading = None,
) -> None:
    """Write what a run learned as one HTML page that opens offline.

    Example: `crowdprism report run/ labels.csv -o report.html`
    """
    from crowdprism.cli.screen import remark

    result = saved_result(run)
    annotations = None
    if files:
        annotations = read(files, format, item=item, annotator=annotator, label=label, gold=gold, reading=reading)
    written = result.report(output or run / DEFAULT_NAME, annotations)
    remark(f"wrote {written}")


def saved_result(run: Path) -> FitResult:
    """The result of a run, whether an aggregator or a classifier left it; torch is not loaded."""
    from crowdprism.results import FitResult

    return FitResult.load(run)

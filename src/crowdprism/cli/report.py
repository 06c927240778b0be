"""`crowdprism report`: an HTML page about a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import crowdprism as cp
from crowdprism.cli.options import ReadingOptions
from crowdprism.cli.screen import remark


def report(
    run: Annotated[Path, typer.Argument(help="Run folder written by `aggregate` or `train`.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="The annotation files of the run; they add agreement and coverage to the page."),
    ] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML file; report.html in the run folder by default."),
    ] = None,
    reading: ReadingOptions,
) -> None:
    """Write the result of a run as one HTML page that opens offline.

    Example: `crowdprism report run/ labels.csv -o report.html`
    """
    result = cp.FitResult.load(run)  # of an aggregator or a classifier; does not load torch
    annotations = reading.read(files) if files else None
    written = result.report(output or run / "report.html", annotations)
    remark(f"wrote {written}")

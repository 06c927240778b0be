"""`crowdprism report`: an HTML page about a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import crowdprism as cp
from crowdprism.cli.options import ReadingOptions
from crowdprism.cli.questions import describe_source
from crowdprism.cli.run_folder import REPORT, require_writable
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
    from crowdprism.results.manifest import read_manifest
    from crowdprism.results.replacing import replacing_run

    own = output is None or (output.parent.resolve() == run.resolve() and output.name == REPORT)
    if output is not None and not own:
        require_writable(output, inputs=[*(files or ()), reading.gold_file])
    manifest = read_manifest(run)
    if own and manifest is not None:
        with replacing_run(run, kind=manifest.kind, keep=True, inputs=files or ()) as fresh:
            report_of(run, files, reading, fresh / REPORT)
    else:  # a run of version 0.1.0 has no manifest to add to
        report_of(run, files, reading, output or run / REPORT)
    remark(f"wrote {output or run / REPORT}")


def report_of(run: Path, files: list[Path] | None, reading: ReadingOptions, page: Path) -> None:
    """Write the page about a run."""
    result = cp.FitResult.load(run)  # of an aggregator or a classifier; does not load torch
    if not files:
        result.report(page)
        return
    annotations, account = reading.read_with_report(files)
    result.report(page, annotations, **describe_source(result, files, account))

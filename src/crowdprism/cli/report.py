"""`crowdprism report`: an HTML page about a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

import crowdprism as cp
from crowdprism.cli.options import ReadingOptions
from crowdprism.cli.questions import ContentOptions, Page, describe_source
from crowdprism.cli.run_folder import REPORT, require_writable
from crowdprism.cli.screen import remark
from crowdprism.errors import counted

if TYPE_CHECKING:
    from crowdprism.formats.raw_annotations import ReadingReport

    Source = tuple[cp.FitResult, cp.Annotations | None, ReadingReport | None]


def report(
    run: Path = typer.Argument(..., help="Run folder written by `aggregate` or `train`."),
    files: list[Path] | None = typer.Argument(
        None, help="The annotation files of the run; they add agreement and coverage to the page."
    ),
    *,
    output: Path | None = typer.Option(
        None, "--output", "-o", help="HTML file; report.html in the run folder by default."
    ),
    page: Page = None,
    content: ContentOptions,
    reading: ReadingOptions,
) -> None:
    """Write the result of a run as one HTML page that opens offline.

    With --page, the items to review are also written as a page to answer on.

    Example: `crowdprism report run/ labels.csv -o report.html --page review.html`
    """
    from crowdprism.results.manifest import read_manifest
    from crowdprism.results.replacing import replacing_run

    own = output is None or (output.parent.resolve() == run.resolve() and output.name == REPORT)
    if output is not None and not own:
        require_writable(output, inputs=[*(files or ()), reading.gold_file])
    manifest = read_manifest(run)
    if own and manifest is not None:
        with replacing_run(run, kind=manifest.kind, keep=True, inputs=files or ()) as fresh:
            source = report_of(run, files or [], reading, fresh / REPORT)
    else:  # a run of version 0.1.0 has no manifest to add to
        source = report_of(run, files or [], reading, output or run / REPORT)
    remark(f"wrote {output or run / REPORT}")
    if page is not None:
        save_review(page, source, files or [], content)


def report_of(run: Path, files: list[Path], reading: ReadingOptions, page: Path) -> Source:
    result = cp.FitResult.load(run)  # of an aggregator or a classifier; does not load torch
    annotations, account = reading.read_with_report(files) if files else (None, None)
    result.report(page, annotations, **(describe_source(result, files, account) if files else {}))
    return result, annotations, account


def save_review(page: Path, source: Source, files: list[Path], content: ContentOptions) -> None:
    """Write the items to review as a page to answer on.

    No command follows: these items are the doubtful ones, and as gold they would make all labels look worse.
    """
    from crowdprism.diagnostics.label_evidence import matching
    from crowdprism.report.review_items import MOST_ITEMS, review_queue, review_reasons

    result, annotations, account = source
    annotations = None if annotations is None else matching(result, annotations)
    queue = review_queue(result, review_reasons(result, annotations))[:MOST_ITEMS]
    items = result.items[queue].tolist()
    content.save_page(
        page,
        items,
        result,
        title=f"{counted(len(items), 'item')} to review",
        annotations=annotations,
        content=content.load(items, result, files, account),
    )

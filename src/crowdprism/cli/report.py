"""`crowdprism report`: an HTML page about a finished run."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import typer

import crowdprism as cp
from crowdprism.cli.options import ReadingOptions
from crowdprism.cli.questions import ContentOptions, Page, describe_source
from crowdprism.cli.run_folder import REPORT, leads_to, require_writable
from crowdprism.cli.screen import remark
from crowdprism.errors import counted


def report(
    run: Path = typer.Argument(..., help="Run folder written by `aggregate` or `train`."),
    files: list[Path] | None = typer.Argument(None, help="Annotation files of the run, for agreement and coverage."),
    *,
    output: Path | None = typer.Option(None, "--output", "-o", help="HTML file; by default report.html in the run."),
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

    read = files or []
    own = output is None or (output.name == REPORT and leads_to(output.parent) == leads_to(run))
    if output is not None and not own:
        require_writable(output)
    target: AbstractContextManager[Path | None] = nullcontext()
    manifest = read_manifest(run)
    if own and manifest is not None:  # a run of version 0.1.0 has no manifest to add to
        target = replacing_run(run, kind=manifest.kind, keep=True, inputs=read)
    with target as fresh:
        result = cp.FitResult.load(run)  # of an aggregator or a classifier; does not load torch
        annotations, account = reading.read_with_report(read) if read else (None, None)
        place = output or run / REPORT
        about = describe_source(result, read, account) if read else {}
        result.report(place if fresh is None else fresh / REPORT, annotations, **about)
    remark(f"wrote {place}")
    if page is not None:
        from crowdprism.diagnostics.label_evidence import matching
        from crowdprism.report.review_items import MOST_ITEMS, review_queue, review_reasons

        annotations = None if annotations is None else matching(result, annotations)
        queue = review_queue(result, review_reasons(result, annotations))[:MOST_ITEMS]
        items = result.items[queue].tolist()
        # No command follows: these items are the doubtful ones, and as gold they would make all labels look worse.
        title, shown = f"{counted(len(items), 'item')} to review", content.load(items, result, read, account)
        content.save_page(page, items, result, title=title, annotations=annotations, content=shown)

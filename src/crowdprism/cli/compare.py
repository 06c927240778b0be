"""`crowdprism compare`: which method suits these annotations, without knowing the truth?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import crowdprism as cp
from crowdprism.cli import options
from crowdprism.cli.run_folder import require_writable
from crowdprism.cli.screen import command_line, exit_interrupted, print_json, print_table, remark

if TYPE_CHECKING:
    from crowdprism.comparison import Comparison

HEADINGS = {  # short enough for a terminal of 80 columns
    "method": "method",
    "accuracy": "accuracy\non gold",
    "log_likelihood": "held-out\nlog-lik.",
    "held_out_agreement": "held-out\nagreement",
    "agreement_with_others": "like\nothers",
    "stability": "stable",
    "seconds": "seconds",
}


def compare(
    files: options.Files,
    *,
    methods: str | None = typer.Option(
        None,
        "--methods",
        "-m",
        help="Names separated by commas, `all`, or `list`; a selection by default.",
        **options.listing(lambda: [*options.aggregator_names(), *options.classifier_names()]),
    ),
    seeds: int = typer.Option(3, help="How often to fit each method with annotations held out."),
    held_out: float = typer.Option(0.1, help="Share of the annotations to hold out."),
    features: options.FeatureOptions,
    epochs: int | None = typer.Option(None, help="Passes over the data, for classifiers."),
    page: Path | None = typer.Option(
        None, "--report", help="HTML page to write: the table and the recommended method's report."
    ),
    reading: options.ReadingOptions,
    device: options.DeviceOptions,
    json: options.AsJson = False,
) -> None:
    """Compare many methods on your annotations, with or without gold, and recommend one.

    Some annotations are held out: a method that models the annotators well predicts them. With gold, accuracy decides.
    Ctrl-C prints the methods measured so far.

    Example: `crowdprism compare labels.csv --report comparison.html`
    """
    names = None if methods is None else methods.replace(",", " ").split()
    if page is not None:
        require_writable(page, inputs=[*files, features.features, reading.gold_file])
    annotations, report = reading.read_with_report(files)
    values = None
    if features.given:
        found, annotations = options.annotated_only(*features.load(annotations, files, report))
        values = found.features.values
    device.apply(torch=values is not None)
    if names == ["all"]:
        names = [*options.aggregator_names(), *(options.classifier_names() if values is not None else ())]
    settings: dict[str, Any] = {"device": device.device} | ({} if epochs is None else {"epochs": epochs})
    outcome = cp.compare(annotations, values, methods=names, seeds=seeds, held_out=held_out, settings=settings)
    if json:
        record = {name: getattr(outcome, name) for name in ("recommended", "reason", "interrupted")}
        print_json(record | {"methods": [asdict(row) for row in outcome.rows]})
    else:
        print_comparison(outcome)
    for row in outcome.rows:
        for text in row.warnings:
            remark(f"note: {row.method}: {text}")
    if page is not None:
        write_page(outcome, annotations, page)
    if outcome.interrupted:
        exit_interrupted(f"methods measured so far: {len(outcome.rows)}. Run the same command to start again.")


def print_comparison(outcome: Comparison) -> None:
    if not outcome.rows:
        return
    print_table(
        "Methods, best first",
        [HEADINGS[name] for name in outcome.columns],
        [[getattr(row, name) for name in outcome.columns] for row in outcome.rows],
    )
    for text in (*failures(outcome), outcome.reason):
        print(text)


def failures(outcome: Comparison) -> list[str]:
    return [f"{row.method} failed: {row.failed}" for row in outcome.rows if row.failed]


def write_page(outcome: Comparison, annotations: cp.Annotations, page: Path) -> None:
    """Write the report of the recommended method, with the table of all methods."""
    if outcome.recommended is None:
        remark("note: no page was written, because no method could be measured.")
        return
    result = outcome.results[outcome.recommended]
    note = " ".join(["Best first.", outcome.reason, *failures(outcome)])
    rows = [{name: cell for name, cell in record.items() if name != "remark"} for record in outcome.to_records()]
    written = result.report(page, annotations, comparison=rows, comparison_note=note, command=command_line())
    remark(f"wrote {written}")

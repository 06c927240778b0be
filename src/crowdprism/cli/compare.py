"""`crowdprism compare`: which method suits these annotations, without knowing the truth?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdprism.cli.device_options import Device, Threads, use_threads
from crowdprism.cli.feature_options import ArrayName, Embedding, FeatureOptions, FeatureSource, IdColumn, TextColumn
from crowdprism.cli.reading_options import (
    AnnotatorColumn,
    AsJson,
    Files,
    Format,
    GoldColumn,
    ItemColumn,
    LabelColumn,
    Reading,
    read_with_report,
)

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations
    from crowdprism.comparison import Comparison

N_SEEDS = 3
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
    files: Files,
    methods: Annotated[
        str | None,
        typer.Option("--methods", "-m", help="Names, with commas between; `all` or `list`. A usual choice by default."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How often each method is fitted with annotations held out.")] = N_SEEDS,
    held_out: Annotated[float, typer.Option(help="Share of the annotations that is held out.")] = 0.1,
    features: FeatureSource = None,
    text_column: TextColumn = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data, for classifiers.")] = None,
    page: Annotated[
        Path | None, typer.Option("--report", help="HTML page to write: the recommended method's report and the table.")
    ] = None,
    embedding: Embedding = "auto",
    id_column: IdColumn = None,
    array: ArrayName = None,
    format: Format = "auto",
    item: ItemColumn = None,
    annotator: AnnotatorColumn = None,
    label: LabelColumn = None,
    gold: GoldColumn = None,
    reading: Reading = None,
    device: Device = "auto",
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Measure many methods on your annotations, without gold, and recommend one.

    Held-out annotations are the test: a method that understood the crowd predicts them. With gold, accuracy decides.
    Ctrl-C shows what was measured so far.

    Example: `crowdprism compare labels.csv --report comparison.html`
    """
    from crowdprism.cli.exit_codes import INTERRUPTED
    from crowdprism.cli.run_folder import require_writable
    from crowdprism.comparison import compare as compare_methods

    names = chosen_names(methods)
    if names == ["list"]:
        typer.echo("\n".join(every_name(with_classifiers=True)))
        return
    if page is not None:
        require_writable(page)
    options = FeatureOptions(features, text_column, embedding, id_column, array)
    annotations, account = read_with_report(
        files, format, item=item, annotator=annotator, label=label, gold=gold, reading=reading
    )
    values = None
    if options.given:
        from crowdprism.cli.feature_options import as_rows, features_of

        found, annotations = as_rows(*features_of(options, annotations, files, account))
        values = found.features.values
    use_threads(threads, torch=values is not None)
    if names == ["all"]:
        names = every_name(with_classifiers=values is not None)
    settings: dict[str, Any] = {"device": device} | ({"epochs": epochs} if epochs is not None else {})
    outcome = compare_methods(annotations, values, methods=names, seeds=seeds, held_out=held_out, settings=settings)
    tell(outcome, annotations, page, as_json=json)
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)


def chosen_names(methods: str | None) -> list[str] | None:
    """Names between commas or blanks; None leaves the choice."""
    if methods is None:
        return None
    return [name for name in methods.replace(",", " ").split() if name]


def every_name(*, with_classifiers: bool) -> list[str]:
    """All methods by name."""
    from crowdprism.aggregators import AGGREGATORS

    names = sorted(AGGREGATORS)
    if with_classifiers:
        from crowdprism.classifiers import CLASSIFIERS

        names += sorted(CLASSIFIERS)
    return names


def tell(outcome: Comparison, annotations: Annotations, page: Path | None, *, as_json: bool) -> None:
    """Print the ranked table and the recommendation, and write the page where one was asked for."""
    from dataclasses import asdict

    from crowdprism.cli.screen import console, remark, say_interrupted, show_json, show_table

    if as_json:
        show_json(
            {
                "recommended": outcome.recommended,
                "reason": outcome.reason,
                "interrupted": outcome.interrupted,
                "methods": [asdict(row) for row in outcome.rows],
            }
        )
    elif outcome.rows:
        show_table(
            "Methods in order of merit",
            [HEADINGS[name] for name in outcome.columns],
            [[getattr(row, name) for name in outcome.columns] for row in outcome.rows],
        )
        for row in outcome.rows:
            if row.failed:
                console().print(f"{row.method} failed: {row.failed}", markup=False)
        console().print(outcome.reason, markup=False)
    for row in outcome.rows:
        for text in row.warnings:
            remark(f"note: {row.method}: {text}")
    if outcome.interrupted:
        say_interrupted(f"methods measured so far: {len(outcome.rows)}. The same command starts again.")
    if page is not None:
        write_page(outcome, annotations, page)


def write_page(outcome: Comparison, annotations: Annotations, page: Path) -> None:
    """The report of the recommended method, with the table of all."""
    from crowdprism.cli.run_folder import command_line
    from crowdprism.cli.screen import remark

    if outcome.recommended is None:
        remark("note: no page was written, because no method could be measured.")
        return
    result = outcome.results[outcome.recommended]
    failed = [f"{row.method} failed: {row.failed}" for row in outcome.rows if row.failed]
    note = " ".join(["In order of merit.", outcome.reason, *failed])
    rows = [{name: cell for name, cell in record.items() if name != "remark"} for record in outcome.to_records()]
    written = result.report(page, annotations, comparison=rows, comparison_note=note, command=command_line())
    remark(f"wrote {written}")

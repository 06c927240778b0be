"""`crowdprism suggest`: which items to label next, by whom, and whether to stop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdprism.cli.aggregate import DEFAULT_METHOD
from crowdprism.cli.diagnose import Method, Run, blank_if_unknown, fitted
from crowdprism.cli.reading_options import (
    AnnotatorColumn,
    AsJson,
    Files,
    Format,
    GoldColumn,
    ItemColumn,
    LabelColumn,
    Reading,
    read,
)


def suggest(
    files: Files,
    budget: Annotated[float, typer.Option("--budget", "-b", help="How many labels may be asked for.")] = 100,
    run: Run = None,
    method: Method = DEFAULT_METHOD,
    capacity: Annotated[int | None, typer.Option(help="Most labels that one annotator can give now.")] = None,
    per_item: Annotated[int, typer.Option(help="Most labels to ask for one item.")] = 1,
    target: Annotated[float | None, typer.Option(help="Stop once this accuracy is expected.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file; standard output by default.")] = None,
    format: Format = "auto",
    item: ItemColumn = None,
    annotator: AnnotatorColumn = None,
    label: LabelColumn = None,
    gold: GoldColumn = None,
    reading: Reading = None,
    json: AsJson = False,
) -> None:
    """Choose the labels to ask for next: items, and who should label them.

    Example: `crowdprism suggest labels.csv --budget 200 -o next.csv`
    """
    import sys

    from crowdprism.cli.run_folder import write_table
    from crowdprism.cli.screen import remark, show_json
    from crowdprism.diagnostics.next_labels import suggest as suggest_labels
    from crowdprism.files import replacing_file

    annotations = read(files, format, item=item, annotator=annotator, label=label, gold=gold, reading=reading)
    result, annotations = fitted(annotations, run, method)
    found = suggest_labels(result, annotations, budget, capacity=capacity, per_item=per_item, target_accuracy=target)
    frame = found.to_frame()
    remark(found.reason)
    if json:
        show_json(
            {
                "stop": found.stop,
                "reason": found.reason,
                "expected_accuracy": found.expected_accuracy,
                "expected_accuracy_after": found.expected_accuracy_after,
                "labels": frame.to_dicts(),
            }
        )
        return
    rows = ([blank_if_unknown(cell) for cell in row] for row in frame.iter_rows())
    if output is None:
        write_table(sys.stdout, frame.columns, rows)
        return
    with replacing_file(output) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
        write_table(file, frame.columns, rows)

"""`crowdprism rate`: from ratings on a continuous scale to scores."""

from __future__ import annotations

from pathlib import Path

import typer

from crowdprism.cli.options import AsJson, Files, ReadingOptions
from crowdprism.cli.run_folder import require_writable
from crowdprism.cli.screen import print_json, print_records, remark, to_records
from crowdprism.files import write_whole

N_SHOWN = 20


def rate(
    files: Files,
    *,
    output: Path | None = typer.Option(None, "--output", "-o", help="HTML page."),
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Score items from ratings that are numbers, with a bias and a spread for every annotator, and intervals.

    Example: `crowdprism rate scores.csv -o scores.html`
    """
    from crowdprism.report.ratings_page import rating_lines, ratings_page
    from crowdprism.scoring import rate as rate_items

    if output is not None:
        require_writable(output, files)
    result = rate_items(reading.read(files))
    items, people = to_records(result.item_columns()), to_records(result.annotator_columns())
    if json:
        print_json({"icc": result.icc, "items": items, "annotators": people, "warnings": result.warnings})
    else:
        print("\n".join(rating_lines(result)))
        best = sorted(items, key=lambda row: -row["score"])[:N_SHOWN]
        print_records("Items with the highest scores", best)
        print_records("Annotators, least precise first", sorted(people, key=lambda row: -row["spread"])[:N_SHOWN])
    if output is not None:
        remark(f"wrote {write_whole(output, ratings_page(result))}")

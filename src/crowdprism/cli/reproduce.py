"""`crowdprism reproduce`: fill a published table and set it beside what was published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdprism.cli.reading_options import AsJson

if TYPE_CHECKING:
    from crowdprism.experiments import Plan, RowStore, TableResult

DEFAULT_FOLDER = Path("reproduction")
MOST_FAILURES_SHOWN = 5


def reproduce(
    table: Annotated[
        str, typer.Argument(help="Name of a table, or the path of a TOML file of your own.", show_default=False)
    ] = "",
    budget: Annotated[str, typer.Option(help="How much is run: quick, cpu or paper.")] = "quick",
    cells: Annotated[list[str] | None, typer.Option(help="Only these columns, by comma or repeated.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Only these methods, by comma or repeated.")] = None,
    seeds: Annotated[list[int] | None, typer.Option(help="Seeds of the trials; repeat for several.")] = None,
    processes: Annotated[int, typer.Option(min=1, help="Fits that are trained at a time, one thread each.")] = 1,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for pages, figures and rows.")
    ] = DEFAULT_FOLDER,
    rows: Annotated[Path | None, typer.Option(help="File of rows, if not rows.jsonl in the folder.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run fits again that failed before.")] = False,
    report_only: Annotated[bool, typer.Option("--report-only", help="Write the page from the rows there are.")] = False,
    json: AsJson = False,
) -> None:
    """Run a published experiment and set the results beside the published numbers; without a TABLE, list them.

    Each fit is stored as soon as it is done: after Ctrl-C the same command goes on where it stopped.

    Example: `crowdprism reproduce T2 --budget quick --cells music --methods nn-mv,geocrowdnet-f`
    """
    if not table:
        list_tables(json)
        return
    from crowdprism.cli.screen import remark
    from crowdprism.experiments import RowStore, load_study, make_plan, summarize, write_page

    study = load_study(table)
    chosen = {"cells": words(cells), "methods": words(methods), "seeds": [int(seed) for seed in seeds or ()]}
    plan = make_plan(study, budget, **chosen)  # type: ignore[arg-type]
    store = RowStore(rows or output / "rows.jsonl")
    remark(f"{study.name}: {study.title}. {len(plan.fits)} fits; rows in {store.path}")
    remark(f"Budget {plan.budget.name}. Reduced: {' '.join(plan.budget.reduces.split())}")
    if not report_only:
        run_plan(plan, store, processes, retry)
    shown = make_plan(study, budget, **chosen, variants=not methods)  # type: ignore[arg-type]
    result = summarize(shown, store.read())
    written = write_page(result, output)
    show(result, json)
    remark(f"wrote {', '.join(map(str, written))}")


def words(given: list[str] | None) -> list[str]:
    """Names out of repeated options and commas."""
    return [name.strip() for one in given or () for name in one.split(",") if name.strip()]


def run_plan(plan: Plan, store: RowStore, processes: int, retry: bool) -> None:
    """Measure what is missing; on Ctrl-C say what is stored and how to go on."""
    from crowdprism.cli.exit_codes import INTERRUPTED
    from crowdprism.cli.screen import remark, say_interrupted
    from crowdprism.experiments import Interrupted, run

    try:
        report = run(plan, store, processes=processes, retry=retry)
    except Interrupted as stop:
        say_interrupted(f"{stop} The same command goes on from {store.path}; --report-only shows what is there.")
        raise typer.Exit(INTERRUPTED) from stop
    remark(f"{report.n_there} fits were there, {report.n_measured} were measured, {len(report.failed)} of them failed.")
    for row in report.failed[:MOST_FAILURES_SHOWN]:
        fit = row["fit"]
        remark(f"failed: {fit['data']['dataset']}, {fit['classifier']}, seed {fit['seed']}: {row['reason']}")


def list_tables(as_json: bool) -> None:
    """Every table that comes with crowdprism."""
    from crowdprism.cli.screen import remark, show_json, show_table
    from crowdprism.experiments import load_study, make_plan, study_names

    studies = [load_study(name) for name in study_names()]
    if as_json:
        show_json([{"name": study.name, "title": study.title, "source": study.source} for study in studies])
        return
    show_table(
        "",
        ("table", "quick", "cpu", "paper", "what"),
        [
            (study.name, *(len(make_plan(study, name).fits) for name in ("quick", "cpu", "paper")), study.title)
            for study in studies
        ],
    )
    remark("Numbers of fits by budget. `crowdprism reproduce T2 --budget quick` runs one; --help tells more.")


def show(result: TableResult, as_json: bool) -> None:
    """The table on standard output, one line per column and method."""
    from crowdprism.cli.screen import show_json, show_table
    from crowdprism.experiments.tables import distance_text, measured_text, published_text

    lines: list[dict[str, Any]] = []
    for cell in result.plan.cells:
        for method in result.plan.methods:
            ours, published = (
                result.measured(cell.name, method.name),
                result.study.published_for(cell.name, method.name),
            )
            if ours is None and method.variant_of:
                continue
            lines.append(
                {
                    "column": cell.title,
                    "method": method.title,
                    "published": published_text(published, result),
                    "measured": measured_text(ours, result),
                    "distance": distance_text(ours, published),
                }
            )
    if as_json:
        show_json(lines)
        return
    heads = ("column", "method", "published", "measured", "distance")
    show_table(result.study.title, heads, [[line[head] for head in heads] for line in lines])

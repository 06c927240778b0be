"""`crowdprism reproduce`: run a published experiment and compare the results with the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from crowdprism.cli.options import AsJson, split_names
from crowdprism.cli.screen import exit_interrupted, print_json, print_table, remark

if TYPE_CHECKING:
    from crowdprism.experiments import Plan, RowStore, TableResult


def reproduce(
    table: str = typer.Argument("", help="Name of a table, or path of your own TOML file.", show_default=False),
    budget: str = typer.Option("quick", help="How much to run: quick, cpu or paper."),
    cells: list[str] | None = typer.Option(None, help="Only these columns; separate by commas or repeat."),
    methods: list[str] | None = typer.Option(None, help="Only these methods; separate by commas or repeat."),
    seeds: list[int] | None = typer.Option(None, help="Seeds of the trials; repeat for several."),
    processes: int = typer.Option(1, min=1, help="Fits to run at the same time, one thread each."),
    output: Path = typer.Option("reproduction", "--output", "-o", help="Folder for pages, figures and rows."),
    rows: Path | None = typer.Option(None, help="File of rows; rows.jsonl in the folder by default."),
    retry: bool = typer.Option(False, "--retry", help="Run failed fits again."),
    report_only: bool = typer.Option(False, "--report-only", help="Write the page from stored rows."),
    json: AsJson = False,
) -> None:
    """Run a published experiment and compare it with the published numbers; without TABLE, list all.

    Each fit is stored when it is done. After Ctrl-C, the same command continues where it stopped.

    Example: `crowdprism reproduce T2 --budget quick --cells music --methods nn-mv,geocrowdnet-f`
    """
    if not table:
        list_tables(json)
        return
    from crowdprism.experiments import RowStore, load_study, make_plan, summarize, write_page

    study = load_study(table)
    chosen: dict[str, Any] = {"cells": split_names(",".join(cells or ())), "seeds": list(seeds or ())}
    chosen["methods"] = split_names(",".join(methods or ()))
    plan = make_plan(study, budget, **chosen)
    store = RowStore(rows or output / "rows.jsonl")
    remark(f"{study.name}: {study.title}. {len(plan.fits)} fits; rows in {store.path}")
    remark(f"Budget {plan.budget.name}. Reduced: {' '.join(plan.budget.reduces.split())}")
    if not report_only:
        run_plan(plan, store, processes, retry)
    result = summarize(make_plan(study, budget, **chosen, variants=not methods), store.read())
    written = write_page(result, output)
    print_result(result, json)
    remark(f"wrote {', '.join(map(str, written))}")


def run_plan(plan: Plan, store: RowStore, processes: int, retry: bool) -> None:
    """Run the fits that are missing; on Ctrl-C, print what is stored and how to continue."""
    from crowdprism.experiments import Interrupted, run

    try:
        report = run(plan, store, processes=processes, retry=retry)
    except Interrupted as stop:
        exit_interrupted(f"{stop} The same command continues from {store.path}; --report-only shows what is there.")
    remark(f"{report.n_there} fits were stored before, {report.n_measured} were run, {len(report.failed)} failed.")
    for row in report.failed[:5]:
        fit = row["fit"]
        remark(f"failed: {fit['data']['dataset']}, {fit['classifier']}, seed {fit['seed']}: {row['reason']}")


def list_tables(as_json: bool) -> None:
    from crowdprism.experiments import load_study, make_plan, study_names

    studies = [load_study(name) for name in study_names()]
    if as_json:
        print_json([{"name": study.name, "title": study.title, "source": study.source} for study in studies])
        return
    budgets = ("quick", "cpu", "paper")
    rows = [(study.name, *(len(make_plan(study, name).fits) for name in budgets), study.title) for study in studies]
    print_table("", ("table", *budgets, "what"), rows)
    remark("Numbers of fits by budget. `crowdprism reproduce T2 --budget quick` runs one.")


def print_result(result: TableResult, as_json: bool) -> None:
    from crowdprism.experiments.pages import texts_of

    lines: list[dict[str, Any]] = []
    for cell in result.plan.cells:
        for method in result.plan.methods:
            if result.measured(cell.name, method.name) is None and method.variant_of:
                continue
            texts = dict(zip(("published", "measured", "distance"), texts_of(result, cell, method), strict=True))
            lines.append({"column": cell.title, "method": method.title, **texts})
    if as_json:
        print_json(lines)
    else:
        rows = [list(line.values()) for line in lines]
        print_table(result.study.title, list(lines[0]) if lines else (), rows, most=len(lines))

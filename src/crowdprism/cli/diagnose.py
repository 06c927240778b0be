"""`crowdprism diagnose` and `crowdprism suggest`: whether to trust a result, and which labels to ask for next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import crowdprism as cp
from crowdprism.cli.aggregate import DEFAULT_METHOD
from crowdprism.cli.options import AsJson, Files, Force, ReadingOptions, aggregator_names, method_option
from crowdprism.cli.questions import ContentOptions, Page, save_tasks
from crowdprism.cli.run_folder import cells_of, run_target, save_csv
from crowdprism.cli.screen import print_csv, print_json, print_lines, print_records, remark, to_records
from crowdprism.errors import counted

if TYPE_CHECKING:
    from crowdprism.diagnostics.annotator_accounts import AnnotatorReport
    from crowdprism.diagnostics.findings import Findings
    from crowdprism.diagnostics.item_accounts import ItemReport
    from crowdprism.formats.item_content import ItemContent
    from crowdprism.formats.tool_tasks import TaskList

Run = Annotated[Path | None, typer.Option("--run", "-r", help="Run folder of the files; else --method is fitted.")]
N_SHOWN = 10
OVERUSE_Z = 3  # excess of a label, in standard errors, that is worth showing


def diagnose(
    files: Files,
    *,
    run: Run = None,
    method: str = method_option(DEFAULT_METHOD, aggregator_names),
    output: Path | None = typer.Option(None, "--output", "-o", help="Folder for findings, annotators and items (CSV)."),
    force: Force = False,
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Check whether a result can be trusted, and which annotators and items to look at.

    Example: `crowdprism diagnose labels.csv --run run/`
    """
    from crowdprism.diagnostics.annotator_accounts import annotator_report
    from crowdprism.diagnostics.identifiability import examine
    from crowdprism.diagnostics.item_accounts import item_report

    inputs = [*files, run, reading.gold_file]
    with run_target(output, kind="diagnosis", force=force, inputs=inputs) as fresh:
        result, annotations = load_or_fit(reading.read(files), run, method)
        findings = examine(result, annotations)
        people, items = annotator_report(result, annotations), item_report(result, annotations)
        for name, table in (("findings", findings), ("annotators", people), ("items", items)):
            if fresh is not None:
                save_csv(fresh / f"{name}.csv", cells_of(table.to_frame()))
    odd, wrong = suspects(people), wrong_gold(items, annotations)
    if json:
        record = {"method": result.method, "verdict": findings.severity, "findings": findings.to_records()}
        print_json({**record, "suspects": odd, "wrong_gold": wrong})
    else:
        print_diagnosis(result, findings, odd, wrong, annotations)
    if output is not None:
        remark(f"wrote findings.csv, annotators.csv and items.csv to {output}")


def load_or_fit(annotations: cp.Annotations, run: Path | None, method: str) -> tuple[cp.FitResult, cp.Annotations]:
    """Return the saved result with the annotations in its order of names, or fit the method; both without gold."""
    if run is None:
        return cp.make_aggregator(method, use_gold=False).fit(annotations).result_, annotations
    result = cp.FitResult.load(run)
    names = {role: getattr(result, role).tolist() for role in ("items", "annotators", "classes")}
    annotations = annotations.reindexed(**names)
    return replace(result, annotations=annotations).blind, annotations


def suspects(people: AnnotatorReport) -> list[dict[str, Any]]:
    """Careless and adverse annotators, the lowest accuracy first."""
    import numpy as np

    odd = np.flatnonzero((people.kind == "careless") | (people.kind == "adverse"))
    odd = odd[np.argsort(people.quality[odd], kind="stable")]
    overused = people.classes[people.overused].astype(object)
    overused[people.overuse_z <= OVERUSE_Z] = None
    columns = {
        "annotator": people.annotators,
        "kind": people.kind,
        "annotations": people.n_labels,
        "accuracy": people.quality,
        "low": people.quality_low,
        "high": people.quality_high,
        "over-used label": overused,
    }
    return to_records(columns, odd)


def wrong_gold(items: ItemReport, annotations: cp.Annotations) -> list[dict[str, Any]]:
    """Items whose gold is probably wrong, the least probable first."""
    import numpy as np

    if annotations.gold is None:
        return []
    wrong = np.flatnonzero(items.likely_mislabelled)
    wrong = wrong[np.argsort(items.gold_probability[wrong], kind="stable")]
    columns = {
        "item": items.items,
        "gold": items.classes[annotations.gold.filled(0)],
        "found": items.classes[items.label],
        "probability": items.gold_probability,
    }
    return to_records(columns, wrong)


def print_diagnosis(
    result: cp.FitResult, findings: Findings, odd: list[Any], wrong: list[Any], annotations: cp.Annotations
) -> None:
    from crowdprism.diagnostics.annotator_accounts import copying
    from crowdprism.diagnostics.calibration import calibration_of

    print_lines(f"{verdict_on(findings, result)}\n\n{findings}")
    print_records(f"Careless and adverse annotators: {len(odd)} of {result.n_annotators}", odd[:N_SHOWN])
    if annotations.gold is not None and annotations.gold.count():
        print(f"Against gold: {calibration_of(result, annotations)}.")
        print_records(f"Gold that is probably wrong, with its probability: {len(wrong)} items", wrong[:N_SHOWN])
    copies = copying(annotations)
    if len(copies.z):
        columns = {
            "first": result.annotators[copies.first],
            "second": result.annotators[copies.second],
            "shared items": copies.common,
            "agreements": copies.agreements,
            "expected": copies.expected,
            "z": copies.z,
        }
        pairs = to_records(columns)[:N_SHOWN]
        print_records(f"Pairs that agree more than their confusions explain: {len(copies.z)}", pairs)


def verdict_on(findings: Findings, result: cp.FitResult) -> str:
    """What the findings come to, in plain words."""
    verdict = f"None of the {len(findings)} checks found a problem."
    for severity, advice in (("caution", "Use the result with care"), ("warning", "Do not rely on the result yet")):
        names = [finding.name for finding in findings if finding.severity == severity]
        failed = f"{len(names)} of {len(findings)} checks did not pass ({', '.join(names)})"
        verdict = f"{advice}: {failed}." if names else verdict
    return f"{verdict} {result.account.sentence()}" if result.account is not None else verdict


def suggest(
    files: Files,
    *,
    budget: float = typer.Option(100, "--budget", "-b", help="How many labels to ask for."),
    run: Run = None,
    method: str = method_option(DEFAULT_METHOD, aggregator_names),
    capacity: int | None = typer.Option(None, help="Most labels to ask of one annotator; default: twice a fair share."),
    per_item: int = typer.Option(1, help="Most labels to ask for one item."),
    target: float | None = typer.Option(None, help="Stop once this accuracy is expected."),
    file: Path | None = typer.Option(None, "--output", "-o", help="CSV file, or tasks for --to; by default printed."),
    page: Page = None,
    to: str = typer.Option("csv", help="Tasks for label-studio, argilla, doccano or prodigy instead of CSV."),
    content: ContentOptions,
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Choose which items to label next, and which annotators to ask.

    Example: `crowdprism suggest labels.csv --budget 200 -o next.csv`
    """
    from crowdprism.diagnostics.next_labels import suggest as suggest_labels

    read, report = reading.read_with_report(files)
    result, annotations = load_or_fit(read, run, method)
    found = suggest_labels(result, annotations, budget, capacity=capacity, per_item=per_item, target_accuracy=target)
    frame = found.to_frame()
    remark(found.reason)
    shown = content.load(frame["item"].to_list(), result, files, report) if page or to != "csv" else None
    if page is not None and shown is not None:
        items = list(dict.fromkeys(frame["item"].to_list()))  # each once, whoever is asked
        title = f"{counted(len(items), 'item')} to label next"
        content.save_page(page, items, result, title=title, annotations=annotations, content=shown)
    if json:
        names = ("stop", "reason", "expected_accuracy", "expected_accuracy_after")
        print_json({name: getattr(found, name) for name in names} | {"labels": frame.to_dicts()})
    elif file is not None and to != "csv" and shown is not None:
        save_tasks(file, tasks_of(frame, result, shown), to)
    elif file is None and page is None:
        print_csv(cells_of(frame))
    elif file is not None:
        save_csv(file, cells_of(frame))
        remark(f"wrote {file}")


def tasks_of(frame: Any, result: cp.FitResult, shown: ItemContent) -> TaskList:
    """The suggested items as tasks, with the annotators to ask; each item once."""
    from crowdprism.formats.tool_tasks import Task, TaskList

    asked = frame.group_by("item", maintain_order=True).agg("annotator").iter_rows()
    tasks = [Task(item, shown.by_item.get(item, {}), more={"ask": ", ".join(map(str, who))}) for item, who in asked]
    return TaskList(tasks, result.classes.tolist(), shown.columns)

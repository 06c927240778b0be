"""`crowdprism audit` and `crowdprism jury`: how right labels are by drawn answers, and judges by gold or people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

import crowdprism as cp
from crowdprism.cli.aggregate import DEFAULT_METHOD
from crowdprism.cli.options import AsJson, Files, ReadingOptions, require_exists, split_names
from crowdprism.cli.questions import ContentOptions, Page, save_tasks
from crowdprism.cli.run_folder import save_csv
from crowdprism.cli.screen import print_json, print_lines, print_table, remark
from crowdprism.errors import InvalidParameterError, some
from crowdprism.files import write_whole

if TYPE_CHECKING:
    from crowdprism.calibration.audit import AuditPlan, AuditResult
    from crowdprism.calibration.jury import Figure, JuryReport
    from crowdprism.formats.item_content import ItemContent
    from crowdprism.formats.raw_annotations import ReadingReport

OWN_COLUMNS = ("item", "choices", "answer", "stratum", "probability", "audit")
N_ANNOTATORS_SHOWN = 20
OVER_USE_SHOWN = 12  # rows of over-used classes
VERDICTS = {True: "yes", False: "no", None: "unknown"}


class Audited(NamedTuple):
    result: cp.FitResult
    annotations: cp.Annotations | None
    files: Sequence[Path]  # of the annotations
    report: ReadingReport | None  # on reading them


def audit(
    files: list[Path] = typer.Argument(..., help="Annotation files; or a run folder, then its annotation files."),
    *,
    n: int = typer.Option(40, "--number", "-n", help="How many items to ask."),
    seed: int = typer.Option(0, help="Seed of the draw."),
    method: str = typer.Option(DEFAULT_METHOD, "--method", "-m", help="Method to fit if no run folder is given."),
    file: Path | None = typer.Option(None, "--output", "-o", help="Questions file: .csv, or .json for Label Studio."),
    page: Page = None,
    to: str = typer.Option("auto", help="csv, label-studio, argilla, doccano or prodigy; by default from the ending."),
    content: ContentOptions,
    answers: list[Path] | None = typer.Option(None, help="The answered file, or its export from Label Studio."),
    gold_out: Path | None = typer.Option(None, help="Write the answers as gold, for --gold-file."),
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Measure how right labels are: draw items, have them answered, and read the answers.

    Example: `crowdprism audit labels.csv --page audit.html`, answer in a browser, then
    `crowdprism audit labels.csv --answers answers.csv`
    """
    if answers is None and file is None and page is None:
        raise InvalidParameterError(
            "Say where to write the questions, or pass the answers.",
            remedy="Use {page:audit.html}, {file:audit.csv} or {answers:answers.csv}",
        )
    from crowdprism.calibration.audit import audit_plan, audit_result

    labels = labels_under_audit(files, reading, method)
    if answers is None:
        plan = audit_plan(labels.result, n, seed, annotations=labels.annotations)
        asked = plan.items[plan.asked].tolist()
        shown = content.load(asked, labels.result, labels.files, labels.report)
        if file is not None:
            write_questions(plan, file, to, shown)
        if page is not None:
            title = f"Audit: {len(asked)} of {len(plan.items)} items"
            command = f"crowdprism audit {shlex.join(map(str, files))} --answers answers.csv"
            about = {"annotations": labels.annotations, "content": shown, "command": command}
            content.save_page(page, asked, labels.result, title=title, name=plan.name, **about)
        return
    plan, given = read_answers(labels, answers, n, seed)
    found = audit_result(plan, given)
    if gold_out is not None:
        save_csv(gold_out, {"item": list(found.answers), "label": list(found.answers.values())})
        remark(f"wrote {gold_out}; use it with --gold-file {gold_out}")
    if json:
        print_json(to_record(plan, found))
    else:
        print_audit(plan, found)


def labels_under_audit(files: Sequence[Path], reading: ReadingOptions, method: str) -> Audited:
    """Load the run folder that comes first, or fit the method to the annotation files."""
    require_exists(files[0])
    saved = cp.FitResult.load(files[0]) if (files[0] / "result.json").exists() else None
    read = files if saved is None else files[1:]
    annotations, report = reading.read_with_report(read) if read else (None, None)
    result = cp.make_aggregator(method).fit(annotations).result_ if saved is None else saved
    return Audited(result, annotations, read, report)


def write_questions(plan: AuditPlan, output: Path, to: str, shown: ItemContent) -> None:
    """Write one row or task per item to ask; the label under audit is not shown, so that it cannot sway anyone."""
    names = plan.items[plan.asked].tolist()
    columns = [column for column in shown.columns if column not in OWN_COLUMNS]
    if to == "csv" or (to == "auto" and output.suffix.lower() != ".json"):
        table: dict[str, list[Any]] = {
            "item": names,
            **{column: [shown.by_item.get(name, {}).get(column) for name in names] for column in columns},
            "choices": [" | ".join(map(str, plan.classes.tolist()))] * len(names),
            "answer": [""] * len(names),
            "stratum": plan.stratum[plan.asked].tolist(),
            "probability": plan.probability.round(6).tolist(),
            "audit": [plan.name] * len(names),
        }
        save_csv(output, table)
    else:
        from crowdprism.formats.tool_tasks import Task, TaskList

        tasks = [Task(name, shown.by_item.get(name, {}), more={"audit": plan.name}) for name in names]
        save_tasks(output, TaskList(tasks, plan.classes.tolist(), columns), to)
    remark(f"{len(names)} of {len(plan.items)} items: fill in the answers and pass {output} as --answers")


def read_answers(labels: Audited, files: Sequence[Path], n: int, seed: int) -> tuple[AuditPlan, list[tuple[Any, Any]]]:
    """Read the answers and draw the same audit again; its seed and size stand in the file, or come from the options."""
    from crowdprism.calibration.audit import audit_plan
    from crowdprism.formats.gold_file import read_gold

    found = [read_gold(file, labels.result.items, labels.result.classes) for file in files]
    audits = list(dict.fromkeys(name for one in found for name in one.audits))
    parts = [name.split("-") for name in audits]
    if any(len(part) != 3 or not (part[0].isdigit() and part[1].isdigit()) for part in parts):
        raise InvalidParameterError(f"The column audit holds {audits[0]!r}, which is no audit's name. Drop the column.")
    if len({part[0] for part in parts}) > 1:
        raise InvalidParameterError(f"The answers belong to audits with different seeds: {some(audits)}. Pass one.")
    if parts:
        seed, n = int(parts[0][0]), max(int(part[1]) for part in parts)
    plan = audit_plan(labels.result, n, seed, annotations=labels.annotations)
    if any(part[2] != plan.name.split("-")[2] for part in parts):
        raise InvalidParameterError(
            f"The answers belong to the audit {audits[0]}, but these labels give {plan.name}: the labels differ from "
            "those that were audited. Pass the same annotation files and method, without the answers as gold."
        )
    return plan, [pair for one in found for pair in one.pairs]


def to_record(plan: AuditPlan, found: AuditResult) -> dict[str, Any]:
    def listed(shares: Mapping[Any, Any]) -> list[dict[str, Any]]:
        return [{"name": name, **(share._asdict() if share else {"n_answers": 0})} for name, share in shares.items()]

    return {
        "audit": plan.name,
        "items": found.n_items,
        "asked": found.n_asked,
        "answered": found.n_answers,
        "level": found.level,
        "accuracy": found.accuracy._asdict(),
        "classes": listed(found.classes),
        "shares": listed(found.shares),
        "annotators": listed(found.annotators),
        "more_to_halve": found.more_to_halve,
    }


def print_audit(plan: AuditPlan, found: AuditResult) -> None:
    share = found.accuracy
    print(
        f"{share.value:.1%} of the {found.n_items} labels are right; {found.level:.0%} interval {share.low:.1%} to "
        f"{share.high:.1%}, from {found.n_answers} of {found.n_asked} answers. It holds whatever the method believes."
    )
    if found.more_to_halve:
        total = found.n_answers + found.more_to_halve
        print(
            f"{found.more_to_halve} more answers would halve the interval: draw -n {total} --seed {plan.seed}, which "
            "asks the same items and more, and pass both files with --answers."
        )
    header = ("share", "low", "high", "answers")
    print_table("Right among the items labelled", ("class", *header), rows(found.classes))
    print_table("Corrected shares of the classes", ("class", *header), rows(found.shares))
    lowest = dict(sorted(found.annotators.items(), key=lambda pair: pair[1].value)[:N_ANNOTATORS_SHOWN])
    if lowest:
        title = f"Right among the labels of an annotator, lowest of {len(found.annotators)} with enough answers"
        print_table(title, ("annotator", *header), rows(lowest))


def rows(shares: Mapping[Any, Any]) -> list[list[Any]]:
    return [[name, *(share if share is not None else (None, None, None, 0))] for name, share in shares.items()]


def jury(
    files: Files,
    *,
    humans: str | None = typer.Option(None, "--human", help="Annotators who are people, separated by commas."),
    epsilon: float = typer.Option(0.2, help="Margin for replacing people: 0.2 experts, 0.15 trained, 0.1 crowd."),
    file: Path | None = typer.Option(None, "--output", "-o", help="HTML page."),
    seed: int = typer.Option(0, help="Seed of the bootstrap."),
    reading: ReadingOptions,
    json: AsJson = False,
) -> None:
    """Measure judges, such as language models, against gold or people: accuracy, shared errors, which panel to keep.

    Example: `crowdprism jury labels.csv --gold-file gold.csv -o jury.html`
    """
    from crowdprism.calibration.jury import measure_jury
    from crowdprism.formats.gold_file import Spelling

    annotations = reading.read(files)
    spelling = Spelling(annotations.annotators)
    people = [spelling(name) for name in split_names(humans or "")]
    report = measure_jury(annotations, humans=people, epsilon=epsilon, seed=seed)
    if json:
        print_json(asdict(report))
    else:
        print_jury(report)
    if file is not None:
        from crowdprism.report.tables_page import jury_page

        remark(f"wrote {write_whole(file, jury_page(report))}")


def print_jury(report: JuryReport) -> None:
    from crowdprism.report.tables_page import jury_lines

    head = f"Measured against {report.reference}, on {report.n_reference} of {report.n_items} items."
    print_lines(head, *jury_lines(report))
    print_table(
        "Judges",
        ("judge", "items", "accuracy", "Cohen's kappa", "adds to the vote"),
        [[one.name, one.n, cell(one.accuracy), cell(one.kappa), cell(one.adds)] for one in report.judges],
    )
    used = [(one.name, name, figure) for one in report.judges for name, figure in one.over_use.items()]
    clear = sorted((row for row in used if row[2].low > 0 or row[2].high < 0), key=lambda row: -abs(row[2].value))
    if clear:
        print_table(
            "Classes that a judge names too often (+) or too rarely (-)",
            ("judge", "class", "share of items"),
            [[judge, name, cell(figure)] for judge, name, figure in clear[:OVER_USE_SHOWN]],
        )
    print_table(
        "Shares of the classes, corrected for the errors of the vote",
        ("class", "by the vote", "corrected"),
        [[name, report.voted[name], cell(figure)] for name, figure in report.prevalence.items()],
    )
    if report.replaces:
        print_table(
            "Alternative annotator test",
            ("judge", "may replace a person", "winning rate", "advantage", "humans"),
            [
                (name, VERDICTS[one.passed], one.winning_rate, one.advantage, one.n_humans)
                for name, one in report.replaces.items()
            ],
        )


def cell(figure: Figure) -> str:
    return "-" if figure.value != figure.value else f"{figure.value:.3f} ({figure.low:.3f} to {figure.high:.3f})"

"""`crowdprism aggregate`: from annotations to one label per item, without features."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import crowdprism as cp
from crowdprism.cli.options import (
    AsJson,
    Files,
    Force,
    ReadingOptions,
    ThreadOptions,
    VoiceOptions,
    aggregator_names,
    listing,
)
from crowdprism.cli.questions import describe_source
from crowdprism.cli.run_folder import (
    Run,
    Written,
    annotator_columns,
    label_columns,
    require_writable,
    run_target,
    write_labels,
    write_run,
)
from crowdprism.cli.screen import INCOMPLETE, INTERRUPTED, print_error, print_json, print_table, print_text, remark
from crowdprism.cli.several_choices import ChoiceOptions
from crowdprism.cli.shard_command import (
    StoreOptions,
    StoreRun,
    aggregate_store,
    beyond_memory,
    count_each_annotator,
    fit_out_of_core,
    holds_store,
    show_store_run,
)
from crowdprism.errors import counted
from crowdprism.files import replacing_file

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations
    from crowdprism.results import FitResult

WithReport = Annotated[
    bool, typer.Option("--report/--no-report", help="Write report.html into the run folder; takes a few seconds.")
]
DEFAULT_METHOD = "dawid-skene"
ORDERED_METHOD = "ordinal-dawid-skene"  # if --order is given
N_LOWEST = 10
N_CLASSES_SHOWN = 30


def aggregate(
    files: Files,
    *,
    method: Annotated[
        str,
        typer.Option("--method", "-m", help="Name of the method; `list` lists all.", **listing(aggregator_names)),
    ] = DEFAULT_METHOD,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Run folder for the result, labels.csv, annotators.csv, report.html; or a .csv file for the labels.",
        ),
    ] = None,
    report: WithReport = True,
    force: Force = False,
    reading: ReadingOptions,
    several: ChoiceOptions,
    voices: VoiceOptions,
    use_gold: Annotated[
        bool, typer.Option("--use-gold/--no-use-gold", help="Learn from gold too; its items get their known class.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of methods that use random numbers.")] = 0,
    threading: ThreadOptions,
    stores: StoreOptions,
    json: AsJson = False,
) -> None:
    """Combine the labels of many annotators into one label per item, and rate the annotators.

    Without --output the labels are printed as CSV. A store that `crowdprism shard` wrote is worked on out of core.

    Example: `crowdprism aggregate labels.csv -o run/`
    """
    threading.apply()
    table = labels_table(output, inputs=[*files, reading.gold_file])
    output = output if table is None else None
    if reading.order is not None and method == DEFAULT_METHOD and not several.multi:
        method = ORDERED_METHOD
    aggregator = cp.make_aggregator(method, use_gold=use_gold)
    if "random_state" in aggregator.get_params():
        aggregator.set_params(random_state=seed)
    if several.multi:
        several.aggregate(aggregator, files, reading, output, table, report=report, force=force, as_json=json)
        return
    large: StoreRun | None = None
    if holds_store(files):
        count_each_annotator(aggregator, voices)
        large = aggregate_store(aggregator, files[0], output, stores, report=report, force=force)
    else:
        stores.require_store()
        with run_target(output, kind="result", force=force, inputs=[*files, reading.gold_file]) as fresh:
            annotations, account = reading.read_with_report(files)
            voices.apply(aggregator, annotations)
            several.use_abstentions(aggregator, annotations)
            if output is not None and fresh is not None and beyond_memory(annotations, aggregator):
                large = fit_out_of_core(fresh, aggregator, annotations, output, stores, report=report)
            else:
                result = aggregator.fit(annotations).result_
                about = describe_source(result, files, account)
                run = Run(result, annotations, with_report=report, about=about)
                written = Written() if fresh is None else write_run(fresh, run)
    if large is not None and output is not None:
        show_store_run(large, output, as_json=json)
    else:
        deliver(run, output, written, as_json=json, table=table)


def labels_table(output: Path | None, inputs: Iterable[Path | None]) -> Path | None:
    """The file that --output names, if it names a table and no run folder."""
    if output is None or output.is_dir() or output.suffix.lower() != ".csv":
        return None
    require_writable(output, inputs=inputs)
    return output


def deliver(
    run: Run, output: Path | None, written: Written, *, as_json: bool = False, table: Path | None = None
) -> None:
    """Print the labels, or a summary of the run that was written; exit with an error if its report is missing."""
    if as_json:
        print_json(to_record(run.result, run.annotations))
    elif table is not None:
        with replacing_file(table) as fresh, fresh.open("w", encoding="utf-8", newline="") as file:
            write_labels(file, run.result, run.annotations)
        remark(f"wrote {table}; with -o and the name of a folder, annotators.csv and report.html are written too")
    elif output is None:
        write_labels(sys.stdout, run.result, run.annotations)
    else:
        print_summary(run.result, run.annotations, folder=output)
    if run.result.n_known:
        remark(f"note: {describe_gold(run.result)}")
    if run.result.voices:
        from crowdprism.aggregators.one_voice import describe_voices

        remark(f"note: {describe_voices(run.result.voices, run.result.n_annotators)}")
    if output is not None:
        remark(f"wrote {', '.join(str(output / name) for name in written.names)} and the result")
    if written.report_failed:
        print_error(
            f"the report was left out ({written.report_failed}); the rest of the run was written. Run `crowdprism "
            f"report {output}` to write it."
        )
        raise typer.Exit(INTERRUPTED if written.report_failed == "interrupted" else INCOMPLETE)


def to_record(result: FitResult, annotations: Annotations) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "method": result.method,
        "items": result.n_items,
        "annotators": result.n_annotators,
        "classes": result.classes.tolist(),
        "annotations": annotations.n_annotations,
        "account": None if result.account is None else result.account.numbers(),
        "gold_used": result.n_known,
        "accuracy_against_gold": gold_accuracy(result, annotations),
        "labels": to_rows(label_columns(result)),
        "annotator_accuracy": None if result.annotator_accuracy is None else to_rows(annotator_columns(result)),
        "voices": [list(names) for names in result.voices],
        "warnings": list(result.warnings),
    }


def to_rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """One mapping per row; empty cells become None."""
    names = list(columns)
    return [
        {name: None if cell == "" else cell for name, cell in zip(names, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]


def gold_accuracy(result: FitResult, annotations: Annotations) -> float | None:
    """Share of items with gold that are labelled correctly without knowing it, or None without gold."""
    if annotations.gold is None or not annotations.gold.count():
        return None
    return float((annotations.gold == result.blind.class_probabilities.argmax(axis=1)).mean())


def describe_gold(result: FitResult) -> str:
    """Say that gold was used, and what follows for measures."""
    return (
        f"gold of {counted(result.n_known, 'item')} was used: these have their known class, and annotators were judged "
        "by it. Accuracy against gold is that of a fit without it."
    )


def print_summary(result: FitResult, annotations: Annotations, *, folder: Path) -> None:
    """Print how right the labels are, how often each class was found, and the annotators with the lowest accuracy."""
    import numpy as np

    print_expected(result, folder)
    found = np.bincount(result.class_probabilities.argmax(axis=1), minlength=result.n_classes)
    given = np.bincount(annotations.label, minlength=result.n_classes)
    shares = found / max(result.n_items, 1), given / max(annotations.n_annotations, 1)
    shown = np.sort(np.argsort(-found, kind="stable")[:N_CLASSES_SHOWN])
    print_table(
        f"Labels by {result.method}",
        ("class", "items", "share of items", "share of given labels"),
        zip(*(column[shown].tolist() for column in (result.classes, found, *shares)), strict=True),
    )
    if result.n_classes > len(shown):
        print_text(f"The {len(shown)} most frequent of {result.n_classes} classes.")
    accuracy = gold_accuracy(result, annotations)
    if accuracy is not None:
        print_table("", ("against gold", "accuracy"), [("items with gold", accuracy)])
    if result.annotator_accuracy is not None:
        names, counts = result.annotators.tolist(), annotations.labels_per_annotator
        lowest = np.argsort(result.annotator_accuracy, kind="stable")[:N_LOWEST].tolist()
        rows = [(names[place], int(counts[place]), float(result.annotator_accuracy[place])) for place in lowest]
        interval = result.annotator_accuracy_interval()
        if interval is not None:
            rows = [(*row, *interval[place].tolist()) for row, place in zip(rows, lowest, strict=True)]
        columns = ("annotator", "annotations", "accuracy", "low", "high")[: len(rows[0]) if rows else 3]
        print_table("Annotators with the lowest accuracy", columns, rows)


def print_expected(result: FitResult, folder: Path) -> None:
    """Print how right the labels are, and how to know more."""
    account = result.account
    if account is None:
        return
    advice = account.advice()
    ask = f" {advice} Ask for them: crowdprism audit {folder} -n {account.n_more} -o questions.csv" if advice else ""
    print_text(f"{account.sentence()}{ask}")

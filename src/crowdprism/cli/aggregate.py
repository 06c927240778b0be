"""`crowdprism aggregate`: from annotations to one label per item, without features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import crowdprism as cp
from crowdprism.cli import options, run_folder, screen, shard_command
from crowdprism.cli.questions import describe_source
from crowdprism.cli.run_folder import Run, Written, annotator_columns, label_columns
from crowdprism.cli.screen import print_records, print_table, remark, to_records
from crowdprism.cli.several_choices import ChoiceOptions
from crowdprism.cli.shard_command import StoreOptions
from crowdprism.errors import counted

WithReport = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html; takes a few seconds.")]
DEFAULT_METHOD = "dawid-skene"
N_CLASSES_SHOWN = 30


def aggregate(
    files: options.Files,
    *,
    method: str = options.method_option(DEFAULT_METHOD, options.aggregator_names),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Run folder for the result, tables and report.html; or a .csv file for the labels."
    ),
    report: WithReport = True,
    force: options.Force = False,
    reading: options.ReadingOptions,
    several: ChoiceOptions,
    voices: options.VoiceOptions,
    use_gold: bool = typer.Option(True, "--use-gold/--no-use-gold", help="Learn from gold; its items keep that class."),
    seed: int = typer.Option(0, help="Seed of methods that use random numbers."),
    threading: options.ThreadOptions,
    stores: StoreOptions,
    json: options.AsJson = False,
) -> None:
    """Combine the labels of many annotators into one label per item, and rate the annotators.

    Without --output the labels are printed as CSV. FILES can be a store written by `crowdprism shard`.

    Example: `crowdprism aggregate labels.csv -o run/`
    """
    threading.apply()
    inputs = [*files, reading.gold_file]
    table = None
    if output is not None and output.suffix.lower() == ".csv" and not output.is_dir():
        run_folder.require_writable(output)
        table, output = output, None
    if reading.order is not None and method == DEFAULT_METHOD and not several.multi:
        method = "ordinal-dawid-skene"
    aggregator = cp.make_aggregator(method, use_gold=use_gold)
    if "random_state" in aggregator.get_params():
        aggregator.set_params(random_state=seed)
    if several.multi:
        several.aggregate(aggregator, files, reading, output, table, report=report, force=force, as_json=json)
        return
    if shard_command.holds_store(files):
        voices.apply(aggregator, None)
        done = shard_command.aggregate_store(aggregator, files[0], output, stores, report=report, force=force)
        done.show(as_json=json)
        return
    stores.require_store()
    with run_folder.run_target(output, kind="result", force=force, inputs=inputs) as fresh:
        annotations, account = reading.read_with_report(files)
        voices.apply(aggregator, annotations)
        several.use_abstentions(aggregator, annotations)
        large = None
        if shard_command.beyond_memory(annotations, aggregator):
            if output is None or fresh is None:
                shard_command.label_out_of_core(aggregator, annotations, table, stores, as_json=json)
                return
            large = shard_command.fit_out_of_core(fresh, aggregator, annotations, output, stores, report=report)
        else:
            result = aggregator.fit(annotations).result_
            run = Run(result, annotations, with_report=report, about=describe_source(result, files, account))
            written = Written() if fresh is None else run_folder.write_run(fresh, run)
    if large is not None:
        large.show(as_json=json)
    else:
        deliver(run, output, written, as_json=json, table=table)


def deliver(
    run: Run, output: Path | None, written: Written, *, as_json: bool = False, table: Path | None = None
) -> None:
    """Print the labels, or a summary of the run that was written; exit with an error if its report is missing."""
    result = run.result
    if as_json:
        screen.print_json(to_record(result, run.annotations))
    elif table is not None:
        run_folder.save_csv(table, label_columns(result, run.annotations))
        remark(f"wrote {table}; to get annotators.csv and report.html too, pass a folder as -o")
    elif output is None:
        screen.print_csv(label_columns(result, run.annotations))
    else:
        print_summary(result, run.annotations, folder=output)
    if result.n_known:
        remark(
            f"note: gold of {counted(result.n_known, 'item')} was used: these have their known class, and annotators "
            "were judged by it. Accuracy against gold is that of a fit without it."
        )
    if result.voices:
        from crowdprism.aggregators.one_voice import describe_voices

        remark(f"note: {describe_voices(result.voices, result.n_annotators)}")
    if output is not None:
        remark(written.sentence(output))
    if written.report_failed:
        screen.print_error(
            f"the report was left out ({written.report_failed}); the rest of the run was written. Run `crowdprism "
            f"report {output}` to write it."
        )
        raise typer.Exit(screen.INTERRUPTED if written.report_failed == "interrupted" else screen.INCOMPLETE)


def to_record(result: cp.FitResult, annotations: cp.Annotations) -> dict[str, Any]:
    return {
        "method": result.method,
        "items": result.n_items,
        "annotators": result.n_annotators,
        "classes": result.classes.tolist(),
        "annotations": annotations.n_annotations,
        "account": None if result.account is None else result.account.numbers(),
        "gold_used": result.n_known,
        "accuracy_against_gold": gold_accuracy(result, annotations),
        "labels": to_records(label_columns(result)),
        "annotator_accuracy": None if result.annotator_accuracy is None else to_records(annotator_columns(result)),
        "voices": [list(names) for names in result.voices],
        "warnings": list(result.warnings),
    }


def gold_accuracy(result: cp.FitResult, annotations: cp.Annotations) -> float | None:
    """Share of items with gold that are labelled correctly without knowing it, or None without gold."""
    if annotations.gold is None or not annotations.gold.count():
        return None
    return float((annotations.gold == result.blind.class_probabilities.argmax(axis=1)).mean())


def print_summary(result: cp.FitResult, annotations: cp.Annotations, *, folder: Path) -> None:
    import numpy as np

    if result.account is not None:
        advice, n = result.account.advice(), result.account.n_more
        ask = f" {advice} Ask for them: crowdprism audit {folder} -n {n} --page audit.html" if advice else ""
        print(f"{result.account.sentence()}{ask}")
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
        print(f"The {len(shown)} most frequent of {result.n_classes} classes.")
    accuracy = gold_accuracy(result, annotations)
    if accuracy is not None:
        print_table("", ("against gold", "accuracy"), [("items with gold", accuracy)])
    if result.annotator_accuracy is not None:
        lowest = np.argsort(result.annotator_accuracy, kind="stable")[:10]
        columns = {"annotator": result.annotators, "annotations": annotations.labels_per_annotator}
        columns["accuracy"] = result.annotator_accuracy
        interval = result.annotator_accuracy_interval()
        if interval is not None:
            columns |= {"low": interval[:, 0], "high": interval[:, 1]}
        shown_columns = {name: column[lowest] for name, column in columns.items()}
        print_records("Annotators with the lowest accuracy", to_records(shown_columns))

"""`crowdprism aggregate`: from annotations to one label per item, without features."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import crowdprism as cp
from crowdprism.cli.options import AsJson, Files, ReadingOptions, ThreadOptions
from crowdprism.cli.run_folder import Run, require_free, write_labels, write_run
from crowdprism.cli.screen import print_json, print_table, remark

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations
    from crowdprism.results import FitResult

WithReport = Annotated[
    bool, typer.Option("--report/--no-report", help="Write report.html into the run folder; takes a few seconds.")
]
DEFAULT_METHOD = "dawid-skene"
N_LOWEST = 10


def aggregate(
    files: Files,
    *,
    method: Annotated[
        str, typer.Option("--method", "-m", help="Name of the method; `list` lists all.")
    ] = DEFAULT_METHOD,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Run folder for the result, labels.csv, annotators.csv and report.html."),
    ] = None,
    report: WithReport = True,
    reading: ReadingOptions,
    seed: Annotated[int, typer.Option(help="Seed of methods that use random numbers.")] = 0,
    threading: ThreadOptions,
    json: AsJson = False,
) -> None:
    """Combine the labels of many annotators into one label per item, and rate the annotators.

    Without --output the labels are printed as CSV.

    Example: `crowdprism aggregate labels.csv -o run/`
    """
    if method == "list":
        from crowdprism.aggregators import AGGREGATORS

        typer.echo("\n".join(sorted(AGGREGATORS)))
        return
    threading.apply()
    if output is not None:
        require_free(output)
    aggregator = cp.make_aggregator(method)
    if "random_state" in aggregator.get_params():
        aggregator.set_params(random_state=seed)
    annotations = reading.read(files)
    result = aggregator.fit(annotations).result_
    deliver(Run(result, annotations, with_report=report), output, as_json=json)


def deliver(run: Run, output: Path | None, *, as_json: bool) -> None:
    """Write the run folder or print the labels, and print a summary."""
    written = [] if output is None else write_run(output, run)
    if as_json:
        print_json(to_record(run.result, run.annotations))
    elif output is None:
        write_labels(sys.stdout, run.result, run.annotations)
    else:
        print_summary(run.result, run.annotations)
    if output is not None:
        remark(f"wrote {', '.join(str(output / name) for name in written)} and the result")


def to_record(result: FitResult, annotations: Annotations) -> dict[str, Any]:
    """What `--json` prints."""
    best = result.class_probabilities.max(axis=1).tolist()
    labels = zip(result.items.tolist(), result.labels().tolist(), best, strict=True)
    accuracy = None
    if result.annotator_accuracy is not None:
        pairs = zip(result.annotators.tolist(), result.annotator_accuracy.tolist(), strict=True)
        accuracy = [{"annotator": name, "accuracy": round(value, 6)} for name, value in pairs]
    return {
        "method": result.method,
        "items": result.n_items,
        "annotators": result.n_annotators,
        "classes": result.classes.tolist(),
        "annotations": annotations.n_annotations,
        "accuracy_against_gold": gold_accuracy(result, annotations),
        "labels": [{"item": item, "label": label, "probability": round(value, 6)} for item, label, value in labels],
        "annotator_accuracy": accuracy,
        "warnings": list(result.warnings),
    }


def gold_accuracy(result: FitResult, annotations: Annotations) -> float | None:
    """Share of items with gold that are labelled correctly, or None without gold."""
    if annotations.gold is None or not annotations.gold.count():
        return None
    return float((annotations.gold == result.class_probabilities.argmax(axis=1)).mean())


def print_summary(result: FitResult, annotations: Annotations) -> None:
    """Print how often each class was found and the annotators with the lowest accuracy."""
    import numpy as np

    found = np.bincount(result.class_probabilities.argmax(axis=1), minlength=result.n_classes)
    given = np.bincount(annotations.label, minlength=result.n_classes)
    shares = found / max(result.n_items, 1), given / max(annotations.n_annotations, 1)
    print_table(
        f"Labels by {result.method}",
        ("class", "items", "share of items", "share of given labels"),
        zip(result.classes.tolist(), found.tolist(), *(share.tolist() for share in shares), strict=True),
    )
    accuracy = gold_accuracy(result, annotations)
    if accuracy is not None:
        print_table("", ("against gold", "accuracy"), [("items with gold", accuracy)])
    if result.annotator_accuracy is not None:
        names, counts = result.annotators.tolist(), annotations.labels_per_annotator
        print_table(
            "Annotators with the lowest accuracy",
            ("annotator", "annotations", "accuracy"),
            [
                (names[place], int(counts[place]), float(result.annotator_accuracy[place]))
                for place in np.argsort(result.annotator_accuracy, kind="stable")[:N_LOWEST]
            ],
        )

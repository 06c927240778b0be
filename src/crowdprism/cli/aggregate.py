"""`crowdprism aggregate`: from annotations to one label per item, without features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdprism.cli.device_options import Threads, use_threads
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

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations
    from crowdprism.cli.run_folder import Run
    from crowdprism.results import FitResult

WithReport = Annotated[
    bool, typer.Option("--report/--no-report", help="Write report.html into the run; it takes some seconds.")
]
DEFAULT_METHOD = "dawid-skene"
N_LOWEST = 10


def aggregate(
    files: Files,
    method: Annotated[
        str, typer.Option("--method", "-m", help="Name of the method; `list` names them all.")
    ] = DEFAULT_METHOD,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for result, labels.csv, annotators.csv and report.html."),
    ] = None,
    report: WithReport = True,
    format: Format = "auto",
    item: ItemColumn = None,
    annotator: AnnotatorColumn = None,
    label: LabelColumn = None,
    gold: GoldColumn = None,
    reading: Reading = None,
    seed: Annotated[int, typer.Option(help="Seed, for methods that draw random numbers.")] = 0,
    threads: Threads = None,
    json: AsJson = False,
) -> None:
    """Combine the labels of many annotators into one label per item, and rate the annotators.

    Without --output the labels go to standard output as CSV.

    Example: `crowdprism aggregate labels.csv -o run/`
    """
    from crowdprism.aggregators import AGGREGATORS, make_aggregator
    from crowdprism.cli.run_folder import Run, require_free

    if method == "list":
        typer.echo("\n".join(sorted(AGGREGATORS)))
        return
    use_threads(threads)
    if output is not None:
        require_free(output)
    aggregator = make_aggregator(method)
    if "random_state" in aggregator.get_params():
        aggregator.set_params(random_state=seed)
    annotations = read(files, format, item=item, annotator=annotator, label=label, gold=gold, reading=reading)
    result = aggregator.fit(annotations).result_
    deliver(Run(result, annotations, with_report=report), output, as_json=json)


def deliver(run: Run, output: Path | None, *, as_json: bool) -> None:
    """Write the run or print its labels, and tell what was found."""
    import sys

    from crowdprism.cli.run_folder import write_labels, write_run
    from crowdprism.cli.screen import remark, show_json

    written = [] if output is None else write_run(output, run)
    if as_json:
        show_json(summary_of(run.result, run.annotations))
    elif output is None:
        write_labels(sys.stdout, run.result, run.annotations)
    else:
        tell(run.result, run.annotations)
    if output is not None:
        remark(f"wrote {', '.join(str(output / name) for name in written)} and the result")


def summary_of(result: FitResult, annotations: Annotations) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "method": result.method,
        "items": result.n_items,
        "annotators": result.n_annotators,
        "classes": result.classes.tolist(),
        "annotations": annotations.n_annotations,
        "accuracy_against_gold": gold_accuracy(result, annotations),
        "labels": [
            {"item": name, "label": label, "probability": round(probability, 6)}
            for name, label, probability in zip(
                result.items.tolist(),
                result.labels().tolist(),
                result.class_probabilities.max(axis=1).tolist(),
                strict=True,
            )
        ],
        "annotator_accuracy": None
        if result.annotator_accuracy is None
        else [
            {"annotator": name, "accuracy": round(accuracy, 6)}
            for name, accuracy in zip(result.annotators.tolist(), result.annotator_accuracy.tolist(), strict=True)
        ],
        "warnings": list(result.warnings),
    }


def gold_accuracy(result: FitResult, annotations: Annotations) -> float | None:
    """Share of items with gold that got it right, or None without gold."""
    import numpy as np

    if annotations.gold is None or not annotations.gold.count():
        return None
    best = np.argmax(result.class_probabilities, axis=1)
    return float(np.ma.mean(annotations.gold == best))


def tell(result: FitResult, annotations: Annotations) -> None:
    """Print the classes found and the annotators to look at."""
    import numpy as np

    from crowdprism.cli.screen import show_table

    best = np.bincount(np.argmax(result.class_probabilities, axis=1), minlength=result.n_classes)
    given = np.bincount(annotations.label, minlength=result.n_classes)
    show_table(
        f"Labels by {result.method}",
        ("class", "items", "share of items", "share of given labels"),
        [
            (name, int(count), count / max(result.n_items, 1), total / max(annotations.n_annotations, 1))
            for name, count, total in zip(result.classes.tolist(), best, given, strict=True)
        ],
    )
    accuracy = gold_accuracy(result, annotations)
    if accuracy is not None:
        show_table("", ("against gold", "accuracy"), [("items with gold", accuracy)])
    if result.annotator_accuracy is not None:
        order = np.argsort(result.annotator_accuracy, kind="stable")[:N_LOWEST]
        show_table(
            "Annotators with the lowest accuracy",
            ("annotator", "annotations", "accuracy"),
            [
                (
                    result.annotators.tolist()[place],
                    int(annotations.labels_per_annotator[place]),
                    float(result.annotator_accuracy[place]),
                )
                for place in order
            ],
        )

"""`crowdprism compare` and `crowdprism demo`: which method suits your annotations, and simulated ones of digits."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import crowdprism as cp
from crowdprism.cli import options, screen
from crowdprism.cli.aggregate import gold_accuracy
from crowdprism.cli.screen import print_json, print_lines, print_records, print_table, remark, to_records

if TYPE_CHECKING:
    import numpy as np

    from crowdprism.comparison import Comparison

HEADINGS = {  # short enough for a terminal of 80 columns
    "method": "method",
    "accuracy": "accuracy\non gold",
    "log_likelihood": "held-out\nlog-lik.",
    "held_out_agreement": "held-out\nagreement",
    "agreement_with_others": "like\nothers",
    "stability": "stable",
    "seconds": "seconds",
}
METHODS_SHOWN = ("majority-vote", "dawid-skene", "geocrowdnet", "geocrowdnet-f")


def compare(
    files: options.Files,
    *,
    methods: str | None = typer.Option(
        None,
        "--methods",
        "-m",
        help="Methods separated by commas, or `all`; pass `list` to see them. Default: a selection.",
        **options.listing(lambda: [*options.aggregator_names(), *options.classifier_names()]),
    ),
    seeds: int = typer.Option(3, help="How often to fit each method with annotations held out."),
    held_out: float = typer.Option(0.1, help="Share of the annotations to hold out."),
    features: options.FeatureOptions,
    epochs: int | None = typer.Option(None, help="Passes over the data, for classifiers."),
    page: Path | None = typer.Option(None, "--report", help="HTML page: the table, and the best method's report."),
    reading: options.ReadingOptions,
    device: options.DeviceOptions,
    json: options.AsJson = False,
) -> None:
    """Compare many methods on your annotations, with or without gold, and recommend one.

    Some annotations are held out: a method that models the annotators well predicts them. With gold, accuracy decides.
    Ctrl-C prints the methods measured so far.

    Example: `crowdprism compare labels.csv --report comparison.html`
    """
    names = None if methods is None else methods.replace(",", " ").split()
    annotations, report = reading.read_with_report(files)
    values = None
    if features.given:
        found, annotations = features.load(annotations, files, report)
        annotated = annotations.labels_per_item > 0
        values, annotations = found.features.values[annotated], annotations[annotated]
    device.apply(torch=values is not None)
    if names == ["all"]:
        names = [*options.aggregator_names(), *(options.classifier_names() if values is not None else ())]
    settings: dict[str, Any] = {"device": device.device} | ({} if epochs is None else {"epochs": epochs})
    outcome = cp.compare(annotations, values, methods=names, seeds=seeds, held_out=held_out, settings=settings)
    if json:
        record = {name: getattr(outcome, name) for name in ("recommended", "reason", "interrupted")}
        print_json(record | {"methods": [asdict(row) for row in outcome.rows]})
    else:
        print_comparison(outcome)
    for row in outcome.rows:
        for text in row.warnings:
            remark(f"note: {row.method}: {text}")
    if page is not None:
        write_page(outcome, annotations, page)
    if outcome.interrupted:
        screen.exit_interrupted(f"methods measured so far: {len(outcome.rows)}. Run the same command to start again.")


def print_comparison(outcome: Comparison) -> None:
    if not outcome.rows:
        return
    print_table(
        "Methods, best first",
        [HEADINGS[name] for name in outcome.columns],
        [[getattr(row, name) for name in outcome.columns] for row in outcome.rows],
    )
    print_lines(*failures(outcome), outcome.reason)


def failures(outcome: Comparison) -> list[str]:
    return [f"{row.method} failed: {row.failed}" for row in outcome.rows if row.failed]


def write_page(outcome: Comparison, annotations: cp.Annotations, page: Path) -> None:
    """Write the report of the recommended method, with the table of all methods."""
    if outcome.recommended is None:
        remark("note: no page was written, because no method could be measured.")
        return
    result = outcome.results[outcome.recommended]
    note = " ".join(["Best first.", outcome.reason, *failures(outcome)])
    rows = [{name: cell for name, cell in record.items() if name != "remark"} for record in outcome.to_records()]
    written = result.report(page, annotations, comparison=rows, comparison_note=note, command=screen.command_line())
    remark(f"wrote {written}")


def demo(seed: int = typer.Option(0, help="Seed of annotators and methods."), json: options.AsJson = False) -> None:
    """Compare methods on handwritten digits labelled by forty simulated annotators.

    Each item has three labels. The annotators are experts, sloppy annotators, spammers, one who confuses neighbouring
    digits and one adversary. No method sees a true label. Example: `crowdprism demo`
    """
    X, X_test, y_test, annotations = annotated_digits(seed)
    summary = annotations.summary()
    data = (
        f"{summary.n_items} handwritten digits, {summary.n_annotations} labels by {summary.n_annotators} simulated "
        f"annotators; {summary.label_accuracy:.0%} of the labels are correct. Test set: {len(X_test)} more digits."
    )
    if not json:
        remark(data)
    rows, results = [], []
    for row, result in compare_methods(X, X_test, y_test, annotations, seed):  # training shows a bar of its own
        rows.append(row)
        results.append(result)
        remark(f"{row['method']:<32} test accuracy {row['test accuracy']:.3f} in {row['seconds']} s")
    result = results[-1]
    people = least_accurate(result, annotations)
    if json:
        print_json({"data": data, "methods": rows, "unreliable": people})
        return
    print_records("", rows)
    title = f"Least accurate annotators, by {result.method} (the true accuracy is known because they are simulated)"
    print_records(title, people)


def annotated_digits(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, cp.Annotations]:
    """Training features, test features, test classes, and annotations of the training items."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from crowdprism.simulate import demo_annotations

    images, digits = load_digits(return_X_y=True)
    images = images / images.max()
    X, X_test, y, y_test = train_test_split(images, digits, test_size=0.25, random_state=seed, stratify=digits)
    return X, X_test, y_test, demo_annotations(y, seed=seed)


def compare_methods(
    X: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, annotations: cp.Annotations, seed: int
) -> Iterable[tuple[dict[str, Any], cp.FitResult]]:
    from sklearn.linear_model import LogisticRegression

    from crowdprism.aggregators import AGGREGATORS

    shown = annotations.with_gold(None)
    for name in METHODS_SHOWN:
        start = time.perf_counter()
        if name in AGGREGATORS:
            result = cp.make_aggregator(name).fit(shown).result_
            model = LogisticRegression(max_iter=1000).fit(X, result.labels().tolist())
        else:
            model = cp.make_classifier(name, random_state=seed).fit(X, shown)
            result = model.result_
        row = {
            "method": f"{name}, then a classifier" if name in AGGREGATORS else name,
            "test accuracy": round(float(model.score(X_test, y_test)), 4),
            "label accuracy": round(gold_accuracy(result, annotations) or 0.0, 4),
            "seconds": round(time.perf_counter() - start, 1),
        }
        yield row, result


def least_accurate(result: cp.FitResult, annotations: cp.Annotations) -> list[dict[str, Any]]:
    import numpy as np

    right = annotations.gold[annotations.item] == annotations.label  # type: ignore[index]
    counts = annotations.labels_per_annotator
    truth = np.bincount(annotations.annotator, weights=right, minlength=len(counts)) / np.maximum(counts, 1)
    estimate = result.annotator_accuracy
    assert estimate is not None
    columns = {"annotator": annotations.annotators, "annotations": counts}
    columns |= {"estimated accuracy": estimate.round(3), "true accuracy": truth.round(3)}
    return to_records(columns, np.argsort(estimate, kind="stable")[:12])

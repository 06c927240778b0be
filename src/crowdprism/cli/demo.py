"""`crowdprism demo`: compare methods on handwritten digits labelled by simulated annotators."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

import crowdprism as cp
from crowdprism.cli.aggregate import gold_accuracy
from crowdprism.cli.options import AsJson
from crowdprism.cli.screen import print_json, print_records, remark

if TYPE_CHECKING:
    import numpy as np

TEST_SHARE = 0.25
AGGREGATORS_SHOWN = ("majority-vote", "dawid-skene")
CLASSIFIERS_SHOWN = ("geocrowdnet", "geocrowdnet-f")
N_LEAST_ACCURATE = 12


def demo(seed: int = typer.Option(0, help="Random seed of annotators and methods."), json: AsJson = False) -> None:
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
    X, X_test, y, y_test = train_test_split(images, digits, test_size=TEST_SHARE, random_state=seed, stratify=digits)
    return X, X_test, y_test, demo_annotations(y, seed=seed)


def compare_methods(
    X: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, annotations: cp.Annotations, seed: int
) -> Iterable[tuple[dict[str, Any], cp.FitResult]]:
    """Yield a table row and the result for each method."""
    from sklearn.linear_model import LogisticRegression

    shown = annotations.with_gold(None)
    for name in AGGREGATORS_SHOWN:
        start = time.perf_counter()
        result = cp.make_aggregator(name).fit(shown).result_
        predicted = LogisticRegression(max_iter=1000).fit(X, result.labels().tolist()).predict(X_test)
        title, accuracy = f"{name}, then a classifier", (predicted == y_test).mean()
        yield to_row(title, accuracy, gold_accuracy(result, annotations), start), result
    for name in CLASSIFIERS_SHOWN:
        start = time.perf_counter()
        model = cp.make_classifier(name, random_state=seed).fit(X, shown)
        accuracy = model.score(X_test, y_test)
        yield to_row(name, accuracy, gold_accuracy(model.result_, annotations), start), model.result_


def to_row(name: str, test_accuracy: Any, label_accuracy: Any, start: float) -> dict[str, Any]:
    return {
        "method": name,
        "test accuracy": round(float(test_accuracy), 4),
        "label accuracy": round(float(label_accuracy), 4),
        "seconds": round(time.perf_counter() - start, 1),
    }


def least_accurate(result: cp.FitResult, annotations: cp.Annotations) -> list[dict[str, Any]]:
    """The annotators with the lowest estimated accuracy, with the true accuracy."""
    import numpy as np

    right = annotations.gold[annotations.item] == annotations.label  # type: ignore[index]
    counts = annotations.labels_per_annotator
    truth = np.bincount(annotations.annotator, weights=right, minlength=len(counts)) / np.maximum(counts, 1)
    estimate = result.annotator_accuracy
    assert estimate is not None
    return [
        {
            "annotator": annotations.annotators[place],
            "annotations": int(counts[place]),
            "estimated accuracy": round(float(estimate[place]), 3),
            "true accuracy": round(float(truth[place]), 3),
        }
        for place in np.argsort(estimate, kind="stable")[:N_LEAST_ACCURATE]
    ]

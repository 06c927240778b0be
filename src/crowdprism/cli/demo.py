"""`crowdprism demo`: digits labelled by a simulated crowd; what do methods recover?"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdprism.cli.reading_options import AsJson

if TYPE_CHECKING:
    import numpy as np

    from crowdprism.annotations import Annotations
    from crowdprism.results import FitResult

TEST_SHARE = 0.25
AGGREGATORS_SHOWN = ("majority-vote", "dawid-skene")
CLASSIFIERS_SHOWN = ("geocrowdnet", "geocrowdnet-f")
N_UNRELIABLE = 12


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the crowd and of the methods.")] = 0, json: AsJson = False
) -> None:
    """Let forty simulated annotators label handwritten digits, and see what each method recovers.

    Three labels an item, from experts, sloppy annotators, spammers, one who confuses neighbouring digits and one
    adversary. No method sees a true label. Example: `crowdprism demo`
    """
    from crowdprism.cli.screen import remark, show_json, show_table

    X, X_test, y_test, annotations = digits_by_a_crowd(seed)
    summary = annotations.summary()
    told = (
        f"{summary.n_items} handwritten digits, {summary.n_annotations} labels by {summary.n_annotators} simulated "
        f"annotators; {summary.label_accuracy:.0%} of the labels are right. {len(X_test)} more digits for the test."
    )
    if not json:
        remark(told)
    rows, result = [], None
    for row, fitted in compare(X, X_test, y_test, annotations, seed):
        rows.append(row)
        result = fitted
    assert result is not None
    people = unreliable(result, annotations)
    if json:
        show_json({"data": told, "methods": rows, "unreliable": people})
        return
    show_table("", ("method", "test accuracy", "label accuracy", "seconds"), [tuple(row.values()) for row in rows])
    show_table(
        f"Who is unreliable, by {result.method} (the true accuracy is known only because the crowd is simulated)",
        ("annotator", "annotations", "estimated accuracy", "true accuracy"),
        [tuple(person.values()) for person in people],
    )


def digits_by_a_crowd(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Annotations]:
    """Features to train on, features and true classes to test on, and the crowd's annotations of the former."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from crowdprism.simulate import demo_annotations

    images, digits = load_digits(return_X_y=True)
    images = images / images.max()
    X, X_test, y, y_test = train_test_split(images, digits, test_size=TEST_SHARE, random_state=seed, stratify=digits)
    return X, X_test, y_test, demo_annotations(y, seed=seed)


def compare(
    X: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, annotations: Annotations, seed: int
) -> Iterable[tuple[dict[str, Any], FitResult]]:
    """Yield a table row and the result for each method."""
    from sklearn.linear_model import LogisticRegression

    from crowdprism.aggregators import make_aggregator
    from crowdprism.classifiers import make_classifier
    from crowdprism.cli.aggregate import gold_accuracy

    for name in AGGREGATORS_SHOWN:
        begun = time.perf_counter()
        result = make_aggregator(name).fit(annotations).result_
        predicted = LogisticRegression(max_iter=1000).fit(X, result.labels().tolist()).predict(X_test)
        yield (
            row_of(
                f"{name}, then a classifier", (predicted == y_test).mean(), gold_accuracy(result, annotations), begun
            ),
            result,
        )
    for name in CLASSIFIERS_SHOWN:
        begun = time.perf_counter()
        model = make_classifier(name, random_state=seed).fit(X, annotations)
        yield row_of(name, model.score(X_test, y_test), gold_accuracy(model.result_, annotations), begun), model.result_


def row_of(name: str, test_accuracy: Any, label_accuracy: Any, begun: float) -> dict[str, Any]:
    """One row of the comparison."""
    return {
        "method": name,
        "test accuracy": round(float(test_accuracy), 4),
        "label accuracy": round(float(label_accuracy), 4),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def unreliable(result: FitResult, annotations: Annotations) -> list[dict[str, Any]]:
    """The annotators with the lowest estimated accuracy, with the true one beside."""
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
        for place in np.argsort(estimate, kind="stable")[:N_UNRELIABLE]
    ]

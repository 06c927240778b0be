"""The annotators of the report: accuracy with its interval, agreement, remarks, confusions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.diagnostics.pair_agreement import annotator_agreement
from crowdprism.fit_result import FitResult
from crowdprism.report.names_shown import shown_name
from crowdprism.report.records import AnnotatorRow, AnnotatorTable, Confusion, CrowdConfusion

MOST_ROWS = 2000
MOST_MATRIX_CLASSES = 24  # a larger table is no longer read; the largest mistakes are listed instead
MATRIX_CELLS = 400_000  # about a megabyte of page
N_LARGEST = 12
FEW_LABELS = 10  # below this, an accuracy says little


def chance_level(result: FitResult) -> float:
    """Accuracy of somebody who always names the most frequent class.

    Examples
    --------
    >>> from crowdprism import make_aggregator
    >>> round(chance_level(make_aggregator("majority-vote").fit([[0, 0], [0, 0], [1, 1]]).result_), 3)
    0.667
    """
    prior = result.class_prior if result.class_prior is not None else result.class_probabilities.mean(axis=0)
    return float(np.max(prior))


def accuracy_intervals(result: FitResult) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """(n_annotators,) low and high, where the method has a posterior of the confusions."""
    if result.confusion_posterior is None:
        return None
    interval_of = getattr(result, "annotator_accuracy_interval", None)
    if interval_of is None:
        return None
    low, high = interval_of()
    return low, high


def build_annotators(result: FitResult, annotations: Annotations | None) -> AnnotatorTable:
    """One row per annotator, the busiest first; the least busy are left out where the page would grow too large."""
    n_labels = labels_per_annotator(result, annotations)
    order = np.argsort(-n_labels if n_labels is not None else np.zeros(result.n_annotators), kind="stable")[:MOST_ROWS]
    interval = accuracy_intervals(result)
    agreement = None if annotations is None else annotator_agreement(annotations).raw
    remarks = remarks_on(result, n_labels, interval)
    names = result.annotators
    rows = tuple(
        AnnotatorRow(
            name=shown_name(names[place]),
            n_labels=None if n_labels is None else int(n_labels[place]),
            accuracy=figure(result.annotator_accuracy, place),
            low=figure(None if interval is None else interval[0], place),
            high=figure(None if interval is None else interval[1], place),
            skill=figure(result.skills, place),
            agreement=figure(agreement, place),
            remarks=remarks[place],
        )
        for place in order.tolist()
    )
    matrices, confusions, note = packed_confusions(result, order)
    if len(rows) < result.n_annotators:
        note = f"The {len(rows)} busiest of {result.n_annotators} annotators are shown. {note}"
    return AnnotatorTable(rows, result.n_annotators, matrices, confusions, note.strip())


def labels_per_annotator(result: FitResult, annotations: Annotations | None) -> NDArray[Any] | None:
    """(n_annotators,) from the annotations, else as the method counted them."""
    return result.labels_per_annotator if annotations is None else annotations.labels_per_annotator


def figure(values: Any, place: int) -> float | None:
    """One number of an array that may be absent; NaN is absent too."""
    if values is None or not np.isfinite(values[place]):
        return None
    return float(values[place])


def remarks_on(
    result: FitResult, n_labels: NDArray[Any] | None, interval: tuple[NDArray[Any], NDArray[Any]] | None
) -> list[tuple[str, ...]]:
    """Short remarks per annotator; only what the numbers support."""
    found: list[list[str]] = [[] for _ in range(result.n_annotators)]
    if n_labels is not None:
        for place in np.flatnonzero((n_labels < FEW_LABELS) & (n_labels > 0)).tolist():
            found[place].append("few labels")
        for place in np.flatnonzero(n_labels == 0).tolist():
            found[place].append("no labels")
    if result.annotator_accuracy is not None:
        chance = chance_level(result)
        best_case = interval[1] if interval is not None else result.annotator_accuracy
        surely_low = best_case < chance if interval is not None else best_case <= chance
        for place in np.flatnonzero(surely_low).tolist():
            if n_labels is None or n_labels[place]:
                found[place].append("no better than guessing")
    return [tuple(remarks) for remarks in found]


def packed_confusions(
    result: FitResult, order: NDArray[Any]
) -> tuple[tuple[Sequence[Sequence[int]] | None, ...], tuple[Sequence[Confusion] | None, ...], str]:
    """Whole percents of the confusions of as many annotators as the page can hold, the busiest first."""
    nothing: tuple[None, ...] = (None,) * len(order)
    if result.confusions is None:
        return nothing, nothing, "This method learns no confusion matrices."
    if result.n_classes > MOST_MATRIX_CLASSES:
        largest = tuple(largest_mistakes(result.confusions[place], N_LARGEST) for place in order.tolist())
        return nothing, largest, f"With {result.n_classes} classes, the largest mistakes are listed, not the matrices."
    n_kept = min(MATRIX_CELLS // result.n_classes**2, len(order))
    percents = np.rint(100 * result.confusions[order[:n_kept]]).astype(int)
    note = ""
    if n_kept < len(order):
        note = f"Confusion matrices of the {n_kept} busiest annotators are in this page; the result holds them all."
    return (*percents.tolist(), *nothing[n_kept:]), nothing, note


def largest_mistakes(matrix: NDArray[Any], count: int) -> tuple[Confusion, ...]:
    """The largest entries off the diagonal that come to a whole percent.

    Examples
    --------
    >>> largest_mistakes(np.array([[0.9, 0.1], [0.3, 0.7]]), 5)[0]
    Confusion(true=1, given=0, percent=30)
    """
    off = np.where(np.eye(len(matrix), dtype=bool), 0.0, matrix)
    best = np.argsort(-off, axis=None, kind="stable")[:count]
    cells = zip(*np.unravel_index(best, off.shape), strict=True)
    found = [Confusion(int(true), int(given), int(np.rint(100 * off[true, given]))) for true, given in cells]
    return tuple(confusion for confusion in found if confusion.percent > 0)


def crowd_confusion(result: FitResult, annotations: Annotations | None) -> CrowdConfusion | None:
    """The mean confusion of the crowd, each annotator counting by the labels given."""
    if result.confusions is None or not result.n_annotators:
        return None
    n_labels = labels_per_annotator(result, annotations)
    weight = np.ones(result.n_annotators) if n_labels is None or not n_labels.sum() else n_labels
    mean = np.tensordot(weight / weight.sum(), result.confusions, axes=1)
    shown = np.rint(100 * mean).astype(int).tolist() if result.n_classes <= MOST_MATRIX_CLASSES else None
    return CrowdConfusion(shown, largest_mistakes(mean, N_LARGEST))

"""The annotators of the report: accuracy with its interval, agreement, remarks, confusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.diagnostics.annotator_accounts import AnnotatorReport, annotator_report
from crowdprism.diagnostics.copying import copying
from crowdprism.diagnostics.pair_agreement import annotator_agreement
from crowdprism.report.names_shown import shown_name
from crowdprism.report.report_records import AnnotatorRow, AnnotatorTable, Confusion, CrowdConfusion
from crowdprism.results import FitResult

MOST_ROWS = 2000
MOST_MATRIX_CLASSES = 24  # a larger table is no longer read; the largest mistakes are listed instead
MATRIX_CELLS = 400_000  # about a megabyte of page
N_LARGEST = 12
FEW_LABELS = 10  # below this, an accuracy says little
MOST_EVIDENCE = 50_000_000  # annotations times classes held at once while each is judged without itself: 0.4 GB
MOST_PAIR_CELLS = 500_000_000  # pairs of labels on one item times classes squared, compared to find copying
MOST_PAIR_CLASSES = 40  # beyond, one block of pairs would take gigabytes
CLEAR_Z, MUCH_OVERUSE = 4.0, 0.1
FEW = "few labels"
CARELESS, ADVERSE = "no better than guessing", "answers against the truth"
COPIES = "may copy"
OVERUSES = "overuses"
GENERAL = {COPIES: "may copy another", OVERUSES: "overuses a class"}
KINDS = {"careless": CARELESS, "adverse": ADVERSE}


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


@dataclass(frozen=True)
class Judged:
    """Accuracy of each annotator with its interval, remarks, and notes on what could not be judged.

    All arrays are (n_annotators,); None where the method gives no means to tell.
    """

    accuracy: NDArray[Any] | None
    low: NDArray[Any] | None
    high: NDArray[Any] | None
    remarks: list[tuple[str, ...]]
    by_others: bool
    notes: tuple[str, ...] = ()


def judge(result: FitResult, annotations: Annotations | None) -> Judged:
    """Judge annotators by the others where their labels are given, else by what the method learned of them."""
    if annotations is None or not annotations.n_annotations:
        return judged_by_method(result)
    if annotations.n_annotations * result.n_classes > MOST_EVIDENCE:
        note = f"With {annotations.n_annotations:,} annotations, accuracies are the method's own, not judged by others."
        return replace(judged_by_method(result), notes=(note,))
    report = annotator_report(result, annotations)
    remarks = [
        remarks_on(report, place) if report.n_labels[place] else ("no labels",) for place in range(result.n_annotators)
    ]
    notes = mark_copying(annotations, remarks)
    known = report.n_labels > 0
    accuracy, low, high = (
        np.where(known, values, np.nan) for values in (report.quality, report.quality_low, report.quality_high)
    )
    return Judged(accuracy, low, high, remarks, True, notes)


def judged_by_method(result: FitResult) -> Judged:
    """The accuracy that the method learned, with its interval where the method has a posterior."""
    interval = result.annotator_accuracy_interval()
    low, high = (None, None) if interval is None else (interval[:, 0], interval[:, 1])
    n_labels = result.labels_per_annotator
    few = np.zeros(result.n_annotators, dtype=bool) if n_labels is None else n_labels < FEW_LABELS
    remarks: list[tuple[str, ...]] = [(FEW,) if one else () for one in few]
    return Judged(result.annotator_accuracy, low, high, remarks, False)


def remarks_on(report: AnnotatorReport, place: int) -> tuple[str, ...]:
    """Short remarks on one annotator; only what the numbers support."""
    found = [KINDS[report.kind[place]]] if report.kind[place] in KINDS else []
    if report.n_labels[place] < FEW_LABELS:
        found.append(FEW)
    if report.overuse_z[place] > CLEAR_Z and report.overuse[place] > MUCH_OVERUSE:
        found.append(f"{OVERUSES} {shown_name(report.classes[report.overused[place]])}")
    if report.drift_z[place] < -CLEAR_Z:
        found.append("worse over time")
    if report.speed_z[place] > CLEAR_Z:
        found.append("worse when quick")
    return tuple(found)


def mark_copying(annotations: Annotations, remarks: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Add a remark to annotators who agree with someone beyond what their confusions explain; returns notes."""
    n_pairs = int((annotations.labels_per_item * (annotations.labels_per_item - 1) // 2).sum())
    n_classes = annotations.n_classes
    if n_pairs * n_classes**2 > MOST_PAIR_CELLS or n_classes > MOST_PAIR_CLASSES:
        return (f"Copying was not looked for: {n_pairs:,} pairs of labels of {n_classes} classes are too many.",)
    found = copying(annotations)
    for first, second in zip(found.first.tolist(), found.second.tolist(), strict=True):
        for one, other in ((first, second), (second, first)):
            if not any(remark.startswith(COPIES) for remark in remarks[one]):
                remarks[one] = (*remarks[one], f"{COPIES} {shown_name(annotations.annotators[other])}")
    return ()


def build_annotators(result: FitResult, annotations: Annotations | None, judged: Judged) -> AnnotatorTable:
    """One row per annotator, the busiest first; the least busy are left out where the page would grow too large."""
    n_labels = labels_per_annotator(result, annotations)
    order = np.argsort(-n_labels if n_labels is not None else np.zeros(result.n_annotators), kind="stable")[:MOST_ROWS]
    agreement = None if annotations is None else annotator_agreement(annotations).raw
    names, fitted = result.annotators, result.annotator_accuracy
    rows = tuple(
        AnnotatorRow(
            name=shown_name(names[place]),
            n_labels=None if n_labels is None else int(n_labels[place]),
            accuracy=figure(judged.accuracy, place),
            low=figure(judged.low, place),
            high=figure(judged.high, place),
            fitted=figure(fitted, place),
            skill=figure(result.skills, place),
            agreement=figure(agreement, place),
            remarks=judged.remarks[place],
        )
        for place in order.tolist()
    )
    matrices, confusions, note = packed_confusions(result, order)
    notes = [note, *judged.notes]
    if len(rows) < result.n_annotators:
        notes.insert(0, f"The {len(rows)} busiest of {result.n_annotators} annotators are shown.")
    return AnnotatorTable(
        rows=rows,
        n_annotators=result.n_annotators,
        matrices=matrices,
        confusions=confusions,
        remark_counts=remark_counts(rows),
        by_others=judged.by_others,
        note=" ".join(filter(None, notes)),
    )


def remark_counts(rows: Sequence[AnnotatorRow]) -> tuple[tuple[str, int], ...]:
    """The kinds of remarks, commonest first; those that name somebody are counted as one."""
    remarks = [remark for row in rows for remark in row.remarks]
    kinds = [next((GENERAL[kind] for kind in GENERAL if remark.startswith(kind)), remark) for remark in remarks]
    return tuple(Counter(kinds).most_common())


def labels_per_annotator(result: FitResult, annotations: Annotations | None) -> NDArray[Any] | None:
    """(n_annotators,) from the annotations, else as the method counted them."""
    return result.labels_per_annotator if annotations is None else annotations.labels_per_annotator


def figure(values: Any, place: int) -> float | None:
    """One number of an array that may be absent; NaN is absent too."""
    if values is None or not np.isfinite(values[place]):
        return None
    return float(values[place])


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

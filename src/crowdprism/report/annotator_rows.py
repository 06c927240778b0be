"""The annotators of the report: accuracy with its interval, agreement, remarks, confusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.notebook import display_name
from crowdprism.diagnostics.agreement import AgreementReport
from crowdprism.diagnostics.annotator_accounts import AnnotatorReport, CopyingSuspicion, annotator_report, copying
from crowdprism.report.report_records import AnnotatorRow, AnnotatorTable, Confusion, CrowdConfusion, Story
from crowdprism.results import FitResult
from crowdprism.results.confusion import mean_confusion

MOST_ROWS = 2000
MOST_MATRIX_CLASSES = 24  # nobody reads a larger table; the largest mistakes are listed instead
MATRIX_CELLS = 400_000  # about a megabyte of page
N_LARGEST = 12
FEW_LABELS = 10  # with fewer, an accuracy says little
MOST_EVIDENCE = 50_000_000  # annotations times classes held in memory to judge each without itself: 0.4 GB
MOST_PAIR_CELLS = 500_000_000  # pairs of labels on one item times classes squared, compared to find copying
MOST_PAIR_CLASSES = 40  # beyond, one block of pairs would take gigabytes
NEARLY_EQUAL = 0.9  # of the answers of a pair that may be one voice
CLEAR_Z, MUCH_OVERUSE = 4.0, 0.1
MOST_EXAMPLES = 3
LEAST_FOR_TREND = 20  # labels; halves of fewer differ by chance
FEW = "few labels"
CARELESS, ADVERSE = "no better than guessing", "answers against the truth"
COPIES = "may copy"
OVERUSES = "overuses"
GENERAL = {COPIES: "may copy another", OVERUSES: "overuses a class"}
KINDS = {"careless": CARELESS, "adverse": ADVERSE}


class Judged(NamedTuple):
    """Remarks on each annotator, groups who may be one voice (by position), and notes on what could not be judged."""

    remarks: list[tuple[str, ...]]
    copies: tuple[tuple[int, ...], ...] = ()
    notes: tuple[str, ...] = ()


def judge(result: FitResult, annotations: Annotations | None) -> Judged:
    """Judge annotators by the others if the annotations are given, else by the number of their labels alone."""
    if annotations is None or not annotations.n_annotations:
        return Judged(remarks_by_number(result))
    if annotations.n_annotations * result.n_classes > MOST_EVIDENCE:
        note = f"With {annotations.n_annotations:,} annotations, annotators were not compared with each other."
        return Judged(remarks_by_number(result), notes=(note,))
    report = annotator_report(result, annotations)
    remarks = [remarks_on(report, place) for place in range(result.n_annotators)]
    return mark_copying(annotations, remarks)


def remarks_by_number(result: FitResult) -> list[tuple[str, ...]]:
    n_labels = result.labels_per_annotator
    few = np.zeros(result.n_annotators, dtype=bool) if n_labels is None else n_labels < FEW_LABELS
    return [(FEW,) if one else () for one in few]


def remarks_on(report: AnnotatorReport, place: int) -> tuple[str, ...]:
    if not report.n_labels[place]:
        return ("no labels",)
    found = [KINDS[report.kind[place]]] if report.kind[place] in KINDS else []
    if report.n_labels[place] < FEW_LABELS:
        found.append(FEW)
    if report.overuse_z[place] > CLEAR_Z and report.overuse[place] > MUCH_OVERUSE:
        found.append(f"{OVERUSES} {display_name(report.classes[report.overused[place]])}")
    if report.drift_z[place] < -CLEAR_Z:
        found.append("worse over time")
    if report.speed_z[place] > CLEAR_Z:
        found.append("worse when quick")
    return tuple(found)


def mark_copying(annotations: Annotations, remarks: list[tuple[str, ...]]) -> Judged:
    """Add a remark to annotators who agree with another beyond what their confusions explain; find groups of them."""
    n_pairs = int((annotations.labels_per_item * (annotations.labels_per_item - 1) // 2).sum())
    n_classes = annotations.n_classes
    if n_pairs * n_classes**2 > MOST_PAIR_CELLS or n_classes > MOST_PAIR_CLASSES:
        note = f"Copying was not checked: {n_pairs:,} pairs of labels of {n_classes} classes are too many."
        return Judged(remarks, notes=(note,))
    found = copying(annotations)
    for first, second in zip(found.first.tolist(), found.second.tolist(), strict=True):
        for one, other in ((first, second), (second, first)):
            if not any(remark.startswith(COPIES) for remark in remarks[one]):
                remarks[one] = (*remarks[one], f"{COPIES} {display_name(annotations.annotators[other])}")
    n_people = int((annotations.labels_per_annotator > 0).sum())
    groups = copy_groups(found, annotations.n_annotators)
    return Judged(remarks, tuple(group for group in groups if len(group) < n_people))  # all alike is agreement


def copy_groups(found: CopyingSuspicion, n_annotators: int) -> tuple[tuple[int, ...], ...]:
    """Annotators connected by pairs with nearly equal answers, the largest group first."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    near = found.agreements >= NEARLY_EQUAL * found.common
    pairs = (found.first[near], found.second[near])
    joined = csr_array((np.ones(len(pairs[0])), pairs), shape=(n_annotators, n_annotators))
    _, part = connected_components(joined, directed=False)
    groups = (tuple(np.flatnonzero(part == one).tolist()) for one in np.unique(part[np.concatenate(pairs)]))
    return tuple(sorted(groups, key=len, reverse=True))


def build_annotators(
    result: FitResult, annotations: Annotations | None, judged: Judged, agreement: AgreementReport | None
) -> AnnotatorTable:
    """One row per annotator, those with most labels first; up to `MOST_ROWS`, to keep the page small."""
    n_labels = labels_per_annotator(result, annotations)
    order = np.argsort(-n_labels if n_labels is not None else np.zeros(result.n_annotators), kind="stable")[:MOST_ROWS]
    agreeing = None if agreement is None else agreement.annotators.raw
    interval = result.annotator_accuracy_interval()
    low, high = (None, None) if interval is None else interval.T
    stories = [None] * result.n_annotators if annotations is None else tell_stories(result, annotations)
    rows = tuple(
        AnnotatorRow(
            name=display_name(result.annotators[place]),
            n_labels=None if n_labels is None else int(n_labels[place]),
            accuracy=figure(result.annotator_accuracy, place),
            low=None if n_labels is not None and not n_labels[place] else figure(low, place),
            high=None if n_labels is not None and not n_labels[place] else figure(high, place),
            skill=figure(result.skills, place),
            agreement=figure(agreeing, place),
            remarks=judged.remarks[place],
            story=stories[place],
        )
        for place in order.tolist()
    )
    counted_once = {name for group in result.voices for name in group}
    names = result.annotators.tolist()
    groups = [group for group in judged.copies if not all(names[place] in counted_once for place in group)]
    copied = np.array([place for group in groups for place in group], dtype=np.int64)
    matrices, confusions, note = packed_confusions(result, order)
    notes = [note, *judged.notes]
    if len(rows) < result.n_annotators:
        notes.insert(0, f"The table shows the {len(rows)} of {result.n_annotators} annotators with most labels.")
    return AnnotatorTable(
        rows=rows,
        n_annotators=result.n_annotators,
        matrices=matrices,
        confusions=confusions,
        remark_counts=remark_counts(rows),
        by_account=result.account is not None,
        copies=tuple(tuple(display_name(result.annotators[place]) for place in group) for group in groups),
        copied_share=0.0 if n_labels is None else float(n_labels[copied].sum() / max(n_labels.sum(), 1)),
        note=" ".join(filter(None, notes)),
    )


def remark_counts(rows: Sequence[AnnotatorRow]) -> tuple[tuple[str, int], ...]:
    """The kinds of remarks, most common first; remarks that name someone or something count as one kind."""
    remarks = [remark for row in rows for remark in row.remarks]
    kinds = [next((GENERAL[kind] for kind in GENERAL if remark.startswith(kind)), remark) for remark in remarks]
    return tuple(Counter(kinds).most_common())


def labels_per_annotator(result: FitResult, annotations: Annotations | None) -> NDArray[Any] | None:
    return result.labels_per_annotator if annotations is None else annotations.labels_per_annotator


def figure(values: Any, place: int) -> float | None:
    """One number of an array; None if there is no array or the number is not finite."""
    return None if values is None or not np.isfinite(values[place]) else float(values[place])


def packed_confusions(
    result: FitResult, order: NDArray[Any]
) -> tuple[tuple[Sequence[Sequence[int]] | None, ...], tuple[Sequence[Confusion] | None, ...], str]:
    """Whole percents of the confusions of as many annotators as the page can hold, in this order."""
    nothing: tuple[None, ...] = (None,) * len(order)
    if result.confusions is None:
        return nothing, nothing, "This method learns no confusion matrices."
    if result.n_classes > MOST_MATRIX_CLASSES:
        largest = tuple(largest_mistakes(result.confusions[place], N_LARGEST) for place in order.tolist())
        note = f"With {result.n_classes} classes, the page lists the largest mistakes and not the matrices."
        return nothing, largest, note
    n_kept = min(MATRIX_CELLS // result.n_classes**2, len(order))
    percents = np.rint(100 * result.confusions[order[:n_kept]]).astype(int)
    note = ""
    if n_kept < len(order):
        note = f"The page holds the confusion matrices of the first {n_kept} annotators; the result holds all."
    return (*percents.tolist(), *nothing[n_kept:]), nothing, note


def largest_mistakes(matrix: NDArray[Any], count: int) -> tuple[Confusion, ...]:
    """The largest entries off the diagonal that round to at least one percent."""
    percent = np.rint(100 * matrix).astype(int)
    np.fill_diagonal(percent, 0)
    true, given = np.nonzero(percent)
    order = np.argsort(-matrix[true, given], kind="stable")[:count]
    return tuple(Confusion(*map(int, (true[at], given[at], percent[true[at], given[at]]))) for at in order)


def crowd_confusion(result: FitResult, annotations: Annotations | None) -> CrowdConfusion | None:
    """The mean confusion of all annotators, weighted by the labels they gave."""
    if result.confusions is None or not result.n_annotators:
        return None
    mean = mean_confusion(result.confusions, labels_per_annotator(result, annotations))
    matrix = np.rint(100 * mean).astype(int).tolist() if result.n_classes <= MOST_MATRIX_CLASSES else None
    return CrowdConfusion(matrix, largest_mistakes(mean, N_LARGEST))


def tell_stories(result: FitResult, annotations: Annotations) -> list[Story]:
    best = np.argmax(result.class_probabilities, axis=1)
    agrees = annotations.label == best[annotations.item]
    n = annotations.n_annotators
    agreeing = np.bincount(annotations.annotator, weights=agrees, minlength=n).astype(int)
    seconds, halves = median_seconds(annotations), halves_of(annotations, agrees)
    examples = mistakes(result, annotations, best, agrees)
    return [
        Story(n_agreeing, seconds[place], *halves[place], tuple(examples.get(place, ())))
        for place, n_agreeing in enumerate(agreeing.tolist())
    ]


def median_seconds(annotations: Annotations) -> list[float | None]:
    """(annotator) median seconds per label; None where no time is known."""
    if annotations.duration is None:
        return [None] * annotations.n_annotators
    times = pl.DataFrame({"annotator": annotations.annotator, "seconds": annotations.duration}).drop_nans()
    medians = dict(times.group_by("annotator").median().iter_rows())
    return [medians.get(place) for place in range(annotations.n_annotators)]


def halves_of(annotations: Annotations, agrees: NDArray[np.bool_]) -> list[tuple[float | None, float | None]]:
    """(annotator) share of agreeing labels in the first and the second half by time; None without enough times."""
    found: list[tuple[float | None, float | None]] = [(None, None)] * annotations.n_annotators
    if annotations.timestamp is None or np.isnan(annotations.timestamp).any():
        return found
    in_time = agrees[np.lexsort((annotations.timestamp, annotations.annotator))]
    for place, own in enumerate(np.split(in_time, np.cumsum(annotations.labels_per_annotator)[:-1])):
        if len(own) >= LEAST_FOR_TREND:
            early, late = np.split(own, [len(own) // 2])
            found[place] = (float(early.mean()), float(late.mean()))
    return found


def mistakes(
    result: FitResult, annotations: Annotations, best: NDArray[np.int64], agrees: NDArray[np.bool_]
) -> dict[int, list[tuple[str, int, int]]]:
    """By annotator, the labels that contradict the most certain labels found."""
    wrong = np.flatnonzero(~agrees)
    item, annotator, label = annotations.item[wrong], annotations.annotator[wrong], annotations.label[wrong]
    certainty = result.class_probabilities[item, best[item]]
    order = np.lexsort((-certainty, annotator))
    rank = np.arange(len(order)) - np.searchsorted(annotator[order], annotator[order])
    found: dict[int, list[tuple[str, int, int]]] = {}
    for place in order[rank < MOST_EXAMPLES].tolist():
        example = (display_name(annotations.items[item[place]]), int(label[place]), int(best[item[place]]))
        found.setdefault(int(annotator[place]), []).append(example)
    return found

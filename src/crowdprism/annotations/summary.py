"""What a set of annotations contains, counted; and whether its classes have an order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import counted

if TYPE_CHECKING:
    from crowdprism.annotations.container import Annotations


@dataclass(frozen=True)
class Spread:
    least: int
    median: float
    most: int

    def __str__(self) -> str:
        return f"{self.least} to {self.most}, median {self.median:g}"


@dataclass(frozen=True)
class AnnotationSummary:
    """Counts of what annotations contain; `str()` gives a readable page."""

    n_annotations: int
    n_items: int
    n_annotators: int
    n_classes: int
    labels_per_item: Spread
    labels_per_annotator: Spread
    n_items_without_annotation: int
    n_annotators_without_annotation: int
    n_repeats: int
    class_shares: dict[Any, float]
    n_gold: int
    label_accuracy: float | None

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {share:.1%}" for name, share in list(self.class_shares.items())[:10])
        more = f", ... ({self.n_classes} classes)" if self.n_classes > 10 else ""
        lines = [
            f"{counted(self.n_annotations, 'annotation')} of {counted(self.n_items, 'item')} by "
            f"{counted(self.n_annotators, 'annotator')}",
            f"labels per item: {self.labels_per_item}; {self.n_items_without_annotation} without labels",
            f"labels per annotator: {self.labels_per_annotator}; {self.n_annotators_without_annotation} without labels",
            f"given labels: {shares}{more}",
        ]
        if self.n_repeats:
            lines.append(f"{counted(self.n_repeats, 'annotation')} repeat an annotator on the same item")
        if self.n_gold:
            accuracy = "" if self.label_accuracy is None else f"; {self.label_accuracy:.1%} of their labels are right"
            lines.append(f"gold for {counted(self.n_gold, 'item')}{accuracy}")
        return "\n".join(lines)


def summarize(annotations: Annotations) -> AnnotationSummary:
    a = annotations
    pairs = a.item.astype(np.int64) * max(a.n_annotators, 1) + a.annotator
    shares = np.bincount(a.label, minlength=a.n_classes) / max(a.n_annotations, 1)
    judged = None if a.gold is None else a.gold[a.item]
    return AnnotationSummary(
        n_annotations=a.n_annotations,
        n_items=a.n_items,
        n_annotators=a.n_annotators,
        n_classes=a.n_classes,
        labels_per_item=spread(a.labels_per_item),
        labels_per_annotator=spread(a.labels_per_annotator),
        n_items_without_annotation=int((a.labels_per_item == 0).sum()),
        n_annotators_without_annotation=int((a.labels_per_annotator == 0).sum()),
        n_repeats=int((np.diff(pairs) == 0).sum()),
        class_shares=dict(zip(a.classes.tolist(), shares.tolist(), strict=True)),
        n_gold=0 if a.gold is None else int(a.gold.count()),
        label_accuracy=None if judged is None or not judged.count() else float(np.ma.mean(judged == a.label)),
    )


def spread(counts: np.ndarray) -> Spread:
    if not len(counts):
        return Spread(0, 0.0, 0)
    return Spread(int(counts.min()), float(np.median(counts)), int(counts.max()))


def class_scores(annotations: Annotations) -> NDArray[np.float64] | None:
    """(n_classes,) each class as a number, or its place from 1 in a given order; None for names and for 0/1."""
    names = annotations.classes.tolist()
    if all(isinstance(name, (int, float)) and not isinstance(name, bool) for name in names):
        rising = all(one < other for one, other in pairwise(names))
        if rising and (len(names) > 2 or annotations.classes_ordered):
            return np.array(names, dtype=np.float64)
    return np.arange(1.0, len(names) + 1) if annotations.classes_ordered else None

"""Confusion matrices `confusions[annotator, true_class, given_label]`, rows sum to one; papers often transpose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from crowdprism.annotations import Annotations

FloatArray = NDArray[Any]

# Several tables of this size leave room on an ordinary laptop; a method that would need a larger one refuses or does
# without confusion matrices.
MAX_TABLE_BYTES = 2 * 1024**3


def confusions_fit(n_annotators: int, n_classes: int) -> bool:
    """Whether a table (n_annotators, true class, given label) stays within the limit of all methods."""
    return 8 * n_annotators * n_classes**2 <= MAX_TABLE_BYTES


def confusion_counts(annotations: Annotations, class_probabilities: FloatArray) -> NDArray[np.float64]:
    """(annotator, true class, given label) expected counts, by the items' class probabilities and weights."""
    columns = (column[annotations.item] for column in class_probabilities.T)
    weight = annotations.weight
    return np.ascontiguousarray(cell_counts(annotations, columns if weight is None else (c * weight for c in columns)))


def cell_counts(annotations: Annotations, columns: Iterable[FloatArray]) -> NDArray[np.float64]:
    """Sum a number per annotation, for each true class in turn, by annotator and label: (annotator, class, label)."""
    n_annotators, n_classes = annotations.n_annotators, annotations.n_classes
    cell = annotations.annotator.astype(np.int64) * n_classes + annotations.label
    counts = np.empty((n_classes, n_annotators * n_classes))
    for true_class, column in enumerate(columns):
        counts[true_class] = np.bincount(cell, weights=column, minlength=n_annotators * n_classes)
    return counts.reshape(n_classes, n_annotators, n_classes).transpose(1, 0, 2)


def normalize_rows(counts: FloatArray) -> FloatArray:
    """Divide each row by its sum; rows that sum to zero become uniform."""
    totals = counts.sum(axis=-1, keepdims=True)
    empty = ~(totals > 0)
    shares = counts / np.where(empty, 1.0, totals)
    if empty.any():
        shares[empty[..., 0]] = 1.0 / counts.shape[-1]
    return np.asarray(shares)


def normalize_logs(log: FloatArray) -> NDArray[np.float64]:
    """Probabilities (rows, n_classes) from the logarithms of numbers that they are proportional to."""
    shares = log - log.max(axis=1, keepdims=True)
    np.exp(shares, out=shares)  # in place, because the tables may be large
    shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(shares)


def pooled_confusion(counts: FloatArray) -> FloatArray:
    """The crowd's one common confusion matrix (true class, given label) from counts of all annotators."""
    return normalize_rows(counts.sum(axis=0))


def mean_confusion(confusions: FloatArray, n_labels: Any) -> FloatArray:
    """Mean (true class, given label) of all annotators, weighted by the labels they gave, or evenly if unknown."""
    weight = np.ones(len(confusions)) if n_labels is None or not np.sum(n_labels) else np.asarray(n_labels, dtype=float)
    return np.asarray(np.tensordot(weight / weight.sum(), confusions, axes=1))


def true_confusions(annotations: Annotations) -> FloatArray:
    """Confusions against gold, from the annotations of items whose true class is known."""
    if annotations.gold is None:
        raise ValueError("These annotations have no gold; pass gold= when building them.")
    truth = np.zeros((annotations.n_items, annotations.n_classes))
    known = np.flatnonzero(~np.ma.getmaskarray(annotations.gold))
    truth[known, np.asarray(annotations.gold[known])] = 1.0
    return normalize_rows(confusion_counts(annotations, truth))


def annotator_accuracy(confusions: FloatArray, class_prior: FloatArray) -> FloatArray:
    """Probability that each annotator's label is right, for items drawn from the class prior: (n_annotators,)."""
    return np.asarray(np.einsum("mkk,k->m", confusions, class_prior))


def class_alignment(confusions: FloatArray, reference: FloatArray | None = None) -> NDArray[np.int64]:
    """Order of true classes that fits the reference, or else given labels, best; `confusions[:, order]` is aligned."""
    from scipy.optimize import linear_sum_assignment

    if reference is None:
        gain = confusions.mean(axis=0).T  # (given label as class, current class)
    else:
        gain = -np.square(reference[:, :, None, :] - confusions[:, None, :, :]).sum(axis=(0, 3))
    return np.asarray(linear_sum_assignment(gain, maximize=True)[1])


def confusion_error(estimate: FloatArray, truth: FloatArray, *, align: bool = True) -> dict[str, float]:
    """Mean square per entry, mean squared Frobenius norm over classes, relative l1; classes aligned by default."""
    difference = (estimate[:, class_alignment(estimate, truth)] if align else estimate) - truth
    return {
        "mean_squared": float(np.mean(difference**2)),
        "frobenius": float(np.mean(np.sum(difference**2, axis=(1, 2))) / truth.shape[-1]),
        "relative_l1": float(np.mean(np.abs(difference).sum(axis=(1, 2)) / np.abs(truth).sum(axis=(1, 2)))),
    }

"""What annotators' labels say about items, given confusions: posterior and likelihood, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import positions

SMALLEST = 1e-12  # probabilities below this are taken as this in logs


def crowd_confusion(confusions: NDArray[Any], labels_per_annotator: NDArray[Any]) -> NDArray[np.float64]:
    """The confusion of the average label (true class, given label), which stands for annotators never seen."""
    weights = labels_per_annotator if labels_per_annotator.sum() > 0 else None
    return np.asarray(np.average(confusions, axis=0, weights=weights))


def log_evidence_columns(
    annotations: Annotations,
    class_codes: NDArray[np.int64],
    annotators: NDArray[Any],
    confusions: NDArray[Any],
    crowd: NDArray[Any],
) -> NDArray[np.float64]:
    """(annotation, true class) log probability of each given label; annotators never seen get the crowd's confusion."""
    place = positions(annotators, annotations.annotators.tolist())
    table = np.concatenate([confusions, crowd[None]])
    rows = np.where(place >= 0, place, len(confusions))[annotations.annotator]
    columns = table[rows, :, class_codes[annotations.label]]
    return np.asarray(np.log(np.maximum(columns, SMALLEST)))


def posterior(
    class_probs: NDArray[Any], annotations: Annotations, columns: NDArray[Any], *, temper: float = 1.0
) -> NDArray[np.float64]:
    """Class probabilities given features and annotations: f times the annotators' evidence, normalised.

    The n annotations of an item count as n^temper independent ones (see `joint_cross_entropy`).
    """
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
    total = np.bincount(annotations.item, weights=weight, minlength=annotations.n_items)
    discount = np.maximum(total, 1.0) ** (temper - 1.0)
    log_joint = np.log(np.maximum(class_probs, SMALLEST))
    np.add.at(log_joint, annotations.item, columns * (weight * discount[annotations.item])[:, None])
    return np.asarray(np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True)))


def mean_log_likelihood(class_probs: NDArray[Any], annotations: Annotations, columns: NDArray[Any]) -> float:
    """Mean over annotations of log Σ_k f_k C[k, label], by weight."""
    log_probs = np.log(np.maximum(class_probs, SMALLEST))
    each = logsumexp(log_probs[annotations.item] + columns, axis=1)
    return float(np.average(each, weights=annotations.weight))

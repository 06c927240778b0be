"""What is known of annotators before a fit: confusion matrices to start from, and counts of an earlier fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdprism.aggregators.base import with_gold_classes
from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.majority_vote import vote_totals
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import positions
from crowdprism.errors import InvalidParameterError, some
from crowdprism.results import FitResult
from crowdprism.results.confusion import normalize_rows

ROW_SUM_SLACK = 1e-3


def starting_confusions(given: Any, annotations: Annotations, common: FloatArray) -> FloatArray:
    """Full confusions from a mapping by annotator name (others get the common matrix) or from an array."""
    shape = (annotations.n_annotators, annotations.n_classes, annotations.n_classes)
    if not isinstance(given, Mapping):
        return checked_rows(given, shape, "initial_confusions")
    place = positions(annotations.annotators, list(given))
    unknown = [name for name, at in zip(given, place, strict=True) if at < 0]
    if len(unknown) == len(given):
        raise InvalidParameterError(
            f"None of the names in initial_confusions is an annotator: {some(unknown)}. "
            f"Annotators are {some(annotations.annotators.tolist())}."
        )
    confusions = np.repeat(np.asarray(common, dtype=np.float64)[None], shape[0], axis=0)
    for at, (name, matrix) in zip(place, given.items(), strict=True):
        if at >= 0:
            confusions[at] = checked_rows(matrix, shape[1:], f"initial_confusions[{name!r}]")
    return confusions


def checked_rows(given: Any, shape: tuple[int, ...], what: str) -> FloatArray:
    """Confusion rows as floats, if they have the shape and sum to one."""
    rows = np.asarray(given, dtype=np.float64)
    if rows.shape != shape:
        raise InvalidParameterError(f"{what} has shape {rows.shape}, not {shape} (..., true class, given label).")
    bad = ~np.isfinite(rows).all(axis=-1) | (rows < 0).any(axis=-1) | (np.abs(rows.sum(axis=-1) - 1) > ROW_SUM_SLACK)
    if bad.any():
        first = tuple(int(at[0]) for at in np.nonzero(bad))
        raise InvalidParameterError(
            f"{int(bad.sum())} rows of {what} are not probabilities that sum to one; "
            f"the first is {rows[first].tolist()} at {first}. "
            "Rows are true classes; transpose if yours are given labels."
        )
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def past_counts(past: FitResult, annotations: Annotations) -> dict[int, FloatArray]:
    """Pseudo-counts (true class, given label) of returning annotators, by their code; classes are matched by name."""
    if past.confusion_posterior is None:
        raise InvalidParameterError(
            f"past_result ({past.method}) holds no counts of confusions. Use a result of dawid-skene, ibcc or ebcc."
        )
    annotator = positions(annotations.annotators, past.annotators.tolist())
    label = positions(annotations.classes, past.classes.tolist())
    kept = np.flatnonzero(label >= 0)
    if not len(kept):
        raise InvalidParameterError(
            f"past_result knows none of the classes: it has {some(past.classes.tolist())}, "
            f"the annotations have {some(annotations.classes.tolist())}."
        )
    counts = {}
    for position in np.flatnonzero(annotator >= 0):
        own = np.zeros((annotations.n_classes, annotations.n_classes))
        own[np.ix_(label[kept], label[kept])] = past.confusion_posterior[position][np.ix_(kept, kept)]
        counts[int(annotator[position])] = own
    return counts


def carried_over(previous: FitResult, annotations: Annotations) -> FloatArray:
    """Class probabilities to resume from: those of the earlier fit, and vote shares for items it did not know."""
    known_item = positions(annotations.items, previous.items.tolist())
    known_class = positions(annotations.classes, previous.classes.tolist())
    probabilities = normalize_rows(vote_totals(annotations))
    probabilities[known_item] = 0.0
    probabilities[known_item[:, None], known_class] = previous.class_probabilities
    return with_gold_classes(probabilities, annotations)

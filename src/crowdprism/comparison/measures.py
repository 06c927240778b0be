"""Measures of a result that need no true labels: pure functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.results import FitResult

MIXED_IN = 1e-3  # share of the uniform distribution, so that one label called impossible costs a bounded amount


def held_out_log_likelihoods(result: FitResult, held_out: Annotations) -> NDArray[np.float64] | None:
    """Log probability of each annotation that was held out; None without confusions.

    log Σ_k q_i[k] C_m[k, l] for the label l of annotator m on item i, with the item's class probabilities q as learned
    from its other annotations. An annotator without other labels is treated as the average annotator. `held_out` has
    items, annotators and classes in the order of the result.
    """
    if result.confusions is None:
        return None
    table = with_unseen(result.confusions, result.labels_per_annotator)
    given = table[held_out.annotator, :, held_out.label]  # (annotation, true class)
    probability = np.einsum("ak,ak->a", result.class_probabilities[held_out.item], given)
    return np.asarray(np.log((1 - MIXED_IN) * probability + MIXED_IN / result.n_classes))


def with_unseen(confusions: NDArray[Any], labels_per_annotator: NDArray[Any] | None) -> NDArray[Any]:
    """Give annotators without labels the mean confusions of the others, weighted by their numbers of labels."""
    if labels_per_annotator is None or labels_per_annotator.all() or not labels_per_annotator.any():
        return confusions
    crowd = np.average(confusions, axis=0, weights=labels_per_annotator)
    return np.where((labels_per_annotator > 0)[:, None, None], confusions, crowd)


def found_classes(result: FitResult) -> NDArray[np.int64]:
    """(n_items,) code of the most probable class; ties go to the class that comes first."""
    return np.asarray(np.argmax(result.class_probabilities, axis=1))


def share_of_held_out(found: NDArray[Any], held_out: Annotations) -> float:
    """Share of held-out annotations that equal the class found for their item."""
    return float(np.mean(found[held_out.item] == held_out.label))


def mean_pairwise_agreement(several: Sequence[NDArray[Any]]) -> float | None:
    """Mean share of items on which two of several labellings agree; None for only one labelling."""
    pairs = [float(np.mean(first == second)) for first, second in combinations(several, 2)]
    return float(np.mean(pairs)) if pairs else None


def agreement_with_others(found: dict[str, NDArray[Any]]) -> dict[str, float | None]:
    """For each method, the mean share of items that get the same class from another method."""
    return {
        name: float(np.mean([np.mean(mine == theirs) for other, theirs in found.items() if other != name]))
        if len(found) > 1
        else None
        for name, mine in found.items()
    }


def gold_hits(found: NDArray[Any], annotations: Annotations) -> NDArray[np.bool_] | None:
    """Whether each item with gold and annotations is labelled correctly; None without such items."""
    if annotations.gold is None:
        return None
    judged = ~np.ma.getmaskarray(annotations.gold) & (annotations.labels_per_item > 0)
    if not judged.any():
        return None
    return np.asarray(found[judged] == np.ma.getdata(annotations.gold)[judged])

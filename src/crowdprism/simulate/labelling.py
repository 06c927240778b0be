"""Simulated crowds at work: draw labels from confusion matrices."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.seeding import stream
from crowdprism.simulate.confusions import Confusions
from crowdprism.simulate.observation import Pairs


def simulate_annotations(
    true_classes: Any,
    confusions: Confusions,
    pairs: Pairs,
    *,
    seed: int = 0,
    classes: Sequence[Hashable] | None = None,
    annotators: Sequence[Hashable] | None = None,
) -> Annotations:
    """Draw one label for each observed pair from the annotator's confusion row of the item's true class.

    Parameters
    ----------
    true_classes
        (n_items,) class codes; they become the gold of the result.
    confusions
        (n_annotators, true class, given label).
    pairs
        Item and annotator positions, as from `crowdprism.simulate.observation`.

    Examples
    --------
    >>> from crowdprism.simulate import one_coin, per_item
    >>> crowd = one_coin([1.0, 1.0, 0.5], 2)
    >>> simulate_annotations([0, 1, 0, 1], crowd, per_item(4, 3, labels=2))
    Annotations(8 annotations of 4 items by 3 annotators, 2 classes: 0, 1)
    """
    truth = np.asarray(true_classes)
    n_annotators, n_classes = confusions.shape[:2]
    if truth.min() < 0 or truth.max() >= n_classes:
        raise InvalidParameterError(f"True classes must lie in 0..{n_classes - 1}, not {truth.min()}..{truth.max()}.")
    item, annotator = pairs
    label = draw_rows(np.cumsum(confusions, axis=-1)[annotator, truth[item]], seed)
    names = range(n_classes) if classes is None else classes
    people = range(n_annotators) if annotators is None else annotators
    named = np.array(names, dtype=object)
    return Annotations.from_triplets(
        item,
        np.array(people, dtype=object)[annotator] if annotators is not None else annotator,
        named[label] if classes is not None else label,
        classes=list(names),
        item_names=range(len(truth)),
        annotator_names=list(people),
        gold=dict(enumerate(named[truth].tolist())),
    )


def draw_rows(cumulative: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Draw a column for each row of cumulative probabilities: (n, n_classes) -> (n,)."""
    threshold = stream(seed, "labels").random((len(cumulative), 1)) * cumulative[:, -1:]
    return np.asarray((cumulative <= threshold).sum(axis=1), dtype=np.int64)

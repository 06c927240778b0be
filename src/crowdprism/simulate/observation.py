"""Who labels what: patterns of observed (item, annotator) pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError
from crowdprism.seeding import stream

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


def each_with_probability(n_items: int, n_annotators: int, *, probability: float, seed: int = 0) -> Pairs:
    """Every pair is observed independently, so that a share (1 - probability)^n_annotators of items has no label.

    Examples
    --------
    >>> item, annotator = each_with_probability(1000, 10, probability=0.3)
    >>> 2800 < len(item) < 3200
    True
    """
    if not 0 < probability <= 1:
        raise InvalidParameterError(f"The probability must lie between 0 and 1, not {probability}.")
    random = stream(seed, "each_with_probability")
    drawn = [np.flatnonzero(random.random(n_items) < probability) for _ in range(n_annotators)]
    return np.concatenate(drawn), np.repeat(np.arange(n_annotators), [len(items) for items in drawn])


def per_item(n_items: int, n_annotators: int, *, labels: int, share: Any = None, seed: int = 0) -> Pairs:
    """Each item is labelled by `labels` different annotators.

    Parameters
    ----------
    share
        (n_annotators,) relative activity of each annotator; by default equal.

    Examples
    --------
    >>> item, annotator = per_item(100, 10, labels=3)
    >>> np.bincount(item).tolist() == [3] * 100
    True
    """
    if not 1 <= labels <= n_annotators:
        raise InvalidParameterError(
            f"Labels per item must lie between 1 and the {n_annotators} annotators, not {labels}."
        )
    random = stream(seed, "per_item")
    activity = np.ones(n_annotators) if share is None else np.asarray(share, dtype=float)
    # The smallest of exponential arrival times with these rates is a weighted draw without replacement.
    chosen = [
        np.argpartition(random.exponential(size=(len(block), n_annotators)) / activity, labels - 1, axis=1)[:, :labels]
        for block in np.array_split(np.arange(n_items), max(1, n_items * n_annotators // 10_000_000))
    ]
    annotator = np.concatenate(chosen).reshape(-1)
    return np.repeat(np.arange(n_items), labels), annotator.astype(np.int64)


def one_per_item(n_items: int, n_annotators: int, *, seed: int = 0) -> Pairs:
    """Each item is labelled by exactly one annotator, chosen uniformly."""
    return np.arange(n_items), stream(seed, "one_per_item").integers(n_annotators, size=n_items)


def per_annotator(n_items: int, n_annotators: int, *, labels: int, seed: int = 0) -> Pairs:
    """Each annotator labels `labels` different items, chosen uniformly."""
    if not 1 <= labels <= n_items:
        raise InvalidParameterError(f"Labels per annotator must lie between 1 and the {n_items} items, not {labels}.")
    random = stream(seed, "per_annotator")
    items = [random.choice(n_items, size=labels, replace=False) for _ in range(n_annotators)]
    return np.concatenate(items), np.repeat(np.arange(n_annotators), labels)

"""Simulated crowds at work: draw labels from confusion matrices, and let annotators copy from one another."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import positions
from crowdprism.errors import InvalidParameterError, some
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
    items: Sequence[Hashable] | None = None,
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
    classes, annotators, items
        Names; by default numbers from 0.

    Examples
    --------
    >>> from crowdprism.simulate import one_coin, per_item
    >>> crowd = one_coin([1.0, 1.0, 0.5], 2)
    >>> simulate_annotations([0, 1, 0, 1], crowd, per_item(4, 3, labels=2))
    Annotations(8 annotations of 4 items by 3 annotators, 2 classes: 0, 1)
    """
    n_annotators, n_classes = confusions.shape[:2]
    truth = check_true_classes(true_classes, n_classes)
    item, annotator = pairs
    label = draw_rows(np.cumsum(confusions, axis=-1)[annotator, truth[item]], seed)
    people = range(n_annotators) if annotators is None else annotators
    return annotations_of_labels(
        truth, label, pairs, n_classes=n_classes, classes=classes, annotators=people, items=items
    )


def annotations_of_labels(
    truth: NDArray[Any],
    label: NDArray[Any],
    pairs: Pairs,
    *,
    n_classes: int,
    annotators: Sequence[Hashable],
    classes: Sequence[Hashable] | None = None,
    items: Sequence[Hashable] | None = None,
) -> Annotations:
    """Put drawn label codes of observed pairs into a container, with the truth as gold.

    Parameters
    ----------
    label
        (n_pairs,) class codes.
    annotators, classes, items
        Names in the order of their codes; classes and items are numbers from 0 by default.
    """
    item, annotator = pairs
    names = list(range(n_classes) if classes is None else classes)
    things = list(range(len(truth)) if items is None else items)
    for given, wanted, role in ((names, n_classes, "classes"), (things, len(truth), "items")):
        if len(given) != wanted:
            raise InvalidParameterError(f"{len(given)} names are given for {wanted} {role}.")
    return Annotations.from_triplets(
        _named(things, item),
        _named(list(annotators), annotator),
        _named(names, label),
        classes=names,
        item_names=things,
        annotator_names=list(annotators),
        gold=dict(zip(things, _named(names, truth).tolist(), strict=True)),
    )


def _named(names: list[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """Names of codes; numbers from 0 are their own names, which spares a million Python objects."""
    if names == list(range(len(names))):
        return codes
    listed: NDArray[Any] = np.empty(len(names), dtype=object)
    listed[:] = names
    picked: NDArray[Any] = listed[codes]
    return picked


def check_true_classes(true_classes: Any, n_classes: int) -> NDArray[np.int64]:
    """(n_items,) class codes, all of them within 0..n_classes - 1."""
    truth = np.asarray(true_classes)
    if truth.ndim != 1 or not len(truth):
        raise InvalidParameterError(f"True classes must be a column of at least one entry, not shape {truth.shape}.")
    if truth.dtype.kind not in "iu":
        raise InvalidParameterError(f"True classes must be whole numbers (class codes), not {truth.dtype}.")
    if truth.min() < 0 or truth.max() >= n_classes:
        raise InvalidParameterError(f"True classes must lie in 0..{n_classes - 1}, not {truth.min()}..{truth.max()}.")
    return truth.astype(np.int64)


def draw_rows(cumulative: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Draw a column for each row of cumulative probabilities: (n, n_classes) -> (n,)."""
    threshold = stream(seed, "labels").random((len(cumulative), 1)) * cumulative[:, -1:]
    return np.asarray((cumulative <= threshold).sum(axis=1), dtype=np.int64)


def copy_annotators(annotations: Annotations, copies: Mapping[Hashable, Hashable]) -> Annotations:
    """Let some annotators hand in exactly what others labelled, instead of work of their own.

    Parameters
    ----------
    copies
        Who copies from whom, by name: `{junior: senior}`. Nobody may copy from someone who copies.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 1, -1], [1, 1, 0]])
    >>> copy_annotators(a, {2: 0}).to_dense().tolist()
    [[0, 1, 0], [1, 1, 1]]
    """
    junior = positions(annotations.annotators, list(copies))
    senior = positions(annotations.annotators, list(copies.values()))
    named = [*copies, *copies.values()]
    unknown = [name for name, place in zip(named, [*junior, *senior], strict=True) if place < 0]
    if unknown:
        raise InvalidParameterError(
            f"{len(unknown)} names are not annotators: {some(unknown)}. "
            f"Annotators are {some(annotations.annotators.tolist())}."
        )
    chained = [name for name in copies.values() if name in copies]
    if chained:
        raise InvalidParameterError(f"{some(chained)} would be copied from and copy as well; choose who works.")
    own = annotations.select(~np.isin(annotations.annotator, junior))
    rows = [np.flatnonzero(own.annotator == place) for place in senior]
    every = np.concatenate([np.arange(own.n_annotations), *rows])
    who = np.concatenate([own.annotator, *(np.full(len(r), place) for r, place in zip(rows, junior, strict=True))])
    gold = None
    if own.gold is not None:
        known = ~np.ma.getmaskarray(own.gold)
        codes = np.asarray(own.gold[known])
        gold = dict(zip(own.items[known].tolist(), own.classes[codes].tolist(), strict=True))
    return Annotations.from_triplets(
        own.items[own.item[every]],
        own.annotators[who],
        own.classes[own.label[every]],
        classes=own.classes.tolist(),
        item_names=own.items.tolist(),
        annotator_names=own.annotators.tolist(),
        gold=gold,
    )


def random_copies(annotators: Sequence[Hashable], n_copiers: int, *, seed: int = 0) -> dict[Hashable, Hashable]:
    """Draw who copies from whom: different juniors, each with a senior who does own work.

    Examples
    --------
    >>> copies = random_copies(range(6), 2)
    >>> len(copies), set(copies) & set(copies.values())
    (2, set())
    """
    people = list(annotators)
    if not 0 <= n_copiers < len(people):
        raise InvalidParameterError(f"The number of copiers must lie in 0..{len(people) - 1}, not {n_copiers}.")
    order = stream(seed, "copies").permutation(len(people))
    seniors = stream(seed, "copies seniors").choice(order[n_copiers:], size=n_copiers)
    return {people[junior]: people[senior] for junior, senior in zip(order[:n_copiers], seniors, strict=True)}

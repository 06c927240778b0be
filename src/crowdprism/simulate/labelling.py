"""Labels drawn from confusion matrices, and annotators who copy from others."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import known_positions, name_array
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
    people = range(n_annotators) if annotators is None else annotators
    cumulative = np.cumsum(confusions, axis=-1)[annotator, truth[item]]
    return drawn_annotations(truth, cumulative, pairs, people, classes=classes, items=items, seed=seed)


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
    """Annotations of observed pairs from label codes (n_pairs,), with the truth as gold; names follow the codes."""
    built = Annotations.from_triplets(
        *(*pairs, label),
        classes=range(n_classes),
        item_names=range(len(truth)),
        annotator_names=range(len(annotators)),
        gold=dict(enumerate(truth.tolist())),
    )
    names: dict[str, Any] = {"annotators": annotators, "classes": classes, "items": items}
    given: dict[str, Any] = {role: name_array(own) for role, own in names.items() if own is not None}
    for role, own in given.items():
        wanted = len(getattr(built, role))
        if len(own) != wanted or len(set(own.tolist())) != wanted:
            raise InvalidParameterError(f"There must be {wanted} different names of {role}, not {some(own.tolist())}.")
    return replace(built, **given)


def check_true_classes(true_classes: Any, n_classes: int) -> NDArray[np.int64]:
    """Return true classes as (n_items,) class codes; raise if they are not whole numbers in 0..n_classes - 1."""
    truth = np.asarray(true_classes)
    if truth.ndim != 1 or not len(truth):
        raise InvalidParameterError(f"True classes must be a column of at least one entry, not shape {truth.shape}.")
    if truth.dtype.kind not in "iu":
        raise InvalidParameterError(f"True classes must be whole numbers (class codes), not {truth.dtype}.")
    if truth.min() < 0 or truth.max() >= n_classes:
        raise InvalidParameterError(f"True classes must lie in 0..{n_classes - 1}, not {truth.min()}..{truth.max()}.")
    return truth.astype(np.int64)


def drawn_annotations(
    truth: NDArray[Any], cumulative: NDArray[Any], pairs: Pairs, people: Sequence[Hashable], *, seed: int, **names: Any
) -> Annotations:
    """Draw a label for each pair from cumulative probabilities (n_pairs, n_classes)."""
    threshold = stream(seed, "labels").random((len(cumulative), 1)) * cumulative[:, -1:]
    label = np.asarray((cumulative <= threshold).sum(axis=1), dtype=np.int64)
    return annotations_of_labels(truth, label, pairs, n_classes=cumulative.shape[1], annotators=people, **names)


def copy_annotators(annotations: Annotations, copies: Mapping[Hashable, Hashable]) -> Annotations:
    """Replace the labels of some annotators by exact copies of the labels of others.

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
    places = known_positions(annotations.annotators, [*copies, *copies.values()], "annotators")
    chained = [name for name in copies.values() if name in copies]
    if chained:
        raise InvalidParameterError(f"{some(chained)} cannot both copy and be copied. Choose one role for each.")
    juniors, seniors = places[: len(copies)], places[len(copies) :]
    own = annotations.select(~np.isin(annotations.annotator, juniors))
    copied = [
        replace(work, annotator=np.full_like(work.annotator, junior))
        for junior, senior in zip(juniors, seniors, strict=True)
        for work in [own.select(own.annotator == senior)]
    ]
    return own.concat(*copied)


def random_copies(annotators: Sequence[Hashable], n_copiers: int, *, seed: int = 0) -> dict[Hashable, Hashable]:
    """Draw who copies from whom: distinct juniors, each with a senior who does not copy.

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

"""Who labels what, labels drawn from confusion matrices or by item, and annotators who copy from others."""

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
from crowdprism.simulate.confusions import Confusions, require_share

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]  # item and annotator of each observed pair
FLIP_SPREAD = 0.1  # standard deviation of flip rates over items, as in Xia et al. (2020)


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
        Item and annotator positions, as from `per_item`.
    classes, annotators, items
        Names; by default numbers from 0.

    Examples
    --------
    >>> from crowdprism.simulate import one_coin
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


def simulate_by_difficulty(
    true_classes: Any,
    pairs: Pairs,
    *,
    ability: Any,
    difficulty: Any,
    n_classes: int,
    seed: int = 0,
    classes: Sequence[Hashable] | None = None,
) -> Annotations:
    """Labels that are right with probability 1 / (1 + exp(-ability / difficulty)), else uniform over the others.

    The model of GLAD (Whitehill et al. 2009).

    Parameters
    ----------
    ability
        (n_annotators,) any number: large is an expert, 0 is correct half the time, negative is an adversary.
    difficulty
        (n_items,) positive numbers; on very hard items everyone is correct half the time.

    Examples
    --------
    >>> a = simulate_by_difficulty([0, 1, 1], one_per_item(3, 1), ability=[50], difficulty=[1, 1, 1], n_classes=2)
    >>> a.label.tolist()
    [0, 1, 1]
    """
    from scipy.special import expit

    truth = check_true_classes(true_classes, n_classes)
    skill, hardness = np.asarray(ability, dtype=float), np.asarray(difficulty, dtype=float)
    if hardness.shape != truth.shape or not (hardness > 0).all():
        raise InvalidParameterError(
            f"difficulty must be {len(truth)} positive numbers, one per item; its shape is {hardness.shape} and its "
            f"smallest is {hardness.min() if hardness.size else None}."
        )
    item, annotator = pairs
    right = expit(skill[annotator] / hardness[item])
    rows = np.repeat(((1 - right) / (n_classes - 1))[:, None], n_classes, axis=1)
    rows[np.arange(len(item)), truth[item]] = right
    return drawn_annotations(truth, np.cumsum(rows, axis=1), pairs, range(len(skill)), classes=classes, seed=seed)


def simulate_instance_dependent(
    features: Any,
    true_classes: Any,
    pairs: Pairs,
    *,
    flip_rates: Any,
    n_classes: int,
    seed: int = 0,
    classes: Sequence[Hashable] | None = None,
) -> Annotations:
    """Labels with an error rate that varies over items, and errors that depend on the features.

    Each annotator has a random linear map from features to scores for each true class; wrong labels follow the softmax
    of the scores (part-dependent label noise of Xia et al. 2020, Algorithm 2, one draw of the maps per annotator).

    Parameters
    ----------
    features
        (n_items, n_features) or images; they are standardised.
    flip_rates
        (n_annotators,) mean probability of a wrong label; over items it follows a normal distribution with standard
        deviation 0.1, truncated to 0..1.

    Examples
    --------
    >>> simulate_instance_dependent(np.eye(3), [0, 1, 2], one_per_item(3, 1), flip_rates=[0.0], n_classes=3).n_items
    3
    """
    truth = check_true_classes(true_classes, n_classes)
    values = np.asarray(features, dtype=float).reshape(len(truth), -1)
    values = (values - values.mean(axis=0)) / np.where(values.std(axis=0) > 0, values.std(axis=0), 1)
    rates = np.asarray(flip_rates, dtype=float)
    item, annotator = pairs
    rows = np.empty((len(item), n_classes))
    for place, rate in enumerate(rates.tolist()):
        require_share(rate, "flip rate")
        own = np.flatnonzero(annotator == place)
        rows[own] = instance_rows(values[item[own]], truth[item[own]], rate, n_classes, seed=seed, index=place)
    return drawn_annotations(truth, np.cumsum(rows, axis=1), pairs, range(len(rates)), classes=classes, seed=seed)


def instance_rows(
    values: NDArray[Any], truth: NDArray[np.int64], rate: float, n_classes: int, *, seed: int, index: int
) -> NDArray[np.float64]:
    """(n, n_classes) label probabilities of one annotator: 1 - flip rate on the truth, the rest by the scores."""
    from scipy.special import softmax
    from scipy.stats import truncnorm

    rows = np.arange(len(truth))
    flips = np.full(len(truth), rate)
    if rate not in (0.0, 1.0):  # these are exact; others scatter over the items, truncated to 0..1
        drawn = stream(seed, "instance flips", index).random(len(truth))
        ends = (0 - rate) / FLIP_SPREAD, (1 - rate) / FLIP_SPREAD
        flips = truncnorm.ppf(drawn, *ends, loc=rate, scale=FLIP_SPREAD)
    views = stream(seed, "instance views", index).normal(size=(n_classes, values.shape[1], n_classes))
    scores = np.empty((len(truth), n_classes))
    for true_class in np.unique(truth):
        here = truth == true_class
        scores[here] = values[here] @ views[true_class] / np.sqrt(values.shape[1])
    scores[rows, truth] = -np.inf
    probabilities = softmax(scores, axis=1) * flips[:, None]
    probabilities[rows, truth] = 1 - flips
    return np.asarray(probabilities)

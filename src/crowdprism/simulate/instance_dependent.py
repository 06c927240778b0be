"""Annotators whose mistakes depend on the item: on its difficulty or its features."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.seeding import stream
from crowdprism.simulate.confusions import require_share
from crowdprism.simulate.labelling import check_true_classes, drawn_annotations
from crowdprism.simulate.observation import Pairs

FLIP_SPREAD = 0.1  # standard deviation of flip rates over items, as in Xia et al. (2020)


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
    >>> from crowdprism.simulate import one_per_item
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
    >>> from crowdprism.simulate import one_per_item
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

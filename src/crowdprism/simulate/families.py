"""Families of annotators and observation patterns by name, for the command line and for experiments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from crowdprism.errors import InvalidParameterError
from crowdprism.simulate import confusions as kinds
from crowdprism.simulate import observation
from crowdprism.simulate.confusions import Confusions
from crowdprism.simulate.observation import Pairs


@dataclass(frozen=True)
class Family:
    """A family of annotators with at most one number to choose."""

    build: Callable[[int, int, float, int], Confusions]  # annotators, classes, level, seed
    level_means: str
    default: float | None


@dataclass(frozen=True)
class Pattern:
    """A pattern of who labels what with at most one number to choose."""

    build: Callable[[int, int, float, int], Pairs]  # items, annotators, amount, seed
    amount_means: str
    default: float | None


FAMILIES: dict[str, Family] = {
    "one-coin": Family(lambda m, k, level, seed: kinds.one_coin([level] * m, k), "accuracy", 0.7),
    "hammer-spammer": Family(
        lambda m, k, level, seed: kinds.hammer_spammer(m, k, hammer_share=level, seed=seed), "share of experts", 0.3
    ),
    "class-wise": Family(
        lambda m, k, level, seed: kinds.class_wise_hammer_spammer(m, k, hammer_share=level, seed=seed),
        "share of classes that each knows",
        0.5,
    ),
    "pair-flip": Family(
        lambda m, k, level, seed: kinds.pair_flip(m, k, flip=level), "probability of the neighbouring class", 0.3
    ),
    "random-pair-flip": Family(
        lambda m, k, level, seed: np.concatenate(
            [kinds.pair_flip(1, k, flip=level, partner=kinds.random_partners(k, seed=seed * m + i)) for i in range(m)]
        ),
        "probability of each annotator's own partner class",
        0.3,
    ),
    "symmetric": Family(
        lambda m, k, level, seed: kinds.symmetric_flip(m, k, flip=level), "probability of any other class", 0.3
    ),
    "dominant": Family(
        lambda m, k, level, seed: kinds.diagonally_dominant(m, k, noise=level, seed=seed),
        "noise beside the identity",
        0.3,
    ),
    "one-perfect-among-dominant": Family(
        lambda m, k, level, seed: kinds.one_perfect_among_dominant(m, k, noise=level, seed=seed),
        "noise of the others",
        0.3,
    ),
    "one-good-among-spammers": Family(
        lambda m, k, level, seed: kinds.one_good_among_spammers(m, k, noise=level, seed=seed),
        "noise of the good one",
        0.01,
    ),
    "one-good-among-random": Family(
        lambda m, k, level, seed: kinds.one_good_among_random(m, k, noise=level, seed=seed),
        "noise of the good one",
        0.01,
    ),
    "random": Family(lambda m, k, level, seed: kinds.random_confusions(m, k, seed=seed), "", None),
    "spammers": Family(lambda m, k, level, seed: kinds.spammers(m, k), "", None),
    "adversaries": Family(lambda m, k, level, seed: kinds.adversaries(m, k), "", None),
}

PATTERNS: dict[str, Pattern] = {
    "per-item": Pattern(
        lambda n, m, amount, seed: observation.per_item(n, m, labels=_whole(amount), seed=seed), "labels per item", 3
    ),
    "one-per-item": Pattern(lambda n, m, amount, seed: observation.one_per_item(n, m, seed=seed), "", None),
    "each": Pattern(
        lambda n, m, amount, seed: observation.each_with_probability(n, m, probability=amount, seed=seed),
        "probability of each pair",
        0.1,
    ),
    "per-annotator": Pattern(
        lambda n, m, amount, seed: observation.per_annotator(n, m, labels=_whole(amount), seed=seed),
        "labels per annotator",
        50,
    ),
}


def _whole(amount: float) -> int:
    if amount != int(amount):
        raise InvalidParameterError(f"The number of labels must be whole, not {amount}.")
    return int(amount)


def build_family(
    name: str, n_annotators: int, n_classes: int, *, level: float | None = None, seed: int = 0
) -> Confusions:
    """Confusions of a family by its name.

    Examples
    --------
    >>> build_family("pair-flip", 2, 3, level=0.4).shape
    (2, 3, 3)
    """
    family = _known(FAMILIES, name, "family")
    chosen = _chosen(level, family.default, f"family {name!r}", "level")
    return family.build(n_annotators, n_classes, chosen, seed)


def build_pattern(name: str, n_items: int, n_annotators: int, *, amount: float | None = None, seed: int = 0) -> Pairs:
    """Observed pairs of a pattern by its name.

    Examples
    --------
    >>> item, annotator = build_pattern("per-item", 10, 5, amount=2)
    >>> len(item)
    20
    """
    pattern = _known(PATTERNS, name, "pattern")
    chosen = _chosen(amount, pattern.default, f"pattern {name!r}", "amount")
    return pattern.build(n_items, n_annotators, chosen, seed)


Entry = TypeVar("Entry", Family, Pattern)


def _known(table: dict[str, Entry], name: str, role: str) -> Entry:
    if name not in table:
        raise InvalidParameterError(f"There is no {role} {name!r}; there are {', '.join(table)}.")
    return table[name]


def _chosen(given: float | None, default: float | None, what: str, option: str) -> float:
    if default is None:
        if given is not None:
            raise InvalidParameterError(f"The {what} takes no {option}; leave {option} out.")
        return 0.0
    return default if given is None else given

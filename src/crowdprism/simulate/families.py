"""Families of annotators and observation patterns by name, and the crowd of the demo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.seeding import stream
from crowdprism.simulate import confusions as kinds
from crowdprism.simulate import labelling
from crowdprism.simulate.confusions import Confusions, adversaries, one_coin, one_label_spammers, pair_flip, spammers
from crowdprism.simulate.labelling import Pairs, per_item, simulate_annotations

N_EXPERTS, N_SLOPPY, N_SPAMMERS, N_ONE_LABEL = 8, 22, 6, 2  # with a pair-flipper and an adversary: 40
LABELS_PER_ITEM = 3


@dataclass(frozen=True)
class Choice:
    """A family or pattern: a function of two sizes, and the name, meaning and default of its one parameter, if any."""

    build: Callable[..., Any]
    parameter: str = ""
    meaning: str = ""
    default: float | None = None
    seeded: bool = True


def _equal_coins(n_annotators: int, n_classes: int, *, accuracy: float) -> Confusions:
    return one_coin([accuracy] * n_annotators, n_classes)


def _own_pair_flips(n_annotators: int, n_classes: int, *, flip: float, seed: int) -> Confusions:
    partners = [kinds.random_partners(n_classes, seed=seed * n_annotators + place) for place in range(n_annotators)]
    return np.concatenate([pair_flip(1, n_classes, flip=flip, partner=partner) for partner in partners])


FAMILIES: Mapping[str, Choice] = {
    "one-coin": Choice(_equal_coins, "accuracy", "accuracy", 0.7, seeded=False),
    "hammer-spammer": Choice(kinds.hammer_spammer, "hammer_share", "share of experts", 0.3),
    "class-wise": Choice(kinds.class_wise_hammer_spammer, "hammer_share", "share of classes that each knows", 0.5),
    "pair-flip": Choice(pair_flip, "flip", "probability of the neighbouring class", 0.3, seeded=False),
    "random-pair-flip": Choice(_own_pair_flips, "flip", "probability of each annotator's own partner class", 0.3),
    "symmetric": Choice(kinds.symmetric_flip, "flip", "probability of any other class", 0.3, seeded=False),
    "dominant": Choice(kinds.diagonally_dominant, "noise", "noise added to the identity", 0.3),
    "one-perfect-among-dominant": Choice(kinds.one_perfect_among_dominant, "noise", "noise of the others", 0.3),
    "one-good-among-spammers": Choice(kinds.one_good_among_spammers, "noise", "noise of the good one", 0.01),
    "one-good-among-random": Choice(kinds.one_good_among_random, "noise", "noise of the good one", 0.01),
    "random": Choice(kinds.random_confusions),
    "spammers": Choice(spammers, seeded=False),
    "adversaries": Choice(adversaries, seeded=False),
}

PATTERNS: Mapping[str, Choice] = {
    "per-item": Choice(per_item, "labels", "labels per item", 3),
    "one-per-item": Choice(labelling.one_per_item),
    "each": Choice(labelling.each_with_probability, "probability", "probability of each pair", 0.1),
    "per-annotator": Choice(labelling.per_annotator, "labels", "labels per annotator", 50),
}


def build_family(
    name: str, n_annotators: int, n_classes: int, *, level: float | None = None, seed: int = 0
) -> Confusions:
    """Confusions of a family by its name.

    Examples
    --------
    >>> build_family("pair-flip", 2, 3, level=0.4).shape
    (2, 3, 3)
    """
    found: Confusions = _make(FAMILIES, "family", name, (n_annotators, n_classes), level, seed)
    return found


def build_pattern(name: str, n_items: int, n_annotators: int, *, amount: float | None = None, seed: int = 0) -> Pairs:
    """Observed pairs of a pattern by its name.

    Examples
    --------
    >>> item, annotator = build_pattern("per-item", 10, 5, amount=2)
    >>> len(item)
    20
    """
    pairs: Pairs = _make(PATTERNS, "pattern", name, (n_items, n_annotators), amount, seed)
    return pairs


def _make(
    table: Mapping[str, Choice], role: str, name: str, sizes: tuple[int, int], value: float | None, seed: int
) -> Any:
    """Call a choice by its name; a value for a choice without parameter is an error, and None is the default."""
    if name not in table:
        raise InvalidParameterError(f"There is no {role} {name!r}; there are {', '.join(table)}.")
    chosen = table[name]
    if value is not None and not chosen.parameter:
        raise InvalidParameterError(f"The {role} {name!r} takes no parameter, but {value} was given.")
    if value is not None and chosen.parameter == "labels":
        if value != int(value):
            raise InvalidParameterError(f"The number of labels must be whole, not {value}.")
        value = int(value)
    options: dict[str, Any] = {"seed": seed} if chosen.seeded else {}
    if chosen.parameter:
        options[chosen.parameter] = chosen.default if value is None else value
    return chosen.build(*sizes, **options)


@dataclass(frozen=True)
class DemoCrowd:
    """Confusions of the crowd, and the annotators' names, which begin with their kind."""

    confusions: Confusions
    names: list[str]

    @property
    def kinds(self) -> list[str]:
        """Expert, sloppy, spammer, flipper or adversary, per annotator."""
        return [name.rsplit("-", 1)[0] for name in self.names]


def demo_crowd(n_classes: int = 10, seed: int = 0) -> DemoCrowd:
    """Forty annotators: experts, sloppy ones, spammers, one who confuses pairs of classes, one adversary.

    Examples
    --------
    >>> crowd = demo_crowd()
    >>> len(crowd.names), sorted(set(crowd.kinds))
    (40, ['adversary', 'expert', 'flipper', 'sloppy', 'spammer'])
    """
    random = stream(seed, "demo_crowd")
    groups = [
        ("expert", one_coin(random.uniform(0.9, 0.98, N_EXPERTS), n_classes)),
        ("sloppy", one_coin(random.uniform(0.5, 0.8, N_SLOPPY), n_classes)),
        ("spammer", spammers(N_SPAMMERS, n_classes)),
        ("spammer", one_label_spammers(random.integers(n_classes, size=N_ONE_LABEL), n_classes)),
        ("flipper", pair_flip(1, n_classes, flip=0.6)),
        ("adversary", adversaries(1, n_classes)),
    ]
    listed = [kind for kind, group in groups for _ in group]
    names = [f"{kind}-{place - listed.index(kind) + 1:02d}" for place, kind in enumerate(listed)]
    return DemoCrowd(np.concatenate([group for _, group in groups]), names)


def demo_annotations(true_classes: np.ndarray, *, n_classes: int = 10, seed: int = 0) -> Annotations:
    """Labels of the demo crowd, three annotators per item; the true classes are the gold.

    Examples
    --------
    >>> demo_annotations(np.arange(100) % 10)
    Annotations(300 annotations of 100 items by 40 annotators, 10 classes: 0, 1, 2, ... (10 in all))
    """
    crowd = demo_crowd(n_classes, seed)
    pairs = per_item(len(true_classes), len(crowd.names), labels=LABELS_PER_ITEM, seed=seed)
    return simulate_annotations(true_classes, crowd.confusions, pairs, seed=seed, annotators=crowd.names)

"""The crowd of the demo: forty annotators of known kinds, for seeing whether a method tells them apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdprism.annotations import Annotations
from crowdprism.seeding import stream
from crowdprism.simulate.confusions import Confusions, adversaries, one_coin, one_label_spammers, pair_flip, spammers
from crowdprism.simulate.labelling import simulate_annotations
from crowdprism.simulate.observation import per_item

N_EXPERTS, N_SLOPPY, N_SPAMMERS, N_ONE_LABEL = 8, 22, 6, 2  # with a pair-flipper and an adversary: 40
LABELS_PER_ITEM = 3


@dataclass(frozen=True)
class DemoCrowd:
    """Confusions of the crowd, and each annotator's name, which begins with the kind."""

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
    groups = {
        "expert": one_coin(random.uniform(0.9, 0.98, N_EXPERTS), n_classes),
        "sloppy": one_coin(random.uniform(0.5, 0.8, N_SLOPPY), n_classes),
        "spammer": np.concatenate(
            [
                spammers(N_SPAMMERS, n_classes),
                one_label_spammers(random.integers(n_classes, size=N_ONE_LABEL), n_classes),
            ]
        ),
        "flipper": pair_flip(1, n_classes, flip=0.6),
        "adversary": adversaries(1, n_classes),
    }
    names = [f"{kind}-{place + 1:02d}" for kind, group in groups.items() for place in range(len(group))]
    return DemoCrowd(np.concatenate(list(groups.values())), names)


def demo_annotations(true_classes: np.ndarray, *, n_classes: int = 10, seed: int = 0) -> Annotations:
    """Let the demo crowd label items, three annotators an item; the truth is kept as gold.

    Examples
    --------
    >>> demo_annotations(np.arange(100) % 10)
    Annotations(300 annotations of 100 items by 40 annotators, 10 classes: 0, 1, 2, ... (10 in all))
    """
    crowd = demo_crowd(n_classes, seed)
    pairs = per_item(len(true_classes), len(crowd.names), labels=LABELS_PER_ITEM, seed=seed)
    return simulate_annotations(true_classes, crowd.confusions, pairs, seed=seed, annotators=crowd.names)

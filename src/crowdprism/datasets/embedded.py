"""Data sets that need no file: scikit-learn's digits and Gaussian clouds, both labelled by simulated crowds."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.datasets.catalogue import DatasetEntry
from crowdprism.datasets.folder import DatasetReaders, complete_gold, consecutive_splits
from crowdprism.seeding import stream
from crowdprism.simulate import demo_crowd, one_coin, pair_flip, per_item, simulate_annotations, spammers
from crowdprism.simulate.confusions import Confusions
from crowdprism.simulate.families import LABELS_PER_ITEM

SEED = 0  # an embedded set is the same for everyone
CENTRE_DISTANCE = 2.2  # clouds overlap: the best possible classifier has an accuracy of 86 %
N_DIMENSIONS = 8


def embedded_readers(entry: DatasetEntry) -> DatasetReaders:
    return _digits(entry) if entry.name == "digits" else _simulated(entry)


def _digits(entry: DatasetEntry) -> DatasetReaders:
    """Training digits first, with the split and the crowd of `crowdprism demo` with seed 0."""

    @cache
    def ordered() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        pixels, digits = load_digits(return_X_y=True)
        everything, n_test = np.arange(len(digits)), entry.splits["test"]
        order = np.concatenate(train_test_split(everything, test_size=n_test, random_state=SEED, stratify=digits))
        return pixels[order], digits[order].astype(np.int64)

    def annotations() -> Annotations:
        crowd = demo_crowd(entry.n_classes, SEED)
        pairs = per_item(entry.splits["train"], len(crowd.names), labels=LABELS_PER_ITEM, seed=SEED)
        return simulate_annotations(ordered()[1], crowd.confusions, pairs, seed=SEED, annotators=crowd.names)

    return DatasetReaders(
        gold=lambda: complete_gold(ordered()[1]),
        splits=lambda: consecutive_splits(entry.splits),
        annotations=annotations,
        features={"pixels": lambda: (ordered()[0] / ordered()[0].max()).astype(np.float32)},
        images=lambda: np.round(ordered()[0] * (255 / ordered()[0].max())).astype(np.uint8).reshape(-1, 8, 8),
    )


def _simulated(entry: DatasetEntry) -> DatasetReaders:
    def truth() -> NDArray[np.int64]:
        return stream(SEED, "simulated truth").permutation(np.arange(entry.n_items) % entry.n_classes)

    def coordinates() -> NDArray[np.float32]:
        random = stream(SEED, "simulated coordinates")
        centres = CENTRE_DISTANCE * np.eye(entry.n_classes, N_DIMENSIONS)
        return (centres[truth()] + random.normal(size=(entry.n_items, N_DIMENSIONS))).astype(np.float32)

    def annotations() -> Annotations:
        pairs = per_item(entry.splits["train"], entry.n_annotators, labels=2, seed=SEED)
        return simulate_annotations(truth(), simulated_crowd(), pairs, seed=SEED, classes=entry.classes)

    return DatasetReaders(
        gold=lambda: complete_gold(truth()),
        splits=lambda: consecutive_splits(entry.splits),
        annotations=annotations,
        features={"coordinates": coordinates},
        extras={"confusions": simulated_crowd},
    )


def simulated_crowd() -> Confusions:
    """Two experts, six annotators of medium skill, two who flip classes and two spammers, for four classes."""
    one_coins = one_coin([0.95, 0.9, *np.linspace(0.5, 0.75, 6)], 4)
    return np.concatenate([one_coins, pair_flip(2, 4, flip=0.4), spammers(2, 4)])

"""Simulated problems with known truth, for the tests of classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.classifiers import GeoCrowdNet

PLAIN = {"input_noise": 0.0, "temperature": 1.0}  # nothing is held out


@dataclass(frozen=True)
class Problem:
    X: NDArray[np.float32]
    truth: NDArray[np.int64]
    annotations: Annotations
    confusions: NDArray[np.float64]
    X_test: NDArray[np.float32]
    truth_test: NDArray[np.int64]


def blobs(random: np.random.Generator, truth: NDArray[np.int64], centres: NDArray[np.float64]) -> NDArray[np.float32]:
    return (centres[truth] + random.normal(size=(len(truth), centres.shape[1]))).astype(np.float32)


def annotate(
    random: np.random.Generator, truth: NDArray[np.int64], confusions: NDArray[np.float64], asked: NDArray[np.bool_]
) -> Annotations:
    n_annotators, n_classes, _ = confusions.shape
    item, annotator = np.nonzero(asked)
    rows = confusions[annotator, truth[item]]
    label = (random.random((len(item), 1)) > np.cumsum(rows, axis=1)).sum(axis=1).clip(0, n_classes - 1)
    return Annotations.from_triplets(
        item,
        annotator,
        label,
        classes=range(n_classes),
        item_names=range(len(truth)),
        annotator_names=range(n_annotators),
    )


def specialists(seed: int = 0, n_items: int = 3000) -> Problem:
    """Three Gaussian classes, five annotators of whom two know one class each, about two labels per item."""
    random = np.random.default_rng(seed)
    centres = 4.0 * np.eye(3, 5)
    truth, truth_test = random.integers(3, size=n_items), random.integers(3, size=1000)
    confusions = np.array(
        [
            [[0.95, 0.03, 0.02], [0.3, 0.4, 0.3], [0.35, 0.3, 0.35]],
            [[0.4, 0.3, 0.3], [0.02, 0.96, 0.02], [0.3, 0.3, 0.4]],
            [[0.7, 0.2, 0.1], [0.15, 0.7, 0.15], [0.1, 0.2, 0.7]],
            [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]],
            [[1 / 3, 1 / 3, 1 / 3]] * 3,
        ]
    )
    asked = random.random((n_items, 5)) < 0.4
    asked[0] = False  # an item without annotations
    return Problem(
        blobs(random, truth, centres),
        truth,
        annotate(random, truth, confusions, asked),
        confusions,
        blobs(random, truth_test, centres),
        truth_test,
    )


def hammer_and_spammers(seed: int, *, n_items: int = 8000, mixing: float = 0.01) -> Problem:
    """Ten Gaussian classes in 20-D, one label per item, one good annotator among four who answer at random."""
    random = np.random.default_rng(seed)
    n_classes, dimension = 10, 20
    centres = random.normal(size=(n_classes, dimension)) * 1.1
    truth, truth_test = random.integers(n_classes, size=n_items), random.integers(n_classes, size=2000)
    hammer = np.eye(n_classes) + mixing * random.random((n_classes, n_classes))
    spammer = np.full((n_classes, n_classes), 1 / n_classes)
    confusions = np.stack([hammer / hammer.sum(1, keepdims=True)] + [spammer] * 4)
    asked = np.zeros((n_items, 5), dtype=bool)
    asked[np.arange(n_items), random.integers(5, size=n_items)] = True
    return Problem(
        blobs(random, truth, centres),
        truth,
        annotate(random, truth, confusions, asked),
        confusions,
        blobs(random, truth_test, centres),
        truth_test,
    )


def many_classes(seed: int, *, n_items: int = 10_000, n_classes: int = 100, n_annotators: int = 500) -> Problem:
    """A hundred classes, five hundred annotators of mixed skill, one label per item."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n_classes, 32)) * 0.8
    truth, truth_test = random.integers(n_classes, size=n_items), random.integers(n_classes, size=2000)
    skill = random.uniform(0.3, 0.95, n_annotators)
    confusions = np.empty((n_annotators, n_classes, n_classes))
    confusions[:] = ((1 - skill) / (n_classes - 1))[:, None, None]
    confusions[:, np.arange(n_classes), np.arange(n_classes)] = skill[:, None]
    asked = np.zeros((n_items, n_annotators), dtype=bool)
    asked[np.arange(n_items), random.integers(n_annotators, size=n_items)] = True
    return Problem(
        blobs(random, truth, centres),
        truth,
        annotate(random, truth, confusions, asked),
        confusions,
        blobs(random, truth_test, centres),
        truth_test,
    )


def small(seed: int = 0) -> Problem:
    return specialists(seed, n_items=300)


def quick(**parameters: Any) -> GeoCrowdNet:
    """A model that is trained in a fraction of a second."""
    small = {"epochs": 8, "network": "mlp", "network_options": {"hidden": (16,)}}
    return GeoCrowdNet(**{**small, **PLAIN, **parameters})

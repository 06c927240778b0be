"""Small crowds for the tests of aggregators, and sums over them in plain loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import CoLabels
from crowdprism.simulate import per_item, simulate_annotations

N_ITEMS, N_ANNOTATORS, N_CLASSES = 30, 6, 3
QUICK: dict[str, dict[str, Any]] = {"ebcc": {"n_subtypes": 2, "n_restarts": 2}, "mace": {"n_restarts": 2}}


def made(name: str, **params: Any) -> Any:
    return make_aggregator(name, **{**QUICK.get(name, {}), **params})


def simulated(
    confusions: np.ndarray, *, n_items: int = 400, labels: int = 4, seed: int = 0
) -> tuple[Annotations, np.ndarray]:
    """Annotations drawn from given confusions, and the true classes."""
    rng = np.random.default_rng(seed)
    n_annotators, n_classes, _ = confusions.shape
    truth = rng.integers(0, n_classes, n_items)
    item = np.repeat(np.arange(n_items), labels)
    annotator = np.concatenate([rng.choice(n_annotators, labels, replace=False) for _ in range(n_items)])
    steps = confusions[annotator, truth[item]].cumsum(axis=1)
    label = (rng.random(len(item))[:, None] > steps[:, :-1]).sum(axis=1)
    return Annotations.from_triplets(item, annotator, label, classes=range(n_classes)), truth


def mixed_crowd(n_annotators: int = 8, n_classes: int = 3, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    diagonal = rng.uniform(0.5, 0.9, (n_annotators, n_classes))
    confusions = rng.dirichlet(np.ones(n_classes), (n_annotators, n_classes)) * (1 - diagonal)[:, :, None]
    confusions[:, np.arange(n_classes), np.arange(n_classes)] += diagonal
    return confusions


def crowd(confusions, *, n_items: int, labels: int, seed: int = 0) -> tuple[Annotations, np.ndarray]:
    n_annotators, n_classes = confusions.shape[:2]
    truth = np.random.default_rng(seed).integers(n_classes, size=n_items)
    pairs = per_item(n_items, n_annotators, labels=labels, seed=seed)
    return simulate_annotations(truth, confusions, pairs, seed=seed).with_gold(None), truth


def expected_accuracy(result, truth) -> float:
    """Share of right items, items whose best classes tie counting by equal parts."""
    p = np.round(result.class_probabilities, 10)
    best = p == p.max(axis=1, keepdims=True)
    return float((best[np.arange(len(truth)), truth] / best.sum(axis=1)).mean())


def random_confusions(n_annotators: int, n_classes: int, seed: int = 0, own: float = 2.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.random((n_annotators, n_classes, n_classes)) + own * np.eye(n_classes)
    return rows / rows.sum(axis=2, keepdims=True)


def with_specialists(confusions: np.ndarray) -> np.ndarray:
    """The first annotators each give one label to one class only: label k of annotator k is an anchor of class k."""
    changed = confusions.copy()
    n_classes = confusions.shape[1]
    for k in range(n_classes):
        others = np.arange(n_classes) != k
        changed[k, others, k] = 0.0
    return changed / changed.sum(axis=2, keepdims=True)


def exact_pairs(confusions: np.ndarray, prior: np.ndarray, items: float = 1000.0) -> CoLabels:
    """Label pairs of every two annotators as an endless supply of items would give them."""
    pairs = list(itertools.combinations(range(len(confusions)), 2))
    counts = [items * confusions[m].T @ np.diag(prior) @ confusions[j] for m, j in pairs]
    first, second = np.array(pairs).T
    return CoLabels(first, second, np.array(counts))


def rows_of(annotations: Annotations) -> list[tuple[int, int, int, float]]:
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
    columns = (annotations.item, annotations.annotator, annotations.label, weight)
    return [(int(i), int(m), int(c), float(w)) for i, m, c, w in zip(*columns, strict=True)]


def votes_of(annotations: Annotations) -> list[list[float]]:
    shares = [[0.0] * N_CLASSES for _ in range(annotations.n_items)]
    for i, _, c, w in rows_of(annotations):
        shares[i][c] += w
    return [[v / sum(row) for v in row] if sum(row) else row for row in shares]


def posterior(scores: list[float]) -> tuple[list[float], float]:
    top = max(scores)
    total = sum(math.exp(score - top) for score in scores)
    return [math.exp(score - top) / total for score in scores], top + math.log(total)


def labelled(annotations: Annotations) -> set[int]:
    return {i for i, _, _, _ in rows_of(annotations)}

"""IBCC against plain loops; EBCC reduces to it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations

N_ITEMS, N_ANNOTATORS, N_CLASSES = 30, 6, 3
QUICK: dict[str, dict[str, Any]] = {"ebcc": {"n_subtypes": 2, "n_restarts": 2}, "mace": {"n_restarts": 2}}


@pytest.fixture(params=[False, True], ids=["unweighted", "weighted"])
def annotations(request: pytest.FixtureRequest) -> Annotations:
    rng = np.random.default_rng(3)
    item, annotator = np.repeat(np.arange(N_ITEMS), 4), rng.integers(0, N_ANNOTATORS, 4 * N_ITEMS)
    truth = rng.integers(0, N_CLASSES, N_ITEMS)
    label = np.where(rng.random(len(item)) < 0.65, truth[item], rng.integers(0, N_CLASSES, len(item)))
    weight = rng.uniform(0.2, 2.0, len(item)) if request.param else None
    names = {"classes": range(N_CLASSES), "item_names": range(N_ITEMS + 1), "annotator_names": range(N_ANNOTATORS + 1)}
    return Annotations.from_triplets(item, annotator, label, weight=weight, **names)


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


def test_ibcc_equals_the_loops(annotations: Annotations) -> None:
    rows, q, known = rows_of(annotations), votes_of(annotations), sorted(labelled(annotations))
    anchor = [1.0 + 3.0 * sum(q[i][k] for i in known) for k in range(N_CLASSES)]
    for _ in range(5):
        class_counts = [anchor[k] + sum(q[i][k] for i in known) for k in range(N_CLASSES)]
        log_prior = [float(digamma(count) - digamma(sum(class_counts))) for count in class_counts]
        log_confusion = {}
        for m in range(annotations.n_annotators):
            for k in range(N_CLASSES):
                counts = [4.0 if c == k else 1.0 / (N_CLASSES - 1) for c in range(N_CLASSES)]
                for i, m2, c, w in rows:
                    if m2 == m:
                        counts[c] += w * q[i][k]
                log_confusion[m, k] = [float(digamma(count) - digamma(sum(counts))) for count in counts]
        q = []
        for i in range(annotations.n_items):
            scores = list(log_prior)
            for i2, m, c, w in rows:
                if i2 == i:
                    scores = [s + w * log_confusion[m, k][c] for k, s in enumerate(scores)]
            q.append(posterior(scores)[0])
    result = make_aggregator("ibcc", max_iter=5, tolerance=0.0).fit(annotations).result_
    np.testing.assert_allclose(result.class_probabilities[known], np.array(q)[known], atol=1e-8)


def made(name: str, **params: Any) -> Any:
    return make_aggregator(name, **{**QUICK.get(name, {}), **params})


def simulated(
    confusions: np.ndarray, *, n_items: int = 400, per_item: int = 4, seed: int = 0
) -> tuple[Annotations, np.ndarray]:
    """Annotations drawn from given confusions, and the true classes."""
    rng = np.random.default_rng(seed)
    n_annotators, n_classes, _ = confusions.shape
    truth = rng.integers(0, n_classes, n_items)
    item = np.repeat(np.arange(n_items), per_item)
    annotator = np.concatenate([rng.choice(n_annotators, per_item, replace=False) for _ in range(n_items)])
    steps = confusions[annotator, truth[item]].cumsum(axis=1)
    label = (rng.random(len(item))[:, None] > steps[:, :-1]).sum(axis=1)
    return Annotations.from_triplets(item, annotator, label, classes=range(n_classes)), truth


def mixed_crowd(n_annotators: int = 8, n_classes: int = 3, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    diagonal = rng.uniform(0.5, 0.9, (n_annotators, n_classes))
    confusions = rng.dirichlet(np.ones(n_classes), (n_annotators, n_classes)) * (1 - diagonal)[:, :, None]
    confusions[:, np.arange(n_classes), np.arange(n_classes)] += diagonal
    return confusions


def test_ebcc_with_one_subtype_equals_ibcc() -> None:
    crowd, _ = simulated(mixed_crowd())
    ibcc, ebcc = made("ibcc").fit(crowd).result_, made("ebcc", n_subtypes=1, n_restarts=3).fit(crowd).result_
    np.testing.assert_array_equal(ibcc.class_probabilities, ebcc.class_probabilities)
    assert ibcc.history["objective"] == ebcc.history["objective"]


def test_ebcc_keeps_the_restart_with_the_highest_bound() -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=100)
    history = made("ebcc", n_restarts=4).fit(crowd).result_.history
    assert len(history["restarts"]) == 4
    assert history["objective"][-1] == max(history["restarts"])


@pytest.mark.parametrize("name", ["ibcc", "ebcc"])
def test_one_label_per_item_keeps_the_labels(name: str) -> None:
    random = np.random.default_rng(3)
    label = random.integers(0, 10, 400)
    single = Annotations.from_triplets(np.arange(400), random.integers(0, 20, 400), label)
    options = {"n_subtypes": 2, "n_restarts": 1} if name == "ebcc" else {}
    found = make_aggregator(name, **options).fit(single).result_
    np.testing.assert_array_equal(found.labels(), label)

"""One-coin and ZenCrowd against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations

N_ITEMS, N_ANNOTATORS, N_CLASSES = 30, 6, 3


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


@pytest.mark.parametrize(("name", "params"), [("one-coin", {"class_prior": "estimate"}), ("zencrowd", {})])
def test_one_number_per_annotator_equals_the_loops(annotations: Annotations, name: str, params: dict) -> None:
    rows, shares = rows_of(annotations), votes_of(annotations)
    total = {m: sum(w for _, m2, _, w in rows if m2 == m) for m in range(annotations.n_annotators)}
    hits = {m: sum(w * shares[i][c] for i, m2, c, w in rows if m2 == m) for m in total}
    strength = 4.0 if name == "one-coin" else 0.0
    common = sum(hits.values()) / sum(total.values())
    known = sorted(labelled(annotations))
    q = shares
    skill = dict.fromkeys(total, 0.8)
    prior = [1 / N_CLASSES] * N_CLASSES
    for iteration in range(6):
        if name == "one-coin" or iteration > 0:
            for m in total:
                right = sum(w * q[i][c] for i, m2, c, w in rows if m2 == m)
                weight = total[m] + strength
                skill[m] = (right + strength * common) / weight if weight else 0.5
        if name == "one-coin":
            prior = [sum(q[i][k] for i in known) / len(known) for k in range(N_CLASSES)]
        q = []
        for i in range(annotations.n_items):
            scores = [math.log(p) for p in prior]
            for i2, m, c, w in rows:
                if i2 == i:
                    for k in range(N_CLASSES):
                        scores[k] += w * math.log(skill[m] if c == k else (1 - skill[m]) / (N_CLASSES - 1))
            q.append(posterior(scores)[0])
    result = make_aggregator(name, max_iter=5, tolerance=0.0, **params).fit(annotations).result_
    np.testing.assert_allclose(result.class_probabilities, q, atol=1e-8)

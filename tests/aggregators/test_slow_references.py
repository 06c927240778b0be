"""Each EM method against a reference in plain Python loops, written from the paper's equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import digamma

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


@pytest.mark.parametrize("strength", [0.0, 4.0])
def test_dawid_skene_equals_the_loops(annotations: Annotations, strength: float) -> None:
    rows, shares = rows_of(annotations), votes_of(annotations)
    pooled = [
        [sum(w * shares[i][k] for i, _, c, w in rows if c == c2) for c2 in range(N_CLASSES)] for k in range(N_CLASSES)
    ]
    centre = [[value / sum(row) for value in row] for row in pooled]
    q, known = shares, sorted(labelled(annotations))
    for _ in range(7):
        prior = [sum(q[i][k] for i in known) / len(known) for k in range(N_CLASSES)]
        confusion = {}
        for m in range(annotations.n_annotators):
            for k in range(N_CLASSES):
                counts = [strength * centre[k][c] for c in range(N_CLASSES)]
                for i, m2, c, w in rows:
                    if m2 == m:
                        counts[c] += w * q[i][k]
                total = sum(counts)
                confusion[m, k] = [count / total if total else 1 / N_CLASSES for count in counts]
        q, objective = [], 0.0
        for i in range(annotations.n_items):
            scores = [math.log(prior[k]) for k in range(N_CLASSES)]
            for i2, m, c, w in rows:
                if i2 == i:
                    scores = [s + w * math.log(max(confusion[m, k][c], 1e-30)) for k, s in enumerate(scores)]
            row, log_sum = posterior(scores)
            q.append(row)
            objective += log_sum
        if strength:
            objective += sum(
                strength * centre[k][c] * math.log(confusion[m, k][c])
                for m in range(annotations.n_annotators)
                for k in range(N_CLASSES)
                for c in range(N_CLASSES)
            )
    options = {"prior_strength": strength, "tolerance": 0.0}
    result = make_aggregator("dawid-skene", max_iter=7, **options).fit(annotations).result_
    assert result.history["objective"][-1] == pytest.approx(objective, rel=1e-9)
    # the fit ends with an M step after its last recorded objective, so one more E step lies between the two
    shorter = (
        make_aggregator("dawid-skene", prior_strength=strength, max_iter=6, tolerance=0.0).fit(annotations).result_
    )
    np.testing.assert_allclose(shorter.class_probabilities, q, atol=1e-8)


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


def test_ibcc_equals_the_loops(annotations: Annotations) -> None:
    rows, q, known = rows_of(annotations), votes_of(annotations), sorted(labelled(annotations))
    for _ in range(5):
        class_counts = [1.0 + sum(q[i][k] for i in known) for k in range(N_CLASSES)]
        log_prior = [float(digamma(count) - digamma(sum(class_counts))) for count in class_counts]
        log_confusion = {}
        for m in range(annotations.n_annotators):
            for k in range(N_CLASSES):
                counts = [4.0 if c == k else 1.0 for c in range(N_CLASSES)]
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


def glad_objective(annotations: Annotations, ability: np.ndarray, log_ease: np.ndarray) -> float:
    """Log likelihood plus log priors, item by item."""
    value = -0.5 * float(((ability - 1) ** 2).sum() + ((log_ease - 1) ** 2).sum())
    for i in range(annotations.n_items):
        scores = [-math.log(N_CLASSES)] * N_CLASSES
        for i2, m, c, w in rows_of(annotations):
            if i2 == i:
                right = 1 / (1 + math.exp(-ability[m] * math.exp(log_ease[i])))
                for k in range(N_CLASSES):
                    scores[k] += w * math.log(right if c == k else (1 - right) / (N_CLASSES - 1))
        value += posterior(scores)[1]
    return value


def test_glad_ends_where_finite_differences_of_its_objective_vanish(annotations: Annotations) -> None:
    model = make_aggregator("glad", max_iter=3000, tolerance=1e-13, n_sweeps=5).fit(annotations)
    ability, log_ease = model.result_.skills, -np.log(model.difficulty_)
    top = glad_objective(annotations, ability, log_ease)
    assert model.result_.history["objective"][-1] == pytest.approx(top, rel=1e-9)
    for array in (ability, log_ease):
        for position in range(0, len(array), 5):
            array = array.copy()
            slopes = []
            for step in (1e-4, -1e-4):
                moved = array.copy()
                moved[position] += step
                point = (moved, log_ease) if len(array) == len(ability) else (ability, moved)
                slopes.append(glad_objective(annotations, *point))
            assert abs(slopes[0] - slopes[1]) / 2e-4 < 2e-3

"""The prior centred at each annotator's own skill, against its recipe in plain loops, and what must hold of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.aggregators.expectation import ConfusionPass
from crowdprism.aggregators.skill_prior import crowd_skill
from crowdprism.annotations import Annotations

N_ITEMS, N_ANNOTATORS, K = 30, 6, 3
N_STEPS = 400  # of the loops in each round: far beyond convergence

Rows = list[tuple[int, int, int]]


def crowd(*, n_items: int = N_ITEMS, per_item: int = 4, seed: int = 3) -> Annotations:
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(n_items), per_item)
    annotator = np.concatenate([rng.choice(N_ANNOTATORS, per_item, replace=False) for _ in range(n_items)])
    truth = rng.integers(0, K, n_items)
    label = np.where(rng.random(len(item)) < 0.65, truth[item], rng.integers(0, K, len(item)))
    names = {"classes": range(K), "item_names": range(n_items + 1), "annotator_names": range(N_ANNOTATORS + 1)}
    return Annotations.from_triplets(item, annotator, label, **names)


def rows_of(annotations: Annotations) -> Rows:
    columns = (annotations.item.tolist(), annotations.annotator.tolist(), annotations.label.tolist())
    return list(zip(*columns, strict=True))


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def skill_by_loops(rows: Rows) -> tuple[float, float]:
    """Mean skill p and its weight t, from a one-way random-effects model of agreement."""
    agreement: dict[int, list[float]] = {}
    for i, m, c in rows:
        others = [c2 for i2, m2, c2 in rows if i2 == i and m2 != m]
        if others:
            agreement.setdefault(m, []).append(others.count(c) / len(others))
    every = [a for own in agreement.values() for a in own]
    mean, n, c = sum(every) / len(every), len(every), 1 / (K - 1)
    p = (c + math.sqrt(max(c * c - (1 + c) * (c - mean), 0.0))) / (1 + c)
    p = min(max(p, 1 / K + 0.05), 0.98)
    means = {m: sum(own) / len(own) for m, own in agreement.items()}
    between = sum(len(own) * (means[m] - mean) ** 2 for m, own in agreement.items()) / (len(agreement) - 1)
    within = sum((a - means[m]) ** 2 for m, own in agreement.items() for a in own) / (n - len(agreement))
    n0 = (n - sum(len(own) ** 2 for own in agreement.values()) / n) / (len(agreement) - 1)
    variance = max(between - within, 0.0) / n0 / max((p - (1 - p) * c) ** 2, 1e-3)
    t = 20.0 if variance == 0 else min(max(p * (1 - p) / variance - 1, 2.0), 20.0)
    return p, t


def softmax(scores: list[float]) -> np.ndarray:
    weights = np.exp(np.array(scores) - max(scores))
    return weights / weights.sum()


def posterior_by_loops(rows: Rows) -> dict[int, np.ndarray]:
    """The recipe, three rounds of EM with fixed centres."""
    p, t = skill_by_loops(rows)
    known = sorted({i for i, _, _ in rows})
    n_items = len(known)
    q = {}
    for i in known:
        votes = [sum(1 for i2, _, c in rows if i2 == i and c == k) for k in range(K)]
        q[i] = softmax([math.log(p * (K - 1) / (1 - p)) * vote for vote in votes])
    for _ in range(3):
        n = counts_by_loops(rows, q)
        pooled = n.sum(axis=0)
        overall = (np.trace(pooled) + 1) / (pooled.sum() + 2)
        d = [(pooled[k, k] + 4 * overall) / (pooled[k].sum() + 4) for k in range(K)]
        e = np.array(
            [
                [0 if c == k else (pooled[k, c] + 4 / (K - 1)) / (pooled[k].sum() - pooled[k, k] + 4) for c in range(K)]
                for k in range(K)
            ]
        )
        centre = np.empty((N_ANNOTATORS + 1, K))
        for m in range(N_ANNOTATORS + 1):
            skill = (np.trace(n[m]) + t * overall) / (n[m].sum() + t)
            expected = (sum(n[m, k].sum() * d[k] for k in range(K)) + t * overall) / (n[m].sum() + t)
            for k in range(K):
                centre[m, k] = 1 / (1 + math.exp(-(logit(d[k]) + logit(skill) - logit(expected))))
        share = (sum(q.values()) + 1) / (n_items + K)
        for _ in range(N_STEPS):
            n = counts_by_loops(rows, q)
            prior = (sum(q.values()) + 3 * n_items * share) / (4 * n_items)
            right = np.einsum("mkk->mk", n)
            total = n.sum(axis=2)
            diagonal = (right + 12 * centre) / (total + 12)
            confusion = (1 - diagonal)[:, :, None] * (n + 12 * e) / (total - right + 12)[:, :, None]
            for k in range(K):
                confusion[:, k, k] = diagonal[:, k]
            for i in known:
                own = [(m, c) for i2, m, c in rows if i2 == i]
                q[i] = softmax(
                    [math.log(prior[k]) + sum(math.log(confusion[m, k, c]) for m, c in own) for k in range(K)]
                )
    return q


def counts_by_loops(rows: Rows, q: dict[int, np.ndarray]) -> np.ndarray:
    n = np.zeros((N_ANNOTATORS + 1, K, K))
    for i, m, c in rows:
        n[m, :, c] += q[i]
    return n


def test_the_crowds_skill_equals_the_loops() -> None:
    a = crowd()
    found = crowd_skill(ConfusionPass(a))
    assert (found.mean, found.weight) == pytest.approx(skill_by_loops(rows_of(a)), rel=1e-9)


def test_the_posterior_equals_the_recipe_in_loops() -> None:
    a = crowd()
    result = make_aggregator("dawid-skene", tolerance=1e-12, max_iter=5000).fit(a).result_
    for item, expected in posterior_by_loops(rows_of(a)).items():
        np.testing.assert_allclose(result.class_probabilities[item], expected, atol=1e-4)


def test_the_objective_never_decreases_within_a_round() -> None:
    for seed in range(4):
        history = make_aggregator("dawid-skene", tolerance=1e-9).fit(crowd(seed=seed, n_items=60)).result_.history
        gain, same_round = np.diff(history["objective"]), np.diff(history["stage"]) == 0
        assert (gain[same_round] >= -1e-9 * abs(history["objective"][-1])).all()


def test_max_iter_counts_the_iterations_of_all_rounds() -> None:
    result = make_aggregator("dawid-skene", tolerance=0.0, max_iter=7).fit(crowd()).result_
    assert len(result.history["objective"]) == 7


def test_a_weight_of_two_is_the_same_label_twice() -> None:
    a = crowd()
    twice = np.arange(a.n_annotations) % 3 == 0
    names = {"classes": range(K)}
    weighted = Annotations.from_triplets(a.item, a.annotator, a.label, weight=1.0 + twice, **names)
    order = np.concatenate([np.arange(a.n_annotations), np.flatnonzero(twice)])
    repeated = Annotations.from_triplets(a.item[order], a.annotator[order], a.label[order], **names)
    one, other = (make_aggregator("dawid-skene", tolerance=1e-10).fit(x).result_ for x in (weighted, repeated))
    np.testing.assert_allclose(one.class_probabilities, other.class_probabilities, atol=1e-6)
    np.testing.assert_allclose(one.confusions, other.confusions, atol=1e-6)


def test_the_order_of_rows_changes_nothing() -> None:
    a = crowd()
    order = np.random.default_rng(0).permutation(a.n_annotations)
    turned = Annotations.from_triplets(
        a.item[order], a.annotator[order], a.label[order], classes=range(K), item_names=range(N_ITEMS + 1)
    )
    one, other = (make_aggregator("dawid-skene").fit(x).result_ for x in (a, turned))
    assert np.array_equal(one.class_probabilities, other.class_probabilities)


def test_without_two_annotators_on_an_item_labels_are_votes() -> None:
    rng = np.random.default_rng(1)
    a = Annotations.from_triplets(np.arange(40), rng.integers(0, 5, 40), rng.integers(0, K, 40), classes=range(K))
    result = make_aggregator("dawid-skene").fit(a).result_
    votes = make_aggregator("majority-vote").fit(a).result_
    assert np.array_equal(result.class_probabilities, votes.class_probabilities)
    assert "No item has labels of two annotators" in result.warnings[0]


def test_a_single_annotator_who_repeats_themselves_makes_no_pairs() -> None:
    a = Annotations.from_triplets([0, 0, 1, 1], ["ann"] * 4, [0, 0, 1, 0], classes=range(K))
    assert crowd_skill(ConfusionPass(a)) is None


def test_annotators_with_few_labels_stay_near_their_skill_and_those_with_many_near_their_counts() -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 2, 2000)
    dense = np.stack([np.where(rng.random(2000) < 0.9, truth, 1 - truth) for _ in range(5)], axis=1)
    lopsided = np.where(truth == 0, 0, np.where(rng.random(2000) < 0.5, 1, 0))  # always right on 0, a coin on 1
    few = np.where(np.arange(2000) < 6, lopsided, -1)
    result = make_aggregator("dawid-skene").fit(Annotations.from_dense(np.column_stack([dense, lopsided, few]))).result_
    many_rows, few_rows = np.einsum("mkk->mk", result.confusions)[[5, 6]]
    assert many_rows == pytest.approx([1.0, 0.5], abs=0.06)
    assert abs(few_rows[0] - few_rows[1]) < 0.7 * abs(many_rows[0] - many_rows[1])

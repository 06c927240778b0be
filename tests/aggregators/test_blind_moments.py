"""Blind moments: exact moments give exact confusions; every step is the least squares it claims to be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from crowdprism.aggregators import BlindMoments
from crowdprism.aggregators.blind_moments import (
    LabelMoments,
    class_shares,
    constrained_least_squares,
    label_moments,
    onto_simplex,
)
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import CoLabels, co_label_entries
from crowdprism.errors import UnsuitableDataError


def random_confusions(n: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).random((n, 3, 3)) + 2 * np.eye(3)
    return rows / rows.sum(axis=2, keepdims=True)


def exact_moments(confusions: np.ndarray, prior: np.ndarray) -> LabelMoments:
    n = len(confusions)
    first, second = (side.ravel() for side in np.indices((n, n)))
    first, second = first[first != second], second[first != second]
    pairs = np.einsum("k,pka,pkb->pab", prior, confusions[first], confusions[second])
    triples = np.array([(a, b, c) for a in range(n) for b in range(a + 1, n) for c in range(b + 1, n)])
    one, two, three = (confusions[triples[:, place]] for place in range(3))
    third = np.einsum("k,tka,tkb,tkc->tabc", prior, one, two, three)
    return LabelMoments(prior @ confusions, CoLabels(first, second, pairs), triples, third)


def test_rows_are_projected_onto_the_simplex() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 4))
    found = onto_simplex(rows)
    assert found.sum(axis=1) == pytest.approx(np.ones(20))
    assert (found >= 0).all()
    others = rng.dirichlet(np.ones(4), size=500)
    for row, near in zip(rows, found, strict=True):
        assert np.square(row - near).sum() <= np.square(row - others).sum(axis=1).min() + 1e-12


def test_normal_equations_are_the_gradient_of_the_squared_error() -> None:
    truth, prior = random_confusions(4), np.array([0.5, 0.3, 0.2])
    moments, guess = exact_moments(truth, prior), random_confusions(4, seed=1)
    gram, right = moments.normal_equations(2, guess, prior)
    gradient = gram @ guess[2] - right
    for place in np.ndindex(3, 3):
        step = np.zeros((4, 3, 3))
        step[2][place] = 1e-5
        slope = (moments.error(guess + step, prior) - moments.error(guess - step, prior)) / 2e-5
        assert slope == pytest.approx(2 * gradient[place], abs=1e-6)


def test_admm_finds_the_best_rows_of_probabilities() -> None:
    rng = np.random.default_rng(2)
    root = rng.normal(size=(3, 3))
    gram, right = root @ root.T + 0.1 * np.eye(3), rng.normal(size=(3, 3))

    def cost(rows: np.ndarray) -> float:
        return float((rows * (gram @ rows)).sum() / 2 - (rows * right).sum())

    rows = np.full((3, 3), 1 / 3)
    for _ in range(20):
        rows = constrained_least_squares(gram, right, rows)
    by_logits = minimize(
        lambda z: cost(np.exp(z.reshape(3, 3)) / np.exp(z.reshape(3, 3)).sum(axis=1, keepdims=True)), np.zeros(9)
    )
    assert cost(rows) <= by_logits.fun + 1e-4


def test_exact_moments_give_the_confusions_and_class_shares() -> None:
    truth, prior = random_confusions(5), np.array([0.5, 0.3, 0.2])
    moments = exact_moments(truth, prior)
    method = BlindMoments(max_iter=60, tolerance=0)
    start = (truth + 0.15) / (truth + 0.15).sum(axis=2, keepdims=True)
    confusions, shares, errors = method._fit_moments(moments, start, np.full(3, 1 / 3), np.ones(5, dtype=bool))
    assert errors[-1] < 1e-5
    assert np.abs(confusions - truth).max() < 0.03
    assert shares == pytest.approx(prior, abs=0.02)
    assert class_shares(moments, truth, np.full(3, 1 / 3)) == pytest.approx(prior, abs=1e-3)


def test_third_moments_are_shares_of_what_three_annotators_said() -> None:
    table = np.random.default_rng(5).integers(2, size=(40, 3))
    table[:4, 0] = -1
    a = Annotations.from_dense(table)
    moments = label_moments(a, co_label_entries(a).blocks())
    assert moments.triples.tolist() == [[0, 1, 2]]
    seen = np.zeros((2, 2, 2))
    for row in table[4:]:
        seen[tuple(row)] += 1 / 36
    assert moments.third[0] == pytest.approx(seen)


def test_too_many_classes_are_refused_with_another_method() -> None:
    a = Annotations.from_triplets([0, 0], ["a", "b"], [0, 1], classes=range(65))
    with pytest.raises(UnsuitableDataError, match=r"65 classes.*dawid-skene"):
        BlindMoments().fit(a)

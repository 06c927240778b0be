from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from crowdprism.scoring import Comparisons
from crowdprism.scoring.bradley_terry import (
    JudgedAnswers,
    RankingModel,
    fit_pairs,
    gradient,
    habits,
    information,
    outcome_probabilities,
    pairs_of,
)


def crowd(n: int = 400, *, seed: int = 0, n_items: int = 6, n_judges: int = 4) -> Comparisons:
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n_items)
    left = rng.integers(n_items, size=n)
    right = (left + rng.integers(1, n_items, size=n)) % n_items
    half = (score[left] - score[right] + 0.3) / 2
    p = np.exp(np.stack([half, -half, np.full(n, -0.5)], axis=1))
    outcome = (rng.random(n)[:, None] > (p / p.sum(axis=1, keepdims=True)).cumsum(axis=1)).sum(axis=1)
    words = np.array(["left", "right", "tie"])[outcome]
    return Comparisons.from_columns(left, right, words, rng.integers(n_judges, size=n))


def hunter(wins: np.ndarray, n_iter: int = 20_000) -> np.ndarray:
    """Bradley-Terry by Hunter's (2004) MM updates, pair by pair: slow and independent."""
    n, strength = len(wins), np.ones(len(wins))
    for _ in range(n_iter):
        for i in range(n):
            strength[i] = wins[i].sum() / sum(
                (wins[i, j] + wins[j, i]) / (strength[i] + strength[j]) for j in range(n) if j != i
            )
        strength /= strength.sum()
    return np.log(strength) - np.log(strength).mean()


def test_without_prior_the_scores_are_those_of_hunters_updates() -> None:
    wins = np.array([[0, 3, 5, 2], [1, 0, 4, 3], [2, 1, 0, 2], [1, 1, 2, 0]])
    rows = [(i, j) for i in range(4) for j in range(4) for _ in range(wins[i, j])]
    data = Comparisons.from_columns(np.array(rows)[:, 0], np.array(rows)[:, 1], ["left"] * len(rows))
    run, _ = fit_pairs(
        pairs_of(data, with_judges=False), position_bias=False, with_judges=False, prior=False, max_iter=50
    )
    assert run.model.scores - run.model.scores.mean() == pytest.approx(hunter(wins, 500), abs=1e-6)


def test_two_items_have_the_log_odds_of_their_wins() -> None:
    data = Comparisons.from_columns(["x"] * 10, ["y"] * 10, ["x"] * 7 + ["y"] * 3)
    run, errors = fit_pairs(pairs_of(data, with_judges=False), position_bias=False, with_judges=False, prior=False)
    assert run.model.scores[0] - run.model.scores[1] == pytest.approx(np.log(7 / 3))
    assert errors[0, 0] + errors[1, 1] - 2 * errors[0, 1] == pytest.approx(1 / 7 + 1 / 3)


def test_gradient_and_information_are_those_of_numerical_differences() -> None:
    pairs = pairs_of(crowd(60), with_judges=False)
    counts, theta = pairs.by_outcome(pairs.row_count), np.random.default_rng(1).normal(size=pairs.n_items + 2)

    def log_likelihood(at: np.ndarray) -> float:
        return float((counts * np.log(outcome_probabilities(at, pairs))).sum())

    def slope_at(at: np.ndarray) -> np.ndarray:
        return gradient(outcome_probabilities(at, pairs), pairs, counts)

    step = 1e-5 * np.eye(len(theta))
    slope = [(log_likelihood(theta + one) - log_likelihood(theta - one)) / 2e-5 for one in step]
    assert slope_at(theta) == pytest.approx(slope, abs=1e-5)
    second = [-(slope_at(theta + one) - slope_at(theta - one)) / 2e-5 for one in step]
    p = outcome_probabilities(theta, pairs)
    assert information(p, pairs, counts.sum(axis=1)) == pytest.approx(np.array(second), abs=1e-5)


def test_em_reaches_the_maximum_that_a_general_optimiser_finds() -> None:
    pairs = pairs_of(crowd(), with_judges=True)
    run, _ = fit_pairs(pairs, position_bias=True, with_judges=True, prior=True, max_iter=2000)
    assert np.all(np.diff(run.objective) > -1e-9)
    evidence = JudgedAnswers(pairs)

    def negative(at: np.ndarray) -> float:
        model = RankingModel(at, run.model.spread, True, run.model.reliability, run.model.habit)
        prior = np.array([1 / 2.5**2] * pairs.n_items + [4.0, 1e-4])
        return -evidence.expect(model).log_likelihood + float(prior @ at**2) / 2

    best = minimize(negative, run.model.theta, method="BFGS")
    assert negative(run.model.theta) == pytest.approx(best.fun, abs=0.02)


def test_the_covariance_is_the_inverse_of_the_numerical_second_derivative() -> None:
    pairs = pairs_of(crowd(300), with_judges=True)
    run, errors = fit_pairs(pairs, position_bias=True, with_judges=True, prior=True, max_iter=2000)
    model, evidence, size = run.model, JudgedAnswers(pairs), pairs.n_items + 2
    assert model.reliability is not None
    assert model.habit is not None

    def log_posterior(at: np.ndarray) -> float:
        careful = 1 / (1 + np.exp(-at[size:]))
        other = RankingModel(at[:size], model.spread, True, careful, model.habit)
        prior = np.array([1 / 2.5**2] * pairs.n_items + [4.0, 1e-4])
        known = float((5.0 * np.log(careful) + 0.25 * np.log1p(-careful)).sum())
        return evidence.expect(other).log_likelihood - float(prior @ at[:size] ** 2) / 2 + known

    centre = np.concatenate([model.theta, np.log(model.reliability / (1 - model.reliability))])
    step = 1e-3 * np.eye(len(centre))
    second = np.array(
        [
            [
                log_posterior(centre + a + b) - log_posterior(centre + a - b)
                - log_posterior(centre - a + b) + log_posterior(centre - a - b)
                for b in step
            ]
            for a in step
        ]
    ) / 4e-6  # fmt: skip
    exact = np.linalg.inv(-second)[:size, :size]
    assert errors == pytest.approx(exact, rel=0.1, abs=0.005)


def test_habits_give_ties_at_the_rate_of_the_crowd_and_one_answer_that_is_none() -> None:
    pairs = pairs_of(Comparisons.from_columns(["x"] * 4, ["y"] * 4, ["x", "y", "x", "tie"]), with_judges=True)
    assert habits(np.array([[0.5, 0.5]]), pairs) == pytest.approx(np.array([[0.4, 0.4, 0.2]]))

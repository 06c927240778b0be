"""Shares from stratified answers: closed forms, a slow reference, edges."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import beta, binom, hypergeom

from crowdprism.calibration.stratified import (
    PSEUDO_ANSWERS,
    answers_to_halve,
    best_spread,
    binomial,
    estimate_distribution,
    hypergeometric,
    stratified_share,
)
from crowdprism.errors import InvalidParameterError

ENDLESS = 10**7


@pytest.mark.parametrize(("right", "n"), [(0, 12), (18, 20), (20, 20), (37, 40), (1, 2)])
def test_one_stratum_gives_the_interval_of_clopper_and_pearson(right: int, n: int) -> None:
    share = stratified_share([right], [n], [ENDLESS])
    low = beta.ppf(0.025, right, n - right + 1) if right else 0.0
    high = beta.ppf(0.975, right + 1, n - right) if right < n else 1.0
    assert share.value == pytest.approx(right / n)
    assert (share.low, share.high) == pytest.approx((low, high), abs=5e-4)


def test_the_value_weighs_strata_by_their_items() -> None:
    assert stratified_share([9, 5], [10, 10], [300, 100]).value == pytest.approx(0.75 * 0.9 + 0.25 * 0.5)


def test_everything_answered_leaves_no_doubt() -> None:
    assert stratified_share([3, 0], [5, 5], [5, 5])[:3] == (0.3, 0.3, 0.3)


def test_an_unasked_stratum_may_be_all_right_or_all_wrong() -> None:
    share = stratified_share([5, 0], [5, 0], [5, 5], default=[0, 1])
    assert share[:3] == (1.0, 0.5, 1.0)
    assert stratified_share([5, 0], [5, 0], [5, 5]).value == 1.0


def test_answers_themselves_bound_the_interval() -> None:
    share = stratified_share([9], [10], [11])
    assert (share.low, share.high) == pytest.approx((9 / 11, 10 / 11))


def test_the_best_spread_is_the_best_of_a_fine_grid() -> None:
    right, asked, weight = np.array([9, 4]), np.array([10, 8]), np.array([0.7, 0.3])
    for candidate in (0.5, 0.78, 0.95):
        first = np.linspace(1e-6, 1 - 1e-6, 200_001)
        second = (candidate - 0.7 * first) / 0.3
        first, second = first[(second > 0) & (second < 1)], second[(second > 0) & (second < 1)]
        x, n = right + PSEUDO_ANSWERS * candidate, asked + PSEUDO_ANSWERS
        fit = sum(a * np.log(p) + (b - a) * np.log1p(-p) for a, b, p in zip(x, n, (first, second), strict=True))
        spread = best_spread(candidate, right, asked, weight)
        assert spread[0] == pytest.approx(first[fit.argmax()], abs=1e-4)
        assert float((weight * spread).sum()) == pytest.approx(candidate, abs=1e-9)


def test_the_distribution_of_the_estimate_equals_a_sum_over_all_outcomes() -> None:
    share, asked, size = np.array([0.9, 0.6]), np.array([4, 3]), np.array([ENDLESS, 10])
    weight = np.array([0.75, 0.25])
    found = estimate_distribution(share, asked, size, weight)
    steps = np.arange(len(found)) / (len(found) / 2)
    for limit in (0.5, 0.8, 0.95):
        slow = sum(
            binom.pmf(a, 4, 0.9) * hypergeom.pmf(b, 10, 6, 3)
            for a, b in product(range(5), range(4))
            if 0.75 * a / 4 + 0.25 * b / 3 <= limit
        )
        assert found[steps <= limit].sum() == pytest.approx(slow, abs=1e-9)


def test_probabilities_of_counts_are_those_of_scipy() -> None:
    count = np.arange(8)
    assert binomial(count, 7, 0.3) == pytest.approx(binom.pmf(count, 7, 0.3))
    assert binomial(count, 7, 1.0) == pytest.approx(binom.pmf(count, 7, 1.0))
    for right in (0, 2, 9, 12):
        assert hypergeometric(count, 7, right, 12) == pytest.approx(hypergeom.pmf(count, 12, right, 7))


def test_four_times_the_answers_halve_the_interval_of_endless_items() -> None:
    assert answers_to_halve([18], [20], [ENDLESS]) == pytest.approx(60, abs=1)
    more = answers_to_halve([18], [20], [100])
    assert more is not None
    assert more < 60
    assert answers_to_halve([5], [5], [5]) is None


@pytest.mark.parametrize("wrong_model", [False, True])
def test_intervals_hold_in_repeated_audits(wrong_model: bool) -> None:
    random = np.random.default_rng(3)
    size, asked = np.array([200, 800]), np.array([20, 20])
    shares = np.array([0.95, 0.6]) if wrong_model else np.array([0.6, 0.95])
    right = np.round(shares * size).astype(int)
    truth = right.sum() / size.sum()
    drawn = np.stack([random.hypergeometric(r, s - r, 20, 400) for r, s in zip(right, size, strict=True)], axis=1)
    kinds, counts = np.unique(drawn, axis=0, return_counts=True)
    holds = [low <= truth <= high for _, low, high, _ in (stratified_share(kind, asked, size) for kind in kinds)]
    assert counts[holds].sum() / 400 > 0.93  # three standard errors below .95


def test_a_level_outside_0_and_1_is_an_error() -> None:
    with pytest.raises(InvalidParameterError):
        stratified_share([1], [2], [3], level=1.0)

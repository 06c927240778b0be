"""Rankings of many items against those by dense tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from crowdprism.scoring import Ranking, bradley_terry, rank
from crowdprism.scoring.many_items import SparseInformation

N_ITEMS = 60


def ranked(n_judges: int, *, prior: bool = True) -> Ranking:
    random = np.random.default_rng(0)
    score = random.normal(size=N_ITEMS)
    left = random.integers(0, N_ITEMS, 3000)
    right = (left + random.integers(1, N_ITEMS, 3000)) % N_ITEMS
    winner = np.where(random.random(3000) < 1 / (1 + np.exp(score[right] - score[left] - 0.2)), "left", "right")
    winner[random.random(3000) < 0.1] = "tie"
    return rank(left, right, winner, random.integers(0, n_judges, 3000) if n_judges else None, prior=prior)


@pytest.mark.parametrize(("n_judges", "prior"), [(0, True), (0, False), (8, True)])
def test_scores_are_those_of_dense_tables_and_intervals_nearly(
    n_judges: int, prior: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ranked(n_judges, prior=prior)
    monkeypatch.setattr(bradley_terry, "DENSE_ITEMS", N_ITEMS - 1)
    found = ranked(n_judges, prior=prior)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=0.2)
    assert found.covariance.shape == (N_ITEMS,)
    assert found.position is not None
    assert expected.position is not None
    assert found.position.low == pytest.approx(expected.position.low, abs=1e-6)
    assert np.abs(found.rank_interval() - expected.rank_interval()).max() <= 8


def test_a_ranking_of_many_items_answers_all_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bradley_terry, "DENSE_ITEMS", 10)
    found = ranked(0)
    assert found.win_probabilities().shape == (N_ITEMS, N_ITEMS)
    assert len(found.pairs_to_ask(3)) == 3
    best, worst = found.order[[0, -1]].tolist()
    assert found.difference(best, worst).clear
    assert found.to_frame().height == N_ITEMS


def test_more_items_than_a_dense_table_can_have_are_ranked() -> None:
    n = bradley_terry.DENSE_ITEMS + 1
    left = np.repeat(np.arange(n), 2)
    found = rank(left, (left + np.tile([1, 7], n)) % n, np.full(2 * n, "left"), reliability=False)
    assert np.isfinite(found.scores).all()
    assert np.isfinite(found.interval()).all()


def test_a_system_is_solved_less_what_judges_share() -> None:
    random = np.random.default_rng(1)
    table, shared = np.diag(random.uniform(5, 9, 6)) + 0.1, random.normal(size=(6, 2))
    right = random.normal(size=6)
    found = SparseInformation(csr_array(table), csr_array(shared)).solve(right)
    np.testing.assert_allclose(found, np.linalg.solve(table - shared @ shared.T, right), rtol=1e-6)

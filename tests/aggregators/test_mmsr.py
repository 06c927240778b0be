"""MMSR: its means and factors by definition, and simulated crowds."""

from __future__ import annotations

import numpy as np
import pytest
from small_crowds import crowd, expected_accuracy

from crowdprism.aggregators import MMSR, OneCoin
from crowdprism.aggregators.mmsr import majority_signs, rank_one_change, robust_rank_one, trimmed_means
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError, UnsuitableDataError
from crowdprism.simulate import one_coin


def slow_trimmed_mean(values: np.ndarray, current: float, trim: int) -> float:
    values = sorted(values)
    low = min(trim, sum(value < current for value in values))
    high = min(trim, sum(value > current for value in values))
    kept = values[low : len(values) - high]
    return float(np.mean(kept)) if kept else current


@pytest.mark.parametrize("trim", [0, 1, 3])
def test_trimmed_means_equal_their_definition_by_loops(trim) -> None:
    rng = np.random.default_rng(trim)
    owner = np.sort(rng.integers(8, size=60))
    ratios, current = rng.normal(size=60), rng.normal(size=9)
    mine = trimmed_means(ratios, owner, current, np.full(9, trim))
    theirs = [slow_trimmed_mean(ratios[owner == who], current[who], trim) for who in range(9)]
    assert mine == pytest.approx(np.array(theirs))


def test_the_change_of_the_fitted_matrix_needs_no_matrix() -> None:
    rng = np.random.default_rng(0)
    u, v, du, dv = rng.normal(size=(4, 7))
    direct = np.linalg.norm(np.outer(u + du, v + dv) - np.outer(u, v))
    assert rank_one_change(u, v, du, dv) == pytest.approx(direct)


def test_skills_are_recovered_from_an_exact_rank_one_matrix_with_corrupted_entries() -> None:
    skills = np.linspace(0.3, 0.9, 12)
    row, column = np.nonzero(~np.eye(12, dtype=bool))
    target = skills[row] * skills[column]
    corrupted = (np.minimum(row, column) == 0) & (np.maximum(row, column) < 4)
    found, _ = robust_rank_one(
        np.where(corrupted, 1.0, target), row, column, np.full(12, 4), iterations=1500, tolerance=1e-13
    )
    assert found == pytest.approx(skills, abs=1e-3)


def test_signs_put_the_minority_on_the_other_side() -> None:
    side = np.array([1, 1, 1, -1, 1, -1, 1.0])
    row, column = np.nonzero(~np.eye(7, dtype=bool))
    assert majority_signs(0.3 * side[row] * side[column], row, column, 7).tolist() == side.tolist()


def test_mmsr_and_one_coin_agree_on_one_coin_data() -> None:
    accuracies = np.random.default_rng(0).uniform(0.5, 0.95, size=20)
    a, truth = crowd(one_coin(accuracies, 3), n_items=2000, labels=8)
    mmsr, coin = MMSR().fit(a).result_, OneCoin().fit(a).result_
    assert (mmsr.labels() == coin.labels()).mean() > 0.98
    assert np.abs(mmsr.skills - accuracies).max() < 0.05
    assert expected_accuracy(mmsr, truth) == pytest.approx(expected_accuracy(coin, truth), abs=0.01)


def test_mmsr_turns_adversaries_round() -> None:
    a, truth = crowd(one_coin([0.9] * 7 + [0.1] * 3, 2), n_items=500, labels=7)
    result = MMSR().fit(a).result_
    assert (result.skills[7:] < 0.3).all()
    assert expected_accuracy(result, truth) > 0.97


def test_mmsr_refuses_annotators_who_share_nothing() -> None:
    with pytest.raises(UnsuitableDataError, match=r"no two of the 2 annotators share.*majority-vote"):
        MMSR().fit([[0, -1], [-1, 1]])


def test_an_annotator_who_shares_nothing_gets_the_mean_skill_and_is_counted() -> None:
    table = np.full((9, 4), -1)
    table[:8, :3] = [[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1]] * 2
    table[8, 3] = 1
    result = MMSR().fit(Annotations.from_dense(table)).result_
    assert result.labels()[8] == 1
    assert "1 annotators share no item with anyone" in result.warnings[0]


def test_a_negative_trim_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="trim must be a whole number of at least 0 or None"):
        MMSR(trim=-1).fit([[0, 1], [1, 1]])

"""Known winners: the model against an independent optimiser, judges' marks by hand, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

import crowdprism as cp
from crowdprism.errors import CrowdprismError, InvalidAnnotationsError
from crowdprism.scoring import Comparisons
from crowdprism.scoring.bradley_terry import SPREAD
from crowdprism.scoring.known_winners import SHARPNESS, KnownWinners

THETA = np.array([0.3, -0.2, 0.1, 0.9])


def known(*rows: tuple[int, int, int]) -> KnownWinners:
    return KnownWinners(*np.array(rows).T)


def test_gradient_and_information_are_the_derivatives_of_the_log_density() -> None:
    pairs = known((0, 1, 0), (0, 2, 1), (1, 2, 2))
    assert pairs.gradient(THETA) == pytest.approx(approx_fprime(THETA, pairs.log_density, 1e-7), abs=1e-5)
    by_hand = np.stack([approx_fprime(THETA, lambda at, i=i: -pairs.gradient(at)[i], 1e-7) for i in range(4)])
    assert pairs.information(THETA).toarray() == pytest.approx(by_hand, abs=1e-4)


def test_scores_are_at_the_maximum_of_the_posterior_with_gold() -> None:
    left, right = ["a", "b", "c", "a"] * 5, ["b", "c", "a", "c"] * 5
    winner = ["a", "c", "c", "a"] * 5
    found = cp.rank(left, right, winner, gold=["b"] + [None] * 19, position_bias=False)
    place = {"a": 0, "b": 1, "c": 2}

    def lost(score: np.ndarray) -> float:
        total = float((score**2).sum()) / (2 * SPREAD**2)
        for one, other, better in zip(left, right, winner, strict=True):
            worse = other if better == one else one
            total += np.log1p(np.exp(score[place[worse]] - score[place[better]]))
        return total + np.log1p(np.exp(SHARPNESS * (score[0] - score[1])))

    expected = minimize(lost, np.zeros(3), tol=1e-12).x
    assert found.scores == pytest.approx(expected - expected.mean(), abs=1e-4)


def test_a_known_winner_comes_first_although_judges_say_otherwise_and_changes_little_where_they_agree() -> None:
    columns = (["x"] * 30, ["y"] * 30, ["x"] * 25 + ["y"] * 5)
    without, agreed, turned = (cp.rank(*columns, gold=[gold] + [None] * 29) for gold in (None, "x", "y"))
    assert turned.scores[1] > turned.scores[0]
    assert agreed.scores == pytest.approx(without.scores, abs=0.01)
    assert agreed.gold_accuracy is not None
    assert turned.gold_accuracy is not None
    assert (agreed.gold_accuracy.value, turned.gold_accuracy.value) == (1.0, 0.0)
    assert without.gold_accuracy is None


def test_judges_are_marked_on_pairs_whose_winner_is_known_in_either_order() -> None:
    found = cp.rank(
        ["x", "y", "x", "y", "z"],
        ["y", "x", "y", "x", "x"],
        ["x", "y", "tie", "x", "z"],
        ["ann", "ann", "bob", "bob", "bob"],
        gold=["left", "", None, "", ""],
    )
    assert found.known_answers.tolist() == [2, 2]
    assert found.known_right.tolist() == [1, 1]


def test_a_known_tie_is_kept_and_says_nothing_of_the_order() -> None:
    found = cp.rank(["x"] * 9, ["y"] * 9, ["x"] * 8 + ["tie"], ["ann"] * 4 + ["bob"] * 5, gold=["tie"] + [None] * 8)
    assert found.known_right.tolist() == [0, 1]
    assert found.gold_accuracy is None
    assert abs(found.scores[0] - found.scores[1]) < 0.3


def test_careless_judges_are_told_better_with_gold() -> None:
    """Six of ten judges answer the opposite: without gold the majority is right."""
    rng = np.random.default_rng(0)
    left = rng.integers(6, size=1200)
    right = (left + rng.integers(1, 6, size=1200)) % 6
    judge = rng.integers(10, size=1200)
    better = np.maximum(left, right)
    winner = np.where(judge < 6, left + right - better, better)
    gold = [int(one) if at < 40 else None for at, one in enumerate(better)]
    blind, seen = cp.rank(left, right, winner, judge), cp.rank(left, right, winner, judge, gold=gold)
    assert blind.order[0] == 0
    assert seen.order[0] == 5
    assert seen.reliability is not None
    assert seen.reliability[:6].max() < 0.5 < seen.reliability[6:].min()


def test_groups_of_judges_say_what_they_think_without_gold() -> None:
    columns = (["x"] * 40, ["y"] * 40, ["x"] * 30 + ["y"] * 10)
    group = ["crowd"] * 20 + ["experts"] * 20
    with_gold, without = (cp.rank(*columns, group=group, gold=gold) for gold in (["y"] + [None] * 39, None))
    assert with_gold.groups["crowd"].scores.tolist() == without.groups["crowd"].scores.tolist()


def test_the_order_of_rows_does_not_matter() -> None:
    rows = [("x", "y", "x", "x"), ("y", "z", "tie", None), ("z", "x", "x", "left"), ("y", "x", "y", "")]
    one, other = (cp.rank(*columns[:3], gold=columns[3]) for columns in
                  (tuple(zip(*rows, strict=True)), tuple(zip(*rows[::-1], strict=True))))  # fmt: skip
    contradictory = [*rows, ("x", "y", "x", "y")]
    assert one.scores.tolist() == other.scores.tolist()
    with pytest.raises(InvalidAnnotationsError, match="contradicts itself on 1 of 2 pairs, first on 'x' and 'y'"):
        Comparisons.from_columns(*list(zip(*contradictory, strict=True))[:3], gold=[row[3] for row in contradictory])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("x", "w", "x"), "1 of 1 items with gold are not items: 'w'"),
        (("x", "x", "x"), "itself"),
        (("x", "y", "z"), "1 of 1 known winners are neither item"),
    ],
)
def test_gold_about_other_items_is_refused(row: tuple[str, str, str], message: str) -> None:
    data = Comparisons.from_columns(["x", "z"], ["y", "x"], ["x", "z"])
    with pytest.raises(CrowdprismError, match=message):
        data.with_gold(*([cell] for cell in row))


def test_more_items_than_a_dense_covariance_holds_use_gold_too(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (["x"] * 30 + ["z"], ["y"] * 30 + ["y"], ["x"] * 20 + ["y"] * 11)
    gold = ["y"] + [None] * 30
    dense = cp.rank(*columns, gold=gold)
    monkeypatch.setattr("crowdprism.scoring.bradley_terry.DENSE_ITEMS", 0)
    assert cp.rank(*columns, gold=gold).scores == pytest.approx(dense.scores, abs=1e-4)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.errors import IdentifiabilityWarning, InvalidParameterError
from crowdprism.scoring import Comparisons, Ranking, rank


def simulate(
    n: int,
    *,
    seed: int = 0,
    n_items: int = 10,
    n_judges: int = 8,
    position: float = 0.0,
    bad: int = 0,
    ties: float = 0.0,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n_items)
    left = rng.integers(n_items, size=n)
    right = (left + rng.integers(1, n_items, size=n)) % n_items
    half = (score[left] - score[right] + position) / 2
    p = np.stack([np.exp(half), np.exp(-half), np.full(n, ties)], axis=1)
    outcome = (rng.random(n)[:, None] > (p / p.sum(axis=1, keepdims=True)).cumsum(axis=1)).sum(axis=1)
    judge = rng.integers(n_judges, size=n)
    outcome = np.where(judge < bad, rng.integers(2, size=n), outcome)
    words = np.array(["left", "right", "tie"])[outcome]
    return score - score.mean(), {"left": left, "right": right, "winner": words, "judge": judge}


def held(ranking: Ranking, truth: np.ndarray) -> float:
    truth = truth[ranking.items]
    interval = ranking.interval()
    return float(((interval[:, 0] < truth) & (truth < interval[:, 1])).mean())


@pytest.mark.parametrize("setting", [{}, {"position": 0.5, "ties": 0.6}, {"bad": 2, "position": 0.3}])
def test_intervals_hold_the_truth_about_as_often_as_they_say(setting: dict[str, float]) -> None:
    rounds = [simulate(400, seed=seed, **setting) for seed in range(24)]  # type: ignore[arg-type]
    coverage = np.mean([held(rank(**columns), truth) for truth, columns in rounds])
    assert 0.92 <= coverage <= 0.98


def test_a_planted_position_bias_is_found() -> None:
    _, columns = simulate(2000, position=0.8)
    found = rank(**columns).position
    assert found is not None
    assert found.low < 1 / (1 + np.exp(-0.8)) < found.high
    assert found.low > 0.6


def test_planted_bad_judges_are_found_and_do_less_harm() -> None:
    truth, columns = simulate(3000, n_judges=10, bad=4)
    found = rank(**columns)
    assert found.reliability is not None
    assert found.reliability[:4].max() < 0.5 < 0.7 < found.reliability[4:].min()
    plain = rank(**columns, reliability=False)
    assert np.abs(found.scores - truth).mean() < np.abs(plain.scores - truth).mean()


def test_the_share_of_ties_between_equals_is_found() -> None:
    _, columns = simulate(3000, ties=0.5)
    assert rank(**columns).tie_share == pytest.approx(0.5 / 2.5, abs=0.03)


def test_order_of_rows_and_names_do_not_matter() -> None:
    _, columns = simulate(300, ties=0.4)
    first = rank(**columns)
    turn = np.random.default_rng(1).permutation(300)
    names = {f"item {9 - at}": at for at in range(10)}
    renamed = {at: name for name, at in names.items()}
    again = rank(
        [renamed[at] for at in columns["left"][turn]],
        [renamed[at] for at in columns["right"][turn]],
        columns["winner"][turn],
        columns["judge"][turn],
    )
    assert again.scores[::-1] == pytest.approx(first.scores, abs=1e-6)
    assert rank(**{name: column[turn] for name, column in columns.items()}).scores.tolist() == first.scores.tolist()


def test_an_item_that_always_wins_has_a_finite_score_and_needs_the_prior() -> None:
    columns = (["x", "y", "z"], ["y", "z", "x"], ["x", "y", "x"])
    assert np.isfinite(rank(*columns).scores).all()
    with pytest.raises(InvalidParameterError, match="always win"):
        rank(*columns, prior=False)


def test_items_that_were_never_compared_are_named() -> None:
    with pytest.warns(IdentifiabilityWarning, match="2 groups that were never compared"):
        found = rank(["a", "c"], ["b", "d"], ["a", "c"])
    assert found.component.tolist() == [0, 0, 1, 1]
    one, other, _ = found.pairs_to_ask(1)[0]
    assert found.component[found.items.tolist().index(one)] != found.component[found.items.tolist().index(other)]


def test_win_probabilities_are_complementary_and_certain_scores_give_the_logistic() -> None:
    _, columns = simulate(500)
    found = rank(**columns)
    table = found.win_probabilities()
    assert table + table.T == pytest.approx(np.ones_like(table))
    many = rank(["x"] * 4000, ["y"] * 4000, (["x"] * 3 + ["y"]) * 1000, position_bias=False)
    assert many.win_probabilities()[0, 1] == pytest.approx(0.75, abs=0.002)


def test_two_items_differ_only_if_the_votes_say_so() -> None:
    clear = rank(["x"] * 40, ["y"] * 40, ["x"] * 30 + ["y"] * 10, position_bias=False).difference("x", "y")
    unclear = rank(["x"] * 40, ["y"] * 40, ["x"] * 22 + ["y"] * 18, position_bias=False).difference("y", "x")
    assert clear.clear
    assert "x is better than y" in str(clear)
    assert not unclear.clear
    assert unclear.probability < 0.5
    assert "cannot be told apart" in str(unclear)
    with pytest.raises(InvalidParameterError, match="are not items: 'w'"):
        rank(["x"], ["y"], ["x"]).difference("x", "w")


def test_asking_the_named_pairs_narrows_the_scores_more_than_asking_others() -> None:
    truth, columns = simulate(150)
    found = rank(**columns, reliability=False)
    rng = np.random.default_rng(5)

    def width(pairs: list[tuple[int, int]]) -> float:
        left, right = np.array([pair for pair in pairs for _ in range(10)]).T
        won = np.where(rng.random(len(left)) < 1 / (1 + np.exp(truth[right] - truth[left])), left, right)
        more = {"left": left, "right": right}
        merged = {name: np.concatenate([columns[name], more[name]]) for name in more}
        winner = [*np.where(columns["winner"] == "left", columns["left"], columns["right"]).tolist(), *won.tolist()]
        return float(np.trace(rank(merged["left"], merged["right"], winner, reliability=False).covariance))

    random = [tuple(rng.choice(10, size=2, replace=False).tolist()) for _ in range(8)]
    assert width([pair[:2] for pair in found.pairs_to_ask(8)]) < width(random)


def test_votes_that_contradict_the_ranking_are_listed() -> None:
    # x beats y and y beats z clearly, but z beats x: the cycle shows in the pair that contradicts most.
    columns = [("x", "y", "x")] * 90 + [("y", "z", "y")] * 90 + [("x", "z", "z")] * 40 + [("y", "z", "z")] * 10
    found = rank(*map(list, zip(*columns, strict=True)), position_bias=False)
    assert found.surprises[0][:2] == ("x", "z")
    assert found.surprises[0][4] < -3


def test_groups_of_judges_that_differ_are_found() -> None:
    _, columns = simulate(3000, n_judges=10)
    group = np.where(columns["judge"] < 5, "crowd", "experts")
    same = rank(**columns, group=group)
    assert same.differing_items() == []
    liked = (columns["left"] == 0) | (columns["right"] == 0)
    loved = np.where(columns["left"] == 0, "left", "right")
    winner = np.where((group == "experts") & liked, loved, columns["winner"])
    found = rank(**{**columns, "winner": winner}, group=group).differing_items()
    assert (found[0][0], found[0][1]) in {(0, "experts"), (0, "crowd")}


def test_rank_intervals_span_the_places_that_are_open() -> None:
    _, columns = simulate(5000, n_items=5)
    found = rank(**columns)
    places = found.rank_interval()
    at = np.empty(5, dtype=int)
    at[found.order] = np.arange(1, 6)
    assert (places[:, 0] <= at).all()
    assert (at <= places[:, 1]).all()
    assert rank(["x", "x"], ["y", "y"], ["x", "y"]).rank_interval().tolist() == [[1, 2], [1, 2]]


def test_a_file_and_a_frame_give_the_same_ranking_as_columns(tmp_path: Path) -> None:
    import polars as pl

    rows = [("x", "y", "x", "ann"), ("y", "z", "tie", "bob"), ("z", "x", "x", "ann")]
    path = tmp_path / "pairs.csv"
    path.write_text("left,right,winner,annotator\n" + "".join(",".join(row) + "\n" for row in rows))
    columns = [list(column) for column in zip(*rows, strict=True)]
    expected = cp.rank(*columns).scores.tolist()
    assert cp.rank(path).scores.tolist() == expected
    frame = pl.DataFrame(dict(zip(("left", "right", "winner", "judge"), columns, strict=True)))
    assert cp.rank(frame).scores.tolist() == expected
    assert cp.rank(Comparisons.from_columns(*columns)).to_frame()["item"][0] == "x"


def test_an_item_that_always_stands_left_gets_the_credit_for_its_wins() -> None:
    found = rank(["x"] * 20, ["y"] * 20, ["x"] * 18 + ["y"] * 2)
    assert found.difference("x", "y").clear


def test_a_group_that_did_not_see_every_item_is_no_reason_to_warn(recwarn: pytest.WarningsRecorder) -> None:
    found = rank(["x", "y", "z"] * 9, ["y", "z", "x"] * 9, ["left"] * 27, group=["a", "a", "b"] * 9)
    assert set(found.groups) == {"a", "b"}
    assert not recwarn.list


@pytest.mark.filterwarnings("error")
def test_nothing_but_ties_leaves_items_equal() -> None:
    found = rank(["a", "a", "b"], ["b", "c", "c"], ["tie"] * 3, ["ann", "bob", "bob"])
    assert found.scores == pytest.approx(np.zeros(3))
    assert found.rank_interval().tolist() == [[1, 3]] * 3
    assert found.reliability is not None
    assert np.isfinite(found.reliability).all()

"""Which method is recommended, and how it is explained."""

from __future__ import annotations

import numpy as np

from crowdprism.comparison import Comparison, MethodRow
from crowdprism.comparison.recommendation import indistinguishable, rank, recommend


def test_of_methods_alike_the_most_stable_is_recommended_then_the_fastest() -> None:
    rows = [
        MethodRow("best", log_likelihood=-0.50, stability=0.90, seconds=1.0, held_out_agreement=0.5),
        MethodRow("stable", log_likelihood=-0.51, stability=0.99, seconds=9.0, held_out_agreement=0.5),
        MethodRow("quick", log_likelihood=-0.52, stability=0.99, seconds=0.1, held_out_agreement=0.5),
        MethodRow("worse", log_likelihood=-2.00, stability=1.00, seconds=0.1, held_out_agreement=0.5),
    ]
    noise = np.random.default_rng(0).normal(size=100)
    scores = {"best": noise, "stable": -noise, "quick": -noise, "worse": noise - 2}
    scores["best"] = scores["best"] - noise.mean()
    name, reason = recommend(rank(rows, by_gold=False), scores, by_gold=False)
    assert name == "quick"
    assert "best and stable" in reason
    assert "worse" not in reason


def test_nothing_measured_recommends_nothing() -> None:
    assert recommend([MethodRow("a", failed="no")], {}, by_gold=False)[0] is None


def test_without_a_likelihood_agreement_with_held_out_annotations_decides() -> None:
    rows = rank([MethodRow("a", held_out_agreement=0.6), MethodRow("b", held_out_agreement=0.7)], by_gold=False)
    name, reason = recommend(rows, {}, by_gold=False)
    assert name == "b"
    assert "weak evidence" in reason


def test_methods_that_failed_come_last_and_are_explained_in_a_column() -> None:
    rows = rank([MethodRow("a", failed="no features"), MethodRow("b", log_likelihood=-2.0)], by_gold=False)
    assert [row.method for row in rows] == ["b", "a"]
    assert [record["remark"] for record in Comparison(rows, "b", "").to_records()] == [None, "no features"]


def test_an_outcome_without_rows_reads_as_its_reason() -> None:
    assert str(Comparison((), None, "No method could be measured.")).strip() == "No method could be measured."


def test_methods_are_told_apart_by_more_than_one_standard_error_of_the_paired_difference() -> None:
    assert indistinguishable(np.array([1.0, 0.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0, 0.0]))
    assert not indistinguishable(np.zeros(4), np.array([-1.0, -1.1, -0.9, -1.0]))


def test_a_difference_that_nobody_can_see_is_no_reason() -> None:
    better, worse = np.full(1000, -0.42891), np.full(1000, -0.42897)
    assert indistinguishable(better, worse)
    rows = [
        MethodRow("a", log_likelihood=-0.42891, stability=0.9, seconds=1.0),
        MethodRow("b", log_likelihood=-0.42897, stability=0.9, seconds=1.0),
    ]
    assert "clearly" not in recommend(rank(rows, by_gold=False), {"a": better, "b": worse}, by_gold=False)[1]

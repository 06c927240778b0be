from __future__ import annotations

import numpy as np

from crowdprism.report.ranking_page import ranking_lines, ranking_page
from crowdprism.scoring import rank


def test_the_page_shows_items_judges_disagreements_and_pairs_to_ask() -> None:
    votes = [("x", "y", "x")] * 90 + [("y", "z", "y")] * 90 + [("x", "z", "z")] * 40 + [("y", "z", "z")] * 10
    left, right, winner = map(list, zip(*votes, strict=True))
    judges = [f"judge {at % 3}" for at in range(len(votes))]
    page = ranking_page(rank(left, right, winner, judges, position_bias=False))
    for part in ("3 items from 230 comparisons", "judge 2", "contradict the ranking", "Pairs to ask next", "<svg"):
        assert part in page
    assert "<script" not in page


def test_the_sentences_name_position_ties_and_groups() -> None:
    random = np.random.default_rng(1)
    winner = random.choice(["left", "left", "right", "tie"], size=600)
    left = random.choice(["x", "y"], size=600)
    right = np.where(left == "x", "y", "x")
    group = random.choice(["crowd", "experts"], size=600)
    lines = "\n".join(ranking_lines(rank(left, right, winner, group=group)))
    assert "cannot be told apart" in lines
    assert "Position matters" in lines
    assert "Judges find equal items equal in" in lines
    assert "Groups of judges do not clearly differ." in lines

"""Items in memory as a pass sees them; `test_expectation` has the passes."""

from __future__ import annotations

import numpy as np

from crowdprism.aggregators.blocks import VoteBlock, hard_classes, soft_classes
from crowdprism.annotations import Annotations

TIED = Annotations.from_dense([[0, 1, -1], [1, 1, 0], [-1, -1, -1], [2, 0, 0]])


def test_votes_count_by_skill() -> None:
    block = VoteBlock(None, TIED, 0)
    assert block.votes(0, 2, np.array([0.5, 2.0, 3.0])).tolist() == [[0.5, 2.0, 0.0], [3.0, 2.5, 0.0]]
    assert block.votes(2, 4).tolist() == [[0.0, 0.0, 0.0], [2.0, 0.0, 1.0]]


def test_items_without_votes_have_equal_shares_and_those_with_gold_their_class() -> None:
    block = VoteBlock(None, TIED.with_gold({0: 2}), 0)
    assert block.vote_shares(0, 3).round(3).tolist() == [[0.0, 0.0, 1.0], [0.333, 0.667, 0.0], [0.333, 0.333, 0.333]]
    assert block.annotated(0, 4).tolist() == [True, True, False, True]


def test_an_item_whose_annotations_weigh_nothing_is_not_annotated() -> None:
    a = Annotations.from_triplets([0, 0, 1], list("aba"), [0, 1, 1], weight=[0.0, 0.0, 2.0])
    assert VoteBlock(None, a, 0).annotated(0, 2).tolist() == [False, True]


def test_classes_of_scores_are_shares_or_decisions() -> None:
    scores = np.log([[0.1, 0.3], [0.2, 0.2]])
    assert soft_classes(scores)[0].round(12).tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert np.isclose(soft_classes(scores)[1], 2 * np.log(0.4))
    assert hard_classes(scores)[0].tolist() == [[0.0, 1.0], [0.5, 0.5]]

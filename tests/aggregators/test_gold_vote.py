"""Gold-calibrated voting against Bayes' rule by hand."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import GoldVote
from crowdprism.aggregators.gold_vote import NO_GOLD
from crowdprism.aggregators.moments import vote_start
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError


def test_labels_are_combined_by_bayes_rule_with_confusions_counted_on_gold() -> None:
    table = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [0, 1]])
    a = Annotations.from_dense(table).with_gold({0: 0, 1: 0, 2: 1, 3: 1})
    crowd = vote_start(a, method="a test")
    counts = np.array([[[2, 0], [0, 2]], [[1, 1], [1, 1]]]) + crowd.pooled
    confusions = counts / counts.sum(axis=2, keepdims=True)
    joint = crowd.prior * confusions[0][:, 0] * confusions[1][:, 1]
    result = GoldVote().fit(a).result_
    assert result.class_probabilities[4] == pytest.approx(joint / joint.sum())
    assert result.confusions == pytest.approx(confusions)


def test_labels_of_items_without_gold_teach_nothing_about_single_annotators() -> None:
    table = np.array([[0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]])
    gold = {0: 0, 1: 1}
    one = GoldVote(prior_strength=1e-9).fit(Annotations.from_dense(table).with_gold(gold)).result_.confusions
    other = GoldVote(prior_strength=1e-9).fit(Annotations.from_dense(table[:3]).with_gold(gold)).result_.confusions
    assert one == pytest.approx(other, abs=1e-6)


def test_without_gold_it_is_a_vote_and_says_so() -> None:
    a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [1, 0, 1]])
    result = GoldVote().fit(a).result_
    assert result.labels().tolist() == [0, 1, 1]
    assert result.warnings == (NO_GOLD,)
    with pytest.raises(InvalidParameterError, match="prior_strength"):
        GoldVote(prior_strength=0).fit(a)

"""Votes, plain and weighted."""

from __future__ import annotations

import numpy as np
import pytest
from small_crowds import crowd, expected_accuracy

from crowdprism.aggregators import MajorityVote, WeightedVote
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.results import confusion
from crowdprism.simulate import hammer_spammer, one_coin


def slow_wawa(table: np.ndarray, n_classes: int) -> np.ndarray:
    """Wawa by its definition, in loops; ties count by equal parts."""
    votes = np.array([[np.sum(row == k) for k in range(n_classes)] for row in table], dtype=float)
    skills = []
    for column in table.T:
        right = [
            (votes[item, label] == votes[item].max()) / np.sum(votes[item] == votes[item].max())
            for item, label in enumerate(column)
            if label >= 0
        ]
        skills.append(np.mean(right))
    weighted = np.array(
        [
            [sum(s for s, label in zip(skills, row, strict=True) if label == k) for k in range(n_classes)]
            for row in table
        ]
    )
    return weighted / weighted.sum(axis=1, keepdims=True)


def test_weighted_vote_equals_its_definition_by_loops() -> None:
    rng = np.random.default_rng(0)
    table = np.where(rng.random((40, 6)) < 0.7, rng.integers(3, size=(40, 6)), -1)
    table[:, 0] = rng.integers(3, size=40)
    result = WeightedVote().fit(Annotations.from_dense(table)).result_
    assert result.class_probabilities == pytest.approx(slow_wawa(table, 3), abs=1e-9)


def test_annotators_of_equal_skill_make_a_plain_vote() -> None:
    a = Annotations.from_dense([[0, 1, 0], [1, 0, 1], [1, 1, 0], [0, 0, 1], [0, 1, 1], [1, 0, 0]])
    plain, weighted = MajorityVote().fit(a).result_, WeightedVote().fit(a).result_
    assert weighted.class_probabilities == pytest.approx(plain.class_probabilities)
    assert weighted.skills == pytest.approx(np.full(3, 2 / 3))


def test_ties_can_go_to_the_class_that_comes_first() -> None:
    a = Annotations.from_dense([[0, 1], [1, 1]])
    assert WeightedVote(ties="lowest").fit(a).result_.skills.tolist() == [1.0, 0.5]
    assert WeightedVote().fit(a).result_.skills.tolist() == [0.75, 0.75]


def test_annotations_of_weight_zero_say_nothing_in_a_vote() -> None:
    a = Annotations.from_triplets([0, 0, 1, 2], list("abab"), [0, 0, 1, 0], weight=[1, 1, 0, 1])
    result = MajorityVote().fit(a).result_
    assert result.class_prior.tolist() == [1.0, 0.0]
    assert result.class_probabilities.tolist() == [[1.0, 0.0]] * 3
    hard = MajorityVote(voting="hard").fit(a).result_
    assert hard.class_probabilities.tolist() == [[1.0, 0.0]] * 3


def test_a_vote_over_very_many_classes_leaves_matrices_out_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 8)
    result = MajorityVote().fit(Annotations.from_dense([[0, 1], [1, 1]])).result_
    assert result.confusions is None
    assert "would not fit in memory" in result.warnings[0]


def test_iterated_weighted_vote_settles_and_beats_one_pass_on_hammers_and_spammers() -> None:
    a, truth = crowd(hammer_spammer(40, 3, hammer_share=0.4), n_items=600, labels=5)
    once = WeightedVote().fit(a).result_
    often = WeightedVote(iterations=100).fit(a).result_
    assert often.history["largest_skill_change"][-1] < often.history["largest_skill_change"][0]
    assert expected_accuracy(often, truth) > expected_accuracy(once, truth) + 0.02


def test_weighted_vote_refits_when_annotations_are_added() -> None:
    a, _ = crowd(one_coin(np.linspace(0.5, 0.9, 10), 3), n_items=90, labels=4)
    step_by_step = WeightedVote(iterations=5)
    for part in (a[:30], a[30:31], a[31:]):
        step_by_step.partial_fit(part)
    at_once = WeightedVote(iterations=5).fit(a).result_
    assert step_by_step.result_.class_probabilities == pytest.approx(at_once.class_probabilities, abs=1e-12)
    assert step_by_step.result_.skills == pytest.approx(at_once.skills, abs=1e-12)


@pytest.mark.parametrize("iterations", [1, 50])
def test_a_lone_label_of_an_annotator_who_is_else_always_alone_still_counts(iterations) -> None:
    table = [[0, 0, 1], [1, 1, 0], [0, 0, 1], [-1, -1, 1]]
    result = WeightedVote(iterations=iterations).fit(Annotations.from_dense(table)).result_
    assert result.class_probabilities[3].tolist() == [0.0, 1.0]


def test_bad_parameters_are_named() -> None:
    for method, complaint in [
        (WeightedVote(iterations=0), "iterations must be a whole number of at least 1"),
        (WeightedVote(ties="random"), "ties must be 'split' or 'lowest'"),
        (MajorityVote(voting="loud"), "voting must be 'soft' or 'hard'"),
    ]:
        with pytest.raises(InvalidParameterError, match=complaint):
            method.fit([[0, 1], [1, 1]])

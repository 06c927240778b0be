"""KOS against its updates in loops, and on crowds it is made for."""

from __future__ import annotations

import numpy as np
import pytest
from small_crowds import crowd, expected_accuracy

from crowdprism.aggregators import KOS, MajorityVote
from crowdprism.aggregators.kos import decode, edges_of, item_scores, pass_messages
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError, UnsuitableDataError
from crowdprism.simulate import hammer_spammer, one_coin


def slow_kos(table: np.ndarray, iterations: int) -> np.ndarray:
    """The two message updates in loops over edges, starting from ones, without rescaling."""
    edges = [(i, j) for i, j in np.argwhere(table >= 0)]
    sign = {edge: 2 * table[edge] - 1 for edge in edges}
    y = dict.fromkeys(edges, 1.0)
    for _ in range(iterations):
        x = {(i, j): sum(sign[i, k] * y[i, k] for a, k in edges if a == i and k != j) for i, j in edges}
        y = {(i, j): sum(sign[k, j] * x[k, j] for k, b in edges if b == j and k != i) for i, j in edges}
    return np.array([sum(sign[i, j] * y[i, j] for a, j in edges if a == i) for i in range(len(table))])


def test_messages_equal_the_updates_by_loops_up_to_scale() -> None:
    rng = np.random.default_rng(1)
    table = np.where(rng.random((12, 6)) < 0.7, rng.integers(2, size=(12, 6)), -1)
    table[:, 0] = rng.integers(2, size=12)  # one annotator of everything connects the crowd
    a = Annotations.from_dense(table)
    signs, edges = np.where(a.label == 1, 1.0, -1.0), edges_of(a)
    messages = pass_messages(signs, edges, np.ones(len(signs)), iterations=4)
    mine = np.bincount(a.item, weights=signs * messages, minlength=12)
    theirs = slow_kos(table, 4)
    assert mine / np.abs(mine).max() == pytest.approx(theirs / np.abs(theirs).max(), abs=1e-9)
    assert np.sign(item_scores(signs, edges, messages)) == pytest.approx(np.sign(mine))


def test_kos_beats_majority_vote_on_hammers_and_spammers() -> None:
    # Hammers make up three tenths of 100 annotators; 1000 items with five labels each.
    votes, kos = [], []
    for seed in range(3):
        confusions = hammer_spammer(100, 2, hammer_share=0.3, seed=seed)
        a, truth = crowd(confusions, n_items=1000, labels=5, seed=seed)
        votes.append(expected_accuracy(MajorityVote().fit(a).result_, truth))
        kos.append(expected_accuracy(KOS().fit(a).result_, truth))
    assert np.mean(kos) > np.mean(votes) + 0.1
    assert np.mean(kos) > 0.88


def test_many_rounds_of_messages_stay_finite_and_both_starts_agree() -> None:
    a, _ = crowd(hammer_spammer(60, 2, hammer_share=0.5), n_items=400, labels=6)
    ones = KOS(iterations=1500).fit(a).result_
    normal = KOS(iterations=1500, start="normal", random_state=3).fit(a).result_
    assert np.isfinite(ones.class_probabilities).all()
    assert (ones.labels() == normal.labels()).mean() > 0.99


def test_kos_uses_an_adversary_in_reverse() -> None:
    a, truth = crowd(one_coin([0.9] * 6 + [0.05] * 2, 2), n_items=300, labels=5)
    result = KOS().fit(a).result_
    assert (result.skills[6:] < 0).all()
    assert (result.skills[:6] > 0).all()
    assert expected_accuracy(result, truth) > expected_accuracy(MajorityVote().fit(a).result_, truth)


@pytest.mark.parametrize("decoding", ["nominal", "ordinal"])
def test_kos_with_several_classes_beats_majority_vote(decoding) -> None:
    a, truth = crowd(hammer_spammer(60, 4, hammer_share=0.4), n_items=800, labels=5)
    kos = expected_accuracy(KOS(decoding=decoding).fit(a).result_, truth)
    assert kos > expected_accuracy(MajorityVote().fit(a).result_, truth) + 0.03


def test_two_classes_are_the_same_whether_nominal_or_ordinal() -> None:
    assert decode(np.array([[0.2]]), 2, "nominal").tolist() == decode(np.array([[0.2]]), 2, "ordinal").tolist()


def test_kos_solves_parts_of_the_crowd_as_if_each_were_alone() -> None:
    left, _ = crowd(one_coin([0.9, 0.6, 0.8, 0.7], 2), n_items=50, labels=3, seed=1)
    right, _ = crowd(one_coin([0.95, 0.55, 0.7], 2), n_items=70, labels=3, seed=2)
    apart = [KOS().fit(part).result_.class_probabilities for part in (left, right)]
    joined = np.full((120, 7), -1)
    joined[:50, :4], joined[50:, 4:] = left.to_dense(), right.to_dense()
    together = KOS().fit(Annotations.from_dense(joined)).result_
    assert together.class_probabilities == pytest.approx(np.concatenate(apart), abs=1e-9)


def test_kos_refuses_a_graph_without_cycles_and_names_another_method() -> None:
    with pytest.raises(UnsuitableDataError, match=r"3 of 3 items have one label.*majority-vote"):
        KOS().fit([[0, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    with pytest.raises(UnsuitableDataError, match="cycles"):
        KOS().fit([[0, 1, 1]])  # one item: three annotators who cannot be compared elsewhere


def test_items_that_hang_on_one_annotation_keep_their_vote_and_are_counted() -> None:
    table = [[0, 0, 1, -1], [1, 1, 0, -1], [0, 0, 1, -1], [-1, -1, -1, 1]]
    result = KOS().fit(Annotations.from_dense(table)).result_
    assert result.labels().tolist() == [0, 1, 0, 1]
    assert result.warnings == ("1 items were reached by no message and keep their vote shares.",)


def test_bad_parameters_are_named() -> None:
    for params, complaint in [
        ({"iterations": 0}, "iterations must be a whole number of at least 1, not 0"),
        ({"decoding": "both"}, "decoding must be 'nominal' or 'ordinal'"),
        ({"start": "zeros"}, "start must be"),
    ]:
        with pytest.raises(InvalidParameterError, match=complaint):
            KOS(**params).fit([[0, 1], [1, 1]])

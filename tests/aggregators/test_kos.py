"""KOS against its updates in loops, and on crowds it is made for."""

from __future__ import annotations

import numpy as np
import pytest
from small_crowds import crowd, expected_accuracy

from crowdprism.aggregators import KOS, Eigenvector, EigenvectorRatio, MajorityVote
from crowdprism.aggregators.kos import decode, item_scores, pass_messages
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError, UnsuitableDataError
from crowdprism.simulate import hammer_spammer, one_coin, per_item, simulate_annotations


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
    signs = np.where(a.label == 1, 1.0, -1.0)
    messages = pass_messages(signs, a, np.ones(len(signs)), iterations=4)
    mine = np.bincount(a.item, weights=signs * messages, minlength=12)
    theirs = slow_kos(table, 4)
    assert mine / np.abs(mine).max() == pytest.approx(theirs / np.abs(theirs).max(), abs=1e-9)
    assert np.sign(item_scores(signs, a, messages)) == pytest.approx(np.sign(mine))


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


def uneven_crowd(confusions: np.ndarray, *, n_items: int, labels: int) -> tuple[Annotations, np.ndarray]:
    n_annotators, n_classes = confusions.shape[:2]
    truth = np.random.default_rng(0).integers(n_classes, size=n_items)
    pairs = per_item(n_items, n_annotators, labels=labels, share=np.linspace(1, 3, n_annotators))
    return simulate_annotations(truth, confusions, pairs).with_gold(None), truth


def signed(a: Annotations) -> np.ndarray:
    """Signed labels minus each annotator's mean; 0 where there is no label."""
    table = a.to_dense()
    signs = np.where(table < 0, np.nan, 2.0 * table - 1)
    return np.nan_to_num(signs - np.nanmean(signs, axis=0))


def leading(matrix: np.ndarray) -> np.ndarray:
    vector = np.linalg.eigh(matrix)[1][:, -1]
    return vector * np.sign((vector * np.abs(vector)).sum())


def test_skills_are_the_leading_singular_vector_of_the_signed_table() -> None:
    a, _ = uneven_crowd(one_coin([0.9, 0.8, 0.7, 0.6, 0.2], 2), n_items=80, labels=3)
    skills = Eigenvector(iterations=5000, tolerance=1e-13).fit(a).result_.skills
    expected = leading(signed(a).T @ signed(a))
    assert skills / np.linalg.norm(skills) == pytest.approx(expected, abs=1e-6)


def test_skills_are_the_ratio_of_the_eigenvectors_of_agreement_and_of_shared_items() -> None:
    a, _ = uneven_crowd(one_coin([0.9, 0.8, 0.7, 0.6, 0.2], 2), n_items=80, labels=3)
    skills = EigenvectorRatio(iterations=5000, tolerance=1e-13).fit(a).result_.skills
    there = (a.to_dense() >= 0).astype(float)
    agreement, shared = signed(a).T @ signed(a), there.T @ there
    np.fill_diagonal(agreement, 0)
    np.fill_diagonal(shared, 0)
    expected = leading(agreement) / leading(shared)
    assert skills / np.linalg.norm(skills) == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)


def test_the_ratio_estimates_twice_the_accuracy_minus_one_however_much_annotators_label() -> None:
    accuracy = np.tile([0.95, 0.6, 0.8, 0.7, 0.9], 8)
    a, _ = uneven_crowd(one_coin(accuracy, 2), n_items=6000, labels=15)
    skills = EigenvectorRatio().fit(a).result_.skills
    assert skills / skills.mean() == pytest.approx((2 * accuracy - 1) / (2 * accuracy - 1).mean(), abs=0.1)


@pytest.mark.parametrize("method", [Eigenvector, EigenvectorRatio])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_spammers_lose_their_vote(method: type, n_classes: int) -> None:
    a, truth = uneven_crowd(hammer_spammer(60, n_classes, hammer_share=0.4), n_items=800, labels=7)
    found = {kind: float((kind().fit(a).result_.labels() == truth).mean()) for kind in (method, MajorityVote)}
    assert found[method] > found[MajorityVote] + 0.03


@pytest.mark.parametrize("method", [Eigenvector, EigenvectorRatio])
def test_annotators_who_always_say_the_same_are_not_believed(method: type) -> None:
    truth = np.random.default_rng(3).integers(2, size=200)
    noisy = np.where(np.random.default_rng(4).random((200, 4)) < 0.25, 1 - truth[:, None], truth[:, None])
    table = np.concatenate([noisy, np.ones((200, 5), dtype=int)], axis=1)
    assert (method().fit(Annotations.from_dense(table)).result_.labels() == truth).mean() > 0.8


@pytest.mark.parametrize("method", [Eigenvector, EigenvectorRatio])
def test_parts_of_the_crowd_are_solved_as_if_each_were_alone(method: type) -> None:
    left = np.random.default_rng(1).integers(2, size=(30, 3))
    right = np.random.default_rng(2).integers(2, size=(40, 4))
    joined = np.full((70, 7), -1)
    joined[:30, :3], joined[30:, 3:] = left, right
    apart = [method(tolerance=1e-12).fit(Annotations.from_dense(part)).result_.labels() for part in (left, right)]
    together = method(tolerance=1e-12).fit(Annotations.from_dense(joined)).result_.labels()
    assert together.tolist() == np.concatenate(apart).tolist()

"""Weighted vote, KOS and MMSR."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import KOS, MMSR, MajorityVote, OneCoin, WeightedVote
from crowdprism.aggregators.kos import decode, edges_of, item_scores, pass_messages
from crowdprism.aggregators.mmsr import majority_signs, rank_one_change, robust_rank_one, trimmed_means
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError, UnsuitableDataError
from crowdprism.results import confusion
from crowdprism.simulate import hammer_spammer, one_coin, per_item, simulate_annotations


def expected_accuracy(result, truth) -> float:
    """Share of right items, items whose best classes tie counting by equal parts."""
    p = np.round(result.class_probabilities, 10)
    best = p == p.max(axis=1, keepdims=True)
    return float((best[np.arange(len(truth)), truth] / best.sum(axis=1)).mean())


def crowd(confusions, *, n_items: int, labels: int, seed: int = 0) -> tuple[Annotations, np.ndarray]:
    n_annotators, n_classes = confusions.shape[:2]
    truth = np.random.default_rng(seed).integers(n_classes, size=n_items)
    pairs = per_item(n_items, n_annotators, labels=labels, seed=seed)
    return simulate_annotations(truth, confusions, pairs, seed=seed), truth


# -- weighted vote ------------------------------------------------------------------------------------------


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


# -- KOS ----------------------------------------------------------------------------------------------------


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


# -- MMSR ---------------------------------------------------------------------------------------------------


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


def test_bad_parameters_are_named() -> None:
    a = [[0, 1], [1, 1]]
    for method, complaint in [
        (KOS(iterations=0), "iterations must be a whole number of at least 1"),
        (KOS(decoding="both"), "decoding must be"),
        (KOS(start="zeros"), "start must be"),
        (MMSR(trim=-1), "trim must be"),
        (WeightedVote(iterations=0), "iterations must be a whole number of at least 1"),
        (WeightedVote(ties="random"), "ties must be"),
    ]:
        with pytest.raises(InvalidParameterError, match=complaint):
            method.fit(a)

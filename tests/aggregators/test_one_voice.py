"""Voices: merging members, handing back what was learned of them, groups given by the user, the words of the result."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from crowdprism import Annotations, FitResult, make_aggregator
from crowdprism.aggregators.one_voice import (
    TightGroup,
    agreement_beyond,
    answers_of,
    choose,
    connected_groups,
    describe_voices,
    fit_confusions,
    given_groups,
    hand_back,
    join_names,
    label_shares,
    merge,
    pair_products,
    try_groups,
)
from crowdprism.errors import InvalidParameterError

NAMES = ["ann", "bob", "cy", "di"]


def dense(rows: list[list[int]]) -> Annotations:
    return Annotations.from_dense(rows, annotator_names=NAMES[: len(rows[0])])


def test_a_voice_gives_the_label_of_most_members_in_the_place_of_the_first() -> None:
    a = dense([[0, 1, 1, 0], [1, 0, 0, 0], [0, -1, 1, -1]])
    merged = merge(a, [np.array([1, 2, 3])])
    assert merged.annotations.to_dense().tolist() == [[0, 1, -1, -1], [1, 0, -1, -1], [0, 1, -1, -1]]
    assert merged.annotations.weight is None
    assert merged.annotations.annotators.tolist() == NAMES


def test_a_tie_within_a_voice_counts_in_equal_parts() -> None:
    merged = merge(dense([[0, 0, 1], [1, 1, 1]]), [np.array([1, 2])]).annotations
    assert merged.annotator.tolist() == [0, 1, 1, 0, 1]
    assert merged.label.tolist() == [0, 0, 1, 1, 1]
    assert merged.weight is not None
    assert merged.weight.tolist() == [1.0, 0.5, 0.5, 1.0, 1.0]


def test_a_voice_weighs_as_much_as_its_heaviest_label_and_heavy_labels_decide_it() -> None:
    a = Annotations.from_triplets([1, 1, 1], ["x", "y", "z"], [0, 1, 1], weight=[3.0, 1.0, 1.0])
    merged = merge(a, [np.array([0, 1, 2])]).annotations
    assert (merged.label.tolist(), merged.weight.tolist()) == ([0], [3.0])  # type: ignore[union-attr]


def test_two_voices_on_the_same_items_stay_apart() -> None:
    merged = merge(dense([[0, 1, 0, 1], [1, 0, 1, 0]]), [np.array([0, 2]), np.array([1, 3])])
    assert merged.annotations.to_dense().tolist() == [[0, 1, -1, -1], [1, 0, -1, -1]]
    assert merged.fidelities.tolist() == [1.0, 1.0]


def test_merged_annotations_are_sorted_as_those_built_from_rows() -> None:
    random = np.random.default_rng(0)
    a = Annotations.from_dense(random.integers(-1, 3, size=(50, 6)))
    merged = merge(a, [np.array([1, 4]), np.array([0, 5])]).annotations
    rebuilt = Annotations.from_triplets(
        merged.items[merged.item],
        merged.annotators[merged.annotator],
        merged.classes[merged.label],
        weight=merged.weight,
        classes=a.classes,
        item_names=a.items,
        annotator_names=a.annotators,
    )
    assert rebuilt == merged


def test_fidelity_and_channel_count_how_members_follow_the_voice() -> None:
    merged = merge(dense([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 1]]), [np.array([0, 1, 2])])
    assert merged.fidelities[0] == pytest.approx(11 / 12)
    # One pseudo-label of a faithful member in each row.
    assert merged.channels[0][2].tolist() == [[2 / 3, 1 / 3], [0.0, 1.0]]
    assert merged.log_likelihood == pytest.approx(np.log(2 / 3) + np.log(1 / 3))


def test_members_get_the_confusion_of_their_voice_followed_by_their_own_deviation() -> None:
    a = dense([[0, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 1, 0]])
    groups = [np.array([0, 3])]
    merged = merge(a, groups)
    of_voice = np.array([[0.8, 0.2], [0.3, 0.7]])
    result = FitResult(
        "x", a.items, a.annotators, a.classes, np.eye(2)[[0, 0, 1, 1]], confusions=np.repeat(of_voice[None], 4, axis=0)
    )
    back = hand_back(result, a, groups, merged)
    assert back.voices == (("ann", "di"),)
    assert back.confusions is not None
    assert np.allclose(back.confusions[3], of_voice @ merged.channels[0][1])
    assert np.allclose(back.confusions[1], of_voice)
    assert back.labels_per_annotator is not None
    assert back.labels_per_annotator.tolist() == [4, 4, 4, 4]
    assert back.annotations is a


def test_labels_of_a_voice_share_one_vote_on_each_item() -> None:
    a = dense([[0, 1, 1, 1], [0, -1, 1, -1]])
    assert label_shares(a, [("bob", "cy", "di")]).tolist() == [1, 1 / 3, 1 / 3, 1 / 3, 1, 1]
    assert label_shares(a, [("nobody", "else")]).tolist() == [1.0] * 6


def test_groups_are_given_by_name_in_any_order() -> None:
    assert [group.tolist() for group in given_groups([["cy", "ann"], ("di", "bob")], dense([[0, 1, 1, 0]]))] == [
        [0, 2],
        [1, 3],
    ]


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ("none", 'must be "auto", None or groups'),
        (5, 'must be "auto", None or groups'),
        (["ann"], 'must be "auto", None or groups'),
        ([["ann", "zoe", "yan"]], "2 of 3 names given as one voice are not annotators: 'zoe', 'yan'"),
        ([["ann", "bob"], ["bob", "cy"]], "1 annotators are given in two voices: 'bob'"),
        ([["ann", "ann"]], "A voice needs two annotators or more"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups: object, said: str) -> None:
    with pytest.raises(InvalidParameterError, match=said) as caught:
        make_aggregator("dawid-skene", dependence=groups).fit(dense([[0, 1, 1, 0]]))
    assert caught.value.parameter == "dependence"


def test_the_number_of_independent_voices_counts_every_group_once() -> None:
    assert describe_voices([("a", "b", "c"), ("d", "e")], 7) == (
        "a, b and c; d and e answer as one and are counted once each: 7 annotators are 4 independent voices."
    )
    assert describe_voices([("a", "b")], 2).endswith("2 annotators are 1 independent voice.")


def test_many_names_are_shortened() -> None:
    assert join_names(list("abcdefghij")) == "a, b, c, d, e, f, g, h and 2 more"


def test_a_given_voice_votes_once() -> None:
    a = dense([[0, 0, 1, 1], [1, 1, 0, 0]]).concat(
        Annotations.from_triplets([0, 1], ["eve", "eve"], [1, 0]),
    )
    assert make_aggregator("majority-vote", dependence=None).fit(a).result_.labels().tolist() == [1, 0]
    counted = make_aggregator("majority-vote", dependence=[["cy", "di", "eve"]]).fit(a).result_
    assert counted.labels().tolist() == [0, 1]
    assert counted.voices == (("cy", "di", "eve"),)
    assert "5 annotators are 3 independent voices" in counted.warnings[0]


def test_copies_given_by_the_user_equal_one_of_them_alone() -> None:
    random = np.random.default_rng(0)
    truth = random.integers(3, size=200)
    table = np.where(random.random((200, 5)) < 0.7, truth[:, None], random.integers(3, size=(200, 5)))
    alone = make_aggregator("dawid-skene", dependence=None).fit(table).result_
    copied = np.column_stack([table, table[:, 4], table[:, 4]])
    together = make_aggregator("dawid-skene", dependence=[[4, 5, 6]]).fit(copied).result_
    # Two annotators without labels of their own change the fit by rounding alone.
    assert np.allclose(together.class_probabilities, alone.class_probabilities, atol=1e-9)
    assert together.annotator_accuracy is not None
    assert np.ptp(together.annotator_accuracy[4:]) < 1e-12


def crowd(skills: list[float], n_items: int = 500, seed: int = 0, copies: int = 0) -> Annotations:
    """One-coin annotators with two classes; the last one has further copies."""
    random = np.random.default_rng(seed)
    truth = random.integers(2, size=n_items)
    table = np.column_stack([np.where(random.random(n_items) < skill, truth, 1 - truth) for skill in skills])
    return Annotations.from_dense(np.column_stack([table, *[table[:, -1]] * copies]))


def test_the_plain_fit_reaches_what_dawid_skene_with_the_crowd_prior_reaches() -> None:
    a = crowd([0.9, 0.8, 0.7, 0.6])
    fit = fit_confusions(a)
    full = make_aggregator("dawid-skene", prior="crowd", dependence=None, tolerance=1e-5).fit(a).result_
    assert full.confusions is not None
    assert np.allclose(fit.confusions, full.confusions, atol=0.03)
    assert (fit.log_joint.argmax(axis=1) == full.class_probabilities.argmax(axis=1)).mean() > 0.98


def test_the_likelihood_of_one_perfect_annotator_is_that_of_class_shares() -> None:
    fit = fit_confusions(Annotations.from_dense([[0, 0], [0, 0], [0, 0], [1, 1]] * 200))
    assert fit.log_likelihood == pytest.approx(800 * (0.75 * np.log(0.75) + 0.25 * np.log(0.25)), rel=0.01)


def test_gold_that_a_voice_gets_wrong_speaks_against_it() -> None:
    a = crowd([0.8, 0.8, 0.8, 0.6], copies=3)
    group = (TightGroup(np.arange(3, 7), 0.9),)
    as_copies_say = a.with_gold(dict(enumerate(a.to_dense()[:, 3].tolist())))
    assert try_groups(as_copies_say, group, fit_confusions(a)).gain == -np.inf


def test_pairs_connect_groups_and_the_largest_comes_first() -> None:
    pairs = SimpleNamespace(first=np.array([0, 3, 4]), second=np.array([1, 4, 6]))
    groups = connected_groups(pairs, np.array([0.9, 0.7, 0.8]), 8)
    assert [group.members.tolist() for group in groups] == [[3, 4, 6], [0, 1]]
    assert [group.tightness for group in groups] == [pytest.approx(0.75), pytest.approx(0.9)]


def test_copies_make_labels_likelier_as_one_voice_and_independent_annotators_do_not() -> None:
    a = crowd([0.8, 0.8, 0.8, 0.6], copies=3)
    independent = fit_confusions(a)
    group = (TightGroup(np.arange(3, 7), 0.9),)
    assert try_groups(a, group, independent).gain > 10
    plain = crowd([0.8, 0.8, 0.8, 0.8, 0.8, 0.8])
    assert try_groups(plain, (TightGroup(np.arange(3), 0.9),), fit_confusions(plain)).gain < 0


def test_of_two_groups_only_the_copies_are_chosen() -> None:
    a = crowd([0.8, 0.8, 0.8, 0.6], copies=3)
    found = choose(a, [TightGroup(np.arange(3, 7), 0.9), TightGroup(np.arange(2), 0.7)])
    assert [group.tolist() for group in found.voices] == [[3, 4, 5, 6]]
    assert found.looser == ()


def test_without_a_gain_nothing_is_chosen() -> None:
    a = crowd([0.8] * 6)
    found = choose(a, [TightGroup(np.arange(2), 0.9)])
    assert (found.voices, found.looser) == ((), ())


def test_guessers_do_not_agree_beyond_experts_and_those_who_know_better_agree_beyond_copies() -> None:
    truth = crowd([1.0], n_items=2000).to_dense()[:, 0]
    guessers = crowd([0.5] * 6, n_items=2000, seed=1)
    share, z = agreement_beyond(guessers, truth)
    assert abs(share) < 0.02
    assert abs(z) < 3
    judges = crowd([0.8] * 3, n_items=2000, seed=2)
    share, z = agreement_beyond(judges, np.random.default_rng(3).integers(2, size=2000))
    assert share == pytest.approx(0.36, abs=0.05)  # two annotators of .8 agree in .68, by chance in .5
    assert z > 10


def test_products_of_pairs_equal_plain_loops() -> None:
    random = np.random.default_rng(0)
    vectors, item = random.normal(size=(12, 3)), np.repeat([0, 1, 3], [2, 4, 6])
    slow = np.zeros(5)
    for one in range(12):
        for two in range(12):
            if one != two and item[one] == item[two]:
                slow[item[one]] += vectors[one] @ vectors[two]
    assert np.allclose(pair_products(vectors, item, 5), slow)


def test_without_answers_or_pairs_nothing_is_beyond() -> None:
    assert agreement_beyond(crowd([0.8]), np.zeros(500, dtype=int)) == (0.0, 0.0)
    assert agreement_beyond(crowd([0.8, 0.8]), np.full(500, -1)) == (0.0, 0.0)


def test_the_answers_of_an_annotator_are_its_first_labels() -> None:
    a = Annotations.from_triplets([0, 0, 1, 2], ["v", "v", "w", "v"], [1, 0, 0, 1])
    assert answers_of(a, 0).tolist() == [0, -1, 1]


def test_experts_beside_guessers_are_not_one_voice() -> None:
    a = crowd([0.97] * 8 + [0.5] * 8, n_items=400)
    assert try_groups(a, (TightGroup(np.arange(8), 0.9),), fit_confusions(a)).gain == -np.inf

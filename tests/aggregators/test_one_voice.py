"""Voices: merging members, handing back what was learned of them, groups given by the user, the words of the result."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism import Annotations, FitResult, make_aggregator
from crowdprism.aggregators.one_voice import (
    describe_voices,
    given_groups,
    hand_back,
    join_names,
    label_shares,
    merge,
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

from __future__ import annotations

import pytest

from crowdprism.annotations.choice_sets import MultiLabelAnnotations
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError

ITEMS, PEOPLE = ["x", "x", "y"], ["ann", "bob", "ann"]


def test_every_choice_is_a_yes_no_problem_with_all_items_and_annotators() -> None:
    found = MultiLabelAnnotations.from_triplets(ITEMS, PEOPLE, [["a", "b"], ["b"], []], gold={"y": ["a"]})
    assert found.of("a").to_dense().tolist() == [[1, 0], [0, -1]]
    assert found.of("b").to_dense().tolist() == [[1, 1], [0, -1]]
    assert found.of("a").gold_by_name() == {"y": "yes"}
    assert found.of("b").gold_by_name() == {"y": "no"}
    assert [choice for choice, _ in found] == ["a", "b"]


def test_the_order_of_rows_and_of_choices_in_an_answer_does_not_matter() -> None:
    first = MultiLabelAnnotations.from_triplets(ITEMS, PEOPLE, [["a", "b"], ["b"], []])
    again = MultiLabelAnnotations.from_triplets(ITEMS[::-1], PEOPLE[::-1], [[], ["b"], ["b", "a", "a"]])
    assert again.sets == first.sets
    assert again.members.tolist() == first.members.tolist()


def test_choices_that_nobody_ticked_can_be_listed_and_others_are_refused() -> None:
    found = MultiLabelAnnotations.from_triplets(ITEMS, PEOPLE, [["a"], [], []], choices=["b", "a"])
    assert found.of("b").label.tolist() == [0, 0, 0]
    with pytest.raises(InvalidAnnotationsError, match=r"1 of 3 .* annotator 'bob' on item 'x'. Unknown are 'c'"):
        MultiLabelAnnotations.from_triplets(ITEMS, PEOPLE, [["a"], ["c"], []], choices=["b", "a"])
    with pytest.raises(InvalidParameterError, match="are not choices: 'c'"):
        found.of("c")


def test_items_are_selected_as_in_annotations() -> None:
    found = MultiLabelAnnotations.from_triplets(ITEMS, PEOPLE, [["a"], [], ["a"]])
    assert len(found[1:]) == 1
    assert found[1:].of("a").items.tolist() == ["y"]


def test_gold_can_be_added_later() -> None:
    found = MultiLabelAnnotations.from_triplets(ITEMS, PEOPLE, [["a"], ["b"], ["a"]])
    known = found.with_gold({"x": ["a", "b"], "unknown": ["a"]})
    assert known.of("b").gold_by_name() == {"x": "yes"}
    assert known.of("a").label.tolist() == found.of("a").label.tolist()


def test_answers_that_all_tick_the_same_are_refused_with_the_reason() -> None:
    with pytest.raises(InvalidAnnotationsError, match="All 2 answers tick the same choices: 'x'"):
        MultiLabelAnnotations.from_triplets([1, 2], ["ann", "bob"], [["x"], ["x"]])
    with pytest.raises(InvalidAnnotationsError, match="the same choices: none"):
        MultiLabelAnnotations.from_triplets([1, 2], ["ann", "bob"], [[], []], choices=["x"])

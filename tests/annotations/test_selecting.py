"""Other lists of names, and gold by name: the same annotations, whatever their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdprism.annotations import Annotations
from crowdprism.annotations.selecting import held_out_mask, item_positions
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError

ITEMS, PEOPLE, CLASSES = ["x", "y", "z"], ["ann", "bob"], ["cat", "dog", "emu"]
ROWS = st.lists(
    st.tuples(st.sampled_from(ITEMS), st.sampled_from(PEOPLE), st.sampled_from(CLASSES)), min_size=1, max_size=12
)


def build(rows: list[tuple[str, str, str]], **options: Any) -> Annotations:
    names = {"item_names": ITEMS, "annotator_names": PEOPLE, "classes": CLASSES} | options
    return Annotations.from_triplets(*map(list, zip(*rows, strict=True)), **names)


@settings(deadline=None, max_examples=40)
@given(ROWS, st.permutations(ITEMS), st.permutations(PEOPLE), st.permutations(CLASSES))
def test_reindexed_annotations_equal_those_built_with_the_new_names(
    rows: list[tuple[str, str, str]], items: list[str], annotators: list[str], classes: list[str]
) -> None:
    numbers = {"weight": np.arange(len(rows)) + 1.0, "timestamp": np.arange(len(rows)) * 2.0}
    gold = {rows[0][0]: "emu"}
    found = build(rows, gold=gold, **numbers).reindexed(items=items, annotators=annotators, classes=classes)
    expected = build(rows, gold=gold, item_names=items, annotator_names=annotators, classes=classes, **numbers)
    assert found == expected
    assert found.reindexed(items=ITEMS, annotators=PEOPLE, classes=CLASSES) == build(rows, gold=gold, **numbers)


def test_reindexing_may_add_names_and_leaves_out_only_those_without_annotations() -> None:
    a = build([("x", "ann", "cat"), ("z", "bob", "dog")])
    found = a.reindexed(items=["z", "w", "x"])
    assert found.items.tolist() == ["z", "w", "x"]
    assert found.labels_per_item.tolist() == [1, 0, 1]
    with pytest.raises(InvalidAnnotationsError, match="1 of 2 items are not among the 1 given; the first is 'x'"):
        a.reindexed(items=["z"])
    with pytest.raises(InvalidAnnotationsError, match=r"(?s)2 problems:.*1 of 2 annotators.*1 of 2 labels"):
        a.reindexed(annotators=["ann"], classes=["cat", "emu"])
    with pytest.raises(InvalidAnnotationsError, match="1 of 2 labels are repeated"):
        a.reindexed(classes=["cat", "cat"])


def test_gold_is_given_back_by_name() -> None:
    assert build([("x", "ann", "cat")]).gold_by_name() == {}
    assert build([("x", "ann", "cat")], gold={"z": "dog", "x": "emu"}).gold_by_name() == {"x": "emu", "z": "dog"}


def test_merged_gold_of_one_item_must_agree() -> None:
    first, second = (build([("x", "ann", "cat")], gold={"x": name}) for name in ("cat", "dog"))
    assert first.concat(first).gold_by_name() == {"x": "cat"}
    with pytest.raises(InvalidAnnotationsError, match="item 'x' with 'cat' and then 'dog'"):
        first.concat(second)


def test_positions_follow_numpy_indexing() -> None:
    for index in (2, -1, slice(1, 3), slice(None, None, -1), [0, -1, 0], np.array([True, False, True, False])):
        assert item_positions(index, 4).tolist() == np.atleast_1d(np.arange(4)[index]).tolist()
    assert item_positions((slice(1, 2), ...), 4).tolist() == [1]  # as scikit-learn indexes


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, float("nan")])
def test_the_share_held_out_lies_between_zero_and_one(fraction: float) -> None:
    with pytest.raises(InvalidParameterError, match="between 0 and 1"):
        held_out_mask(10, fraction, 0)


def test_merged_annotations_without_numbers_have_what_stands_for_none() -> None:
    plain = build([("x", "ann", "cat")])
    full = build([("y", "ann", "dog")], weight=[0.5], duration=[3.0], timestamp=[7.0])
    merged = plain.concat(full)
    assert merged.weight.tolist() == [1.0, 0.5]
    for numbers, second in ((merged.duration, 3.0), (merged.timestamp, 7.0)):
        assert np.isnan(numbers[0])
        assert numbers[1] == second

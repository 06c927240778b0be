"""Columns of any kind, sorted by item, annotator, label, give the same container as plain Python would."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdprism.annotations import Annotations, building
from crowdprism.annotations.building import as_column, gold_by_item, one_of_repeats
from crowdprism.errors import InvalidAnnotationsError

CODES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40)


@settings(deadline=None, max_examples=40)
@given(CODES, st.booleans())
def test_rows_are_sorted_as_python_sorts_triplets(rows: list[tuple[int, int, int]], one_number: bool) -> None:
    item, annotator, label = (np.array(column) for column in zip(*rows, strict=True))
    names = {"item_names": range(6), "annotator_names": range(4), "classes": range(3)}
    with pytest.MonkeyPatch.context() as patch:
        if not one_number:  # too many names for one number per triplet
            patch.setattr(building, "INT64_MAX", 10)
        a = Annotations.from_triplets(item, annotator, label, **names)
    assert list(zip(a.item.tolist(), a.annotator.tolist(), a.label.tolist(), strict=True)) == sorted(rows)
    assert (a.annotator.dtype, a.label.dtype, a.item_start.dtype) == (np.int32, np.int16, np.int32)


@settings(deadline=None, max_examples=40)
@given(CODES, st.booleans())
def test_the_last_of_repeats_is_the_one_a_dict_would_keep(rows: list[tuple[int, int, int]], timed: bool) -> None:
    item, annotator, time = (np.array(column) for column in zip(*rows, strict=True))
    order = sorted(range(len(rows)), key=lambda row: (time[row] if timed else 0, row))
    kept = {(item[row], annotator[row]): row for row in order}
    assert one_of_repeats(item, annotator, time.astype(float) if timed else None, last=True).tolist() == sorted(
        kept.values()
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 2.0], np.array([1, 2])),
        (np.array([7.0]), np.array([7])),
        ([1.5, 2.0], np.array([1.5, 2.0])),
        (np.array([1e300]), np.array([1e300])),
        (np.array([2.0**63]), np.array([2.0**63])),
        (np.array([-(2.0**62)]), np.array([-(2**62)])),
        (range(2), range(2)),
        (iter("ab"), ["a", "b"]),
        (pl.Series([3, 4]), np.array([3, 4])),
    ],
)
def test_columns_of_any_kind_are_taken_and_whole_floats_become_ints(values: Any, expected: Any) -> None:
    found = as_column(values)
    assert type(found) is type(expected)
    assert list(found) == list(expected)
    assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)


def test_gold_is_collected_by_item_and_contradictions_are_named() -> None:
    assert gold_by_item(["x", "y", "x"], ["cat", None, "cat"]) == {"x": "cat"}
    assert gold_by_item(pl.Series(["x", "y"]), pl.Series(["cat", None])) == {"x": "cat"}
    with pytest.raises(InvalidAnnotationsError, match=r"1 of \d rows give an item another.*'x' with 'cat' and then"):
        gold_by_item(["x", "x"], ["cat", "dog"])

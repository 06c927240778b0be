"""Names are told apart exactly and stand in an order that does not depend on rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdprism.annotations import names as names_module
from crowdprism.annotations.names import (
    MANY_TEXTS,
    encode,
    in_order,
    is_missing,
    name_array,
    names_from_json,
    names_to_json,
    positions,
    same_arrays,
    same_names,
)
from crowdprism.errors import InvalidParameterError, ResultFormatError

settings.register_profile("quick", deadline=None, max_examples=40)
settings.load_profile("quick")


@given(st.lists(st.one_of(st.integers(), st.text(max_size=4)), min_size=1))
def test_encoding_is_a_lookup_back(values: list[Any]) -> None:
    names, codes = encode(values)
    assert names[codes].tolist() == values
    assert len(set(names.tolist())) == len(names)


@given(st.lists(st.integers(-50, 50), min_size=1), st.sampled_from([np.int8, np.int32, np.int64]))
def test_whole_numbers_are_encoded_in_order_whatever_their_width(values: list[int], dtype: Any) -> None:
    names, codes = encode(np.array(values, dtype=dtype))
    assert names.tolist() == sorted(set(values))
    assert names[codes].tolist() == values
    assert names.dtype == np.int64


@given(st.lists(st.text(max_size=20), min_size=1, max_size=60))
def test_texts_are_encoded_by_polars_as_by_a_dict(values: list[str]) -> None:
    names, codes = encode(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names_module, "MANY_TEXTS", 1)
        for column in (values, pl.Series(values, dtype=pl.String)):
            found, found_codes = encode(column)
            assert found.tolist() == names.tolist() == sorted(set(values))
            assert found_codes.tolist() == codes.tolist()
            assert not found.flags.writeable


@pytest.mark.parametrize("odd", ["plain", "\ud800"])
def test_many_texts_are_encoded_as_few_are(odd: str) -> None:
    values = [f"name {number * 7919 % 1000}" for number in range(MANY_TEXTS)] + [odd]
    names, codes = encode(values)
    assert names.tolist() == sorted(set(values))
    assert names[codes].tolist() == values


def test_names_that_cannot_be_compared_are_ordered_by_their_repr() -> None:
    assert in_order([(1, "a"), ("b", 2)]) == [("b", 2), (1, "a")]


def test_names_are_read_only_and_ints_only_where_all_are() -> None:
    assert name_array([1, 2]).dtype == np.int64
    assert name_array([1, 2**70]).dtype == object
    assert name_array([True, False]).dtype == object
    with pytest.raises(ValueError, match="read-only"):
        name_array(["a"])[0] = "b"


def test_positions_are_minus_one_where_there_is_no_such_name() -> None:
    assert positions(name_array(["a", "b"]), ["b", "c", "a"]).tolist() == [1, -1, 0]


def test_the_same_names_in_another_order_are_not_the_same() -> None:
    assert same_names(name_array([1, 2]), name_array([1, 2]))
    assert not same_names(name_array([1, 2]), name_array([2, 1]))


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), np.ma.masked])
def test_missing_values_are_known(value: Any) -> None:
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, "", "nan", False, -1])
def test_other_values_are_not_missing(value: Any) -> None:
    assert not is_missing(value)


@pytest.mark.parametrize(
    "names",
    [
        [3, -1],
        ["7", "é"],
        [True, False],
        [0.1, 1.5],
        [b"\xff"],
        [("a", (1, None))],
        [frozenset([1, "b"])],
        ["a", 1],
        [],
    ],
)
def test_names_come_back_from_json_with_their_types(names: list[Any]) -> None:
    record = json.loads(json.dumps(names_to_json(name_array(names))))
    again = names_from_json(record)
    assert again.tolist() == names
    assert [type(name) for name in again.tolist()] == [type(name) for name in names]


def test_names_that_json_cannot_hold_and_types_from_the_future_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="A name of type object cannot be saved"):
        names_to_json(name_array([object()]))
    with pytest.raises(ResultFormatError, match="Names of unknown type 'colour'"):
        names_from_json({"type": "colour", "values": []})


def test_arrays_are_compared_with_nan_equal_and_masked_entries_ignored() -> None:
    assert same_arrays(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    assert not same_arrays(np.array([1.0]), None)
    first, second = (np.ma.MaskedArray([hidden, 1], mask=[True, False]) for hidden in (5, 6))
    assert same_arrays(first, second)
    assert not same_arrays(first, np.ma.MaskedArray([5, 1], mask=[False, True]))


@pytest.mark.parametrize("form", ["few names", "a name that a sample misses", "names in runs"])
def test_long_columns_of_text_are_encoded_like_short_ones(form: str) -> None:
    place = np.arange(2 * MANY_TEXTS)
    number = {"few names": place % 7, "names in runs": place // 20}.get(form, np.where(place == 5, 99, place % 7))
    texts = [f"é{one}" for one in number.tolist()]
    names, codes = encode(pl.Series(texts))
    assert names.tolist() == sorted(set(texts))
    assert names[codes].tolist() == texts

"""Frames of every kind give the same annotations as plain columns, missing cells included."""

from __future__ import annotations

import uuid
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crowdprism.annotations import Annotations
from crowdprism.annotations.frames import columns_of_frame, frame_of_columns
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError

COLUMNS = {"item": ["x", "x", "y"], "annotator": [2, 1, 2], "label": ["cat", "dog", "cat"]}
MAKERS: list[Any] = [pl.DataFrame, pd.DataFrame, pa.table]


@pytest.mark.parametrize("make", MAKERS)
def test_every_kind_of_frame_gives_the_same_annotations(make: Any) -> None:
    frame = make({**COLUMNS, "gold": ["dog", "dog", None], "weight": [1.0, 2.0, 3.0]})
    expected = Annotations.from_triplets(*COLUMNS.values(), gold={"x": "dog"}, weight=[1, 2, 3])
    found = Annotations.from_frame(frame, gold="gold", weight="weight")
    assert found == expected
    assert type(found.to_frame()) is type(frame)


def test_categories_are_read_as_the_texts_or_numbers_they_stand_for() -> None:
    texts = pd.DataFrame(COLUMNS).astype({"label": "category"})
    assert Annotations.from_frame(texts) == Annotations.from_triplets(*COLUMNS.values())
    numbers = pd.DataFrame({**COLUMNS, "label": [7, 3, 7]}).astype({"label": "category"})
    assert Annotations.from_frame(numbers).classes.tolist() == [3, 7]
    enum = pl.DataFrame(COLUMNS).with_columns(pl.col("item").cast(pl.Enum(["y", "x"])))
    assert Annotations.from_frame(enum).items.tolist() == ["x", "y"]


@pytest.mark.parametrize("make", MAKERS)
def test_a_missing_cell_is_found_in_every_kind_of_frame(make: Any) -> None:
    for column, values in (("item", ["x", None, "y"]), ("annotator", [2, None, 2])):
        with pytest.raises(InvalidAnnotationsError, match=f"1 of 3 {column}s are missing; the first is in row 1"):
            Annotations.from_frame(make({**COLUMNS, column: values}))


def test_ids_read_as_floats_because_of_gaps_elsewhere_are_whole_numbers() -> None:
    frame = pd.DataFrame({"item": [1.0, 2.0], "annotator": ["a", "a"], "label": ["x", "y"]})
    assert Annotations.from_frame(frame).items.tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_names_without_a_column_type_are_written_as_text(kind: str) -> None:
    name = uuid.UUID(int=1)
    a = Annotations.from_triplets([name, name], ["a", "b"], [0, 1])
    assert columns_of_frame(a.to_frame(kind), {"item": "item"})[0]["item"][0] in (str(name),)
    assert a.to_frame("pandas")["item"].tolist() == [name, name]


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_whole_numbers_that_no_column_holds_are_written_as_text(kind: str) -> None:
    a = Annotations.from_triplets([-(2**63) - 1, 2**100, 5], ["a", "b", "b"], [0, 1, 1])
    found = columns_of_frame(a.to_frame(kind), {"item": "item"})[0]["item"]
    assert list(map(str, found)) == [str(-(2**63) - 1), "5", str(2**100)]


def test_an_unknown_kind_of_frame_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="Unknown kind of data frame 'excel'; known are polars"):
        frame_of_columns({"a": [1]}, "excel")

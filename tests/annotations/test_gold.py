"""Gold added to annotations: what each form means, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from crowdprism import Annotations
from crowdprism.errors import AlignmentWarning, InvalidAnnotationsError

LABELS = Annotations.from_triplets(["x", "x", "y", "z"], ["ann", "bob", "ann", "bob"], ["cat", "dog", "cat", "dog"])
GOLD = {"y": "dog", "x": "cat"}


@pytest.mark.parametrize(
    "given",
    [
        GOLD,
        pd.Series(GOLD),
        pd.DataFrame({"item": list(GOLD), "label": list(GOLD.values())}),
        pl.DataFrame({"item": list(GOLD), "gold": list(GOLD.values())}),
        pa.table({"item": list(GOLD), "answer": list(GOLD.values())}),
        list(GOLD.items()),
        np.array(list(GOLD.items())),
    ],
    ids=["mapping", "series", "pandas", "polars", "pyarrow", "pairs", "array"],
)
def test_every_form_of_gold_means_the_same(given: object) -> None:
    assert LABELS.with_gold(given).gold_by_name() == GOLD


def test_gold_is_merged_and_the_annotations_stay() -> None:
    added = LABELS.with_gold({"x": "cat"}).with_gold({"y": "dog", "x": "cat"})
    assert added.gold_by_name() == GOLD
    assert added.with_gold(None) == LABELS
    assert LABELS.gold is None


def test_items_without_a_label_are_no_gold() -> None:
    assert LABELS.with_gold({"x": "cat", "y": None, "z": float("nan")}).gold_by_name() == {"x": "cat"}


def test_gold_of_unknown_items_is_counted_and_the_first_is_named() -> None:
    with pytest.warns(AlignmentWarning, match=r"2 of 3 gold items .* first is 'u'"):
        added = LABELS.with_gold({"u": "cat", "x": "cat", "v": "dog"})
    assert added.gold_by_name() == {"x": "cat"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LABELS.with_gold(GOLD)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"u": "cat"}, r"None of the 1 gold items .* 'u'.*'x'"),
        ({"x": "cow", "y": "cat"}, r"1 of 2 gold labels are not among the 2 given; .* 'cow' for item 'x'.*classes="),
        ([("x", "cat"), ("x", "dog")], r"item 'x' with 'cat' and then 'dog'"),
        ({}, "gold is empty"),
        ([("x", "cat", 1)], r"pairs .* row 0"),
        (pl.DataFrame({"a": [1]}), r"columns item and gold or label"),
    ],
    ids=["unknown items", "outside the classes", "contradiction", "empty", "triples", "columns"],
)
def test_bad_gold_is_an_error_that_names_the_first(given: object, message: str) -> None:
    with pytest.raises(InvalidAnnotationsError, match=message):
        LABELS.with_gold(given)


def test_gold_that_contradicts_earlier_gold_is_an_error() -> None:
    with pytest.raises(InvalidAnnotationsError, match="another gold label"):
        LABELS.with_gold({"x": "cat"}).with_gold({"x": "dog"})

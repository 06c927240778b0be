"""Gold added to annotations, in every form that users have it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crowdprism as cp
from crowdprism import Annotations
from crowdprism.errors import AlignmentWarning, InvalidAnnotationsError, InvalidParameterError

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


TRUTH = {"x": "cat", "y": "dog", "z": "dog"}


@pytest.fixture(scope="module")
def result() -> cp.FitResult:
    votes = {"x": {"a": "cat", "b": "cat"}, "y": {"a": "dog", "b": "dog"}, "z": {"a": "cat", "b": "cat"}}
    return cp.make_aggregator("majority-vote").fit(cp.Annotations.from_dicts(votes)).result_


@pytest.mark.parametrize(
    "gold",
    [
        TRUTH,
        pd.Series(TRUTH),
        pd.Series(list(TRUTH.values())),
        pd.DataFrame({"item": list(TRUTH), "label": list(TRUTH.values())}),
        pl.DataFrame({"item": list(TRUTH), "gold": list(TRUTH.values())}),
        pl.Series(list(TRUTH.values())),
        np.array(list(TRUTH.values())),
        list(TRUTH.values()),
        list(TRUTH.items()),
    ],
)
def test_gold_may_come_in_any_form(result: cp.FitResult, gold) -> None:
    assert result.accuracy(gold) == pytest.approx(2 / 3)


def test_unknown_classes_are_left_out(result: cp.FitResult) -> None:
    assert result.accuracy(np.ma.MaskedArray(["cat", "dog", "dog"], mask=[False, False, True])) == 1.0
    assert result.accuracy([None, "dog", "dog"]) == 0.5


def test_an_array_of_another_length_is_refused(result: cp.FitResult) -> None:
    with pytest.raises(InvalidParameterError, match="2 entries for 3 items"):
        result.accuracy(["cat", "dog"])

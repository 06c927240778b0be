"""Accuracy against true classes in any form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import crowdprism as cp
from crowdprism.errors import InvalidParameterError

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

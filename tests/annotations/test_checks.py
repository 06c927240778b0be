"""Each rule tells what, how many, where first and what to do; several breaches come in one error."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from crowdprism.annotations import checks
from crowdprism.annotations.names import name_array
from crowdprism.errors import InvalidAnnotationsError


def test_nothing_is_raised_where_no_rule_is_broken() -> None:
    checks.require([None, None])


def test_one_breach_is_a_sentence_and_several_are_a_list() -> None:
    breach = checks.Breach("One is wrong.", "Mend it.")
    with pytest.raises(InvalidAnnotationsError, match=r"^file: One is wrong\. Mend it\.$"):
        checks.require([breach, None], "file")
    with pytest.raises(InvalidAnnotationsError, match=r"2 problems:\n  - One is wrong"):
        checks.require([breach, breach])


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ([1, None, 2, None], [1, 3]),
        (np.array([1.0, np.nan]), [1]),
        (np.array(["a", None], dtype=object), [1]),
        (pl.Series(["a", None, "b"]), [1]),
        (["a", float("nan")], [1]),
        (["a", "b"], []),
        (np.array([1, 2]), []),
    ],
)
def test_missing_rows_are_found_in_any_column(values: object, rows: list[int]) -> None:
    assert checks.missing_rows(values).tolist() == rows


def test_mixed_numpy_and_python_ints_are_one_type() -> None:
    assert checks.check_one_type([1, np.int64(2)], "item") is None
    assert checks.check_one_type([1, True], "item") is not None


def test_known_names_are_checked_by_code() -> None:
    breach = checks.check_known(np.array([0, -1, -1]), ["a", "x", "y"], name_array(["a", "b"]), "label")
    assert breach is not None
    assert "2 of 3 labels are not among the 2 given; the first is 'x' in row 1" in breach.problem
    assert "Given were 'a', 'b'." in breach.problem
    assert "correct the labels" in breach.remedy


def test_codes_must_fit_32_bits() -> None:
    assert checks.check_code_range(2**31 - 1, "item") is None
    breach = checks.check_code_range(2**31, "item")
    assert breach is not None
    assert "2147483648 items" in breach.problem

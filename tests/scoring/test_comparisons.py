from __future__ import annotations

import numpy as np
import pytest

from crowdprism.errors import InvalidAnnotationsError
from crowdprism.scoring import Comparisons


def test_the_winner_is_a_name_a_place_or_a_tie() -> None:
    found = Comparisons.from_columns(
        ["x", "x", "x", "x"], ["y", "y", "y", "y"], ["x", "Right", "model_a", "tie (bothbad)"]
    )
    assert found.outcome.tolist() == [0, 1, 0, 2]


def test_the_name_of_an_item_goes_before_a_word() -> None:
    found = Comparisons.from_columns(["b", "a"], ["a", "b"], ["a", "a"])
    assert found.outcome.tolist() == [1, 0]


def test_numbers_are_names_too() -> None:
    found = Comparisons.from_columns(np.array([1, 2]), np.array([2, 3]), [2, "tie"], [7, 8])
    assert found.outcome.tolist() == [1, 2]
    assert found.items.tolist() == [1, 2, 3]


def test_an_item_compared_with_itself_is_an_error_that_names_the_row() -> None:
    with pytest.raises(InvalidAnnotationsError, match=r"1 of 2 .* itself; the first is 'y' in row 1"):
        Comparisons.from_columns(["x", "y"], ["y", "y"], ["x", "y"])


def test_a_winner_that_was_not_compared_is_an_error_that_names_the_row() -> None:
    with pytest.raises(InvalidAnnotationsError, match=r"1 of 2 winners .* 'z' in row 1 .* 'x' and 'y'"):
        Comparisons.from_columns(["x", "x"], ["y", "y"], ["x", "z"])


def test_missing_winners_stop_or_are_counted() -> None:
    rows = (["x", "x", "x"], ["y", "y", "y"], ["x", "", None])
    with pytest.raises(InvalidAnnotationsError, match="2 of 3 comparisons have no winner; the first is row 1"):
        Comparisons.from_columns(*rows)
    found = Comparisons.from_columns(*rows, skip_missing=True)
    assert len(found) == 1
    assert found.n_skipped == 2


def test_nothing_but_missing_winners_is_an_error() -> None:
    with pytest.raises(InvalidAnnotationsError, match="None of the 1 comparisons has a winner"):
        Comparisons.from_columns(["x"], ["y"], [""], skip_missing=True)


@pytest.mark.parametrize("columns", [([], [], []), (["x"], ["y", "z"], ["x"])])
def test_columns_must_be_of_one_length_and_hold_something(columns: tuple[list[str], ...]) -> None:
    with pytest.raises(InvalidAnnotationsError):
        Comparisons.from_columns(*columns)


def test_the_name_of_an_item_that_was_not_shown_is_no_word() -> None:
    with pytest.raises(InvalidAnnotationsError, match=r"1 of 2 winners .* 'b' in row 1"):
        Comparisons.from_columns(["a", "a"], ["b", "c"], ["a", "b"])

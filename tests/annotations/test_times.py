"""Moments are seconds since 1970, however an export writes them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from crowdprism.annotations.times import common_dates_in_seconds, moment_in_seconds, seconds_since_1970
from crowdprism.errors import InvalidAnnotationsError


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (5, 5.0),
        ("2.5", 2.5),
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01 00:01:00 UTC", 60.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
        (dt.datetime(1970, 1, 2), 86400.0),
    ],
)
def test_moments_are_seconds_since_1970_in_utc(value: Any, seconds: float) -> None:
    assert moment_in_seconds(value) == seconds
    assert np.isnan(moment_in_seconds(None))
    assert np.isnan(moment_in_seconds(""))


def utc(*parts: int) -> float:
    return dt.datetime(*parts, tzinfo=dt.UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("3/1/2024 10:00:00", (2024, 3, 1, 10)),
        ("3/1/2024", (2024, 3, 1)),
        ("03-01-24 9:05", (2024, 3, 1, 9, 5)),
        ("3/1/2024, 12:30 AM", (2024, 3, 1, 0, 30)),
        ("3/1/2024 12:30:15 p.m.", (2024, 3, 1, 12, 30, 15)),
        ("1.3.2024 10:00", (2024, 3, 1, 10)),
        ("2024/03/01 10:00 UTC", (2024, 3, 1, 10)),
    ],
)
def test_common_dates_are_read(text: str, moment: tuple[int, ...]) -> None:
    assert common_dates_in_seconds([text]).tolist() == [utc(*moment)]


def test_a_day_above_twelve_shows_that_days_come_first() -> None:
    assert common_dates_in_seconds(["3/1/2024", "31/1/2024"]).tolist() == [utc(2024, 1, 3), utc(2024, 1, 31)]
    assert common_dates_in_seconds(["3/1/2024", "1/31/2024"]).tolist() == [utc(2024, 3, 1), utc(2024, 1, 31)]


def test_what_is_no_date_is_counted_and_named() -> None:
    assert np.isnan(common_dates_in_seconds(["13/13/2024", "soon", "1/2/3/4"])).all()
    with pytest.raises(InvalidAnnotationsError, match=r"1 of 3 timestamps.*'soon' in row 2"):
        seconds_since_1970(np.array(["3/1/2024", "2024-01-01", "soon"], dtype=object))

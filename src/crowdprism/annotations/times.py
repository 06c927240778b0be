"""Moments as exports write them: numbers, datetimes, ISO 8601, and the dates of American and European tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations.names import is_missing, plain
from crowdprism.errors import InvalidAnnotationsError

COMMON_DATE = re.compile(
    r"(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})"
    r"(?:[ T,]+(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*([ap]\.?m\.?)?)?\s*(?:utc|gmt|z)?",
    re.IGNORECASE,
)
CENTURY = 2000  # of years with two digits


def seconds_since_1970(values: NDArray[Any]) -> NDArray[np.float64]:
    """Seconds of datetimes, ISO 8601 text (with or without zone) or common dates; missing becomes NaN."""
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)
    seconds = np.full(len(values), np.nan)
    other: list[int] = []
    for row, value in enumerate(values.tolist()):
        try:
            seconds[row] = moment_in_seconds(value)
        except (ValueError, OverflowError):
            other.append(row)
    seconds[other] = common_dates_in_seconds([str(values[row]).strip() for row in other])
    broken = [row for row in other if np.isnan(seconds[row])]
    if broken:
        raise InvalidAnnotationsError(
            f"{len(broken)} of {len(values)} timestamps are neither numbers nor dates; the first is "
            f"{plain(values[broken[0]])!r} in row {broken[0]}. Correct them or leave the column out."
        )
    return seconds


def moment_in_seconds(value: Any) -> float:
    """Seconds since 1970 of a number, a datetime or ISO 8601 text; without zone it is UTC. NaN where missing."""
    if is_missing(value) or value == "":
        return float("nan")
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, datetime):
        moment = value
    else:
        text = str(value).strip().replace(" UTC", "+00:00")
        try:
            return float(text)
        except ValueError:
            moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def common_dates_in_seconds(texts: Sequence[str]) -> NDArray[np.float64]:
    """(n,) seconds of dates, NaN for other texts; months first, unless there is a dot or any day above 12 is first."""
    found = [COMMON_DATE.fullmatch(text) for text in texts]
    day_first = any(match is not None and 12 < int(match[1]) <= 31 for match in found)
    return np.array([np.nan if match is None else date_in_seconds(match, day_first=day_first) for match in found])


def date_in_seconds(match: re.Match[str], *, day_first: bool) -> float:
    """Seconds since 1970 of one date, or NaN where there is no such day."""
    first, separator, second, third, hour, minute, second_of_minute, half = match.groups()
    if len(first) == 4:
        year, month, day = first, second, third
    elif day_first or separator == ".":
        day, month, year = first, second, third
    else:
        month, day, year = first, second, third
    hours = int(hour or 0)
    if half:
        hours = hours % 12 + (12 if half[0] in "pP" else 0)
    try:
        midnight = datetime(int(year) + (CENTURY if len(year) <= 2 else 0), int(month), int(day), tzinfo=UTC)
    except ValueError:
        return float("nan")
    time = timedelta(hours=hours, minutes=int(minute or 0), seconds=float(second_of_minute or 0))
    return (midnight + time).timestamp()

"""The options of a report, which every way to a report shares."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from datetime import datetime

import pytest

import crowdprism as cp
from crowdprism.formats.item_content import ItemContent
from crowdprism.report import ReportOptions, report_page

MADE = datetime(2026, 1, 2, 3, 4)
GIVEN = {
    "comparison": [{"method": "glad", "held-out": -0.25}],
    "comparison_note": "Take glad.",
    "command": "crowdprism aggregate labels.csv",
    "examine": False,
    "made": MADE,
    "source": "reviews.csv",
    "content": ItemContent(("text",), {place: {"text": f"text of {place}"} for place in range(4)}),
}


def test_every_option_reaches_the_page() -> None:
    assert set(GIVEN) == {field.name for field in fields(ReportOptions)}
    a = cp.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, -1]])
    result = cp.make_aggregator("majority-vote").fit(a).result_
    page = report_page(result, a, **GIVEN)
    for text in (
        "-0.250",
        "Take glad.",
        "crowdprism aggregate labels.csv",
        "2026-01-02 03:04",
        "reviews.csv",
        "text of 3",
    ):
        assert text in page
    assert 'id="identifiability"' not in page
    assert 'id="identifiability"' in report_page(result, a)


def test_an_unknown_option_is_an_error() -> None:
    result = cp.make_aggregator("majority-vote").fit([[0, 1], [1, 1]]).result_
    with pytest.raises(TypeError, match="colour"):
        report_page(result, colour="blue")


def test_options_cannot_change_once_chosen() -> None:
    with pytest.raises(FrozenInstanceError):
        ReportOptions().command = "other"  # type: ignore[misc]

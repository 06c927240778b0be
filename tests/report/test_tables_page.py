from __future__ import annotations

from crowdprism.report.tables_page import BAR, PageTable, Span, tables_page


def test_intervals_share_the_scale_of_their_table() -> None:
    table = PageTable("", ["a", "b"], [["x", Span(0.0, 1.0, 2.0)], ["y", Span(1.0, 3.0, 4.0)]])
    assert table.cells()[0][1] == {"low": 0.0, "value": BAR / 4, "high": BAR / 2}
    assert table.cells()[1][1]["high"] == BAR


def test_numbers_are_rounded_and_unknown_ones_left_blank() -> None:
    assert PageTable("", ["a"], [["x", 0.12345, float("nan"), 3]]).cells() == [["x", "0.123", "", "3"]]


def test_empty_tables_are_left_out_and_names_are_escaped() -> None:
    page = tables_page(
        "<i>", eyebrow="", lines=["<b>"], tables=[PageTable("none", ["a"], []), PageTable("one", ["a"], [["<u>"]])]
    )
    assert "none" not in page.split("</style>")[1].split("<main")[1].split("eyebrow")[0]
    assert ">none<" not in page
    assert "<i>" not in page
    assert "<b>" not in page
    assert "<u>" not in page

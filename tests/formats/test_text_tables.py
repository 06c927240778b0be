"""Rows and cells of text tables are those of Python's csv module, whichever parser reads them."""

from __future__ import annotations

import csv

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.text_tables import (
    TableText,
    column_names,
    csv_rows,
    is_regular,
    n_rows,
    parse_regular,
    read_table,
    table_text,
    text_numbers,
)


@pytest.mark.parametrize(
    ("text", "regular"),
    [
        ("a,b\n1,2\n", True),
        ("a,b\r\n1,2\r\n", True),
        ('a,b\n"1, 2","x ""y"""\n', True),
        ('a,b\n"x\ry",2', True),
        ("a,b\nx\ry,2\n", False),
        ('a,b\n5" disk,2\n', False),
        ('a,b\n"x"y,2\n', False),
        ('a,b\n"x\n', False),
    ],
)
def test_a_table_is_regular_where_quotes_enclose_whole_cells(text: str, regular: bool) -> None:
    assert is_regular(text.encode(), ",") is regular


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.text(st.sampled_from('a1,\n"\r '), max_size=25))
def test_a_regular_table_has_the_rows_of_the_csv_module(body: str) -> None:
    text = "h,i\n" + body
    if not is_regular(text.encode(), ","):
        return
    rows = list(csv.reader((line + "\n" for line in text.removesuffix("\n").split("\n")), strict=True))
    frame = parse_regular(text.encode(), ",")
    assert n_rows(text.encode()) == len(rows)
    if frame is None:
        assert any(len(row) > 2 for row in rows)
    else:
        assert [[cell or "" for cell in row] for row in frame.rows()] == [row + [""] * (2 - len(row)) for row in rows]


def test_both_parsers_give_the_same_frame() -> None:
    text = 'a,b\n1,"x ""y"""\n\n"two\nlines",\n3\n'
    by_csv = [tuple(row) for row in csv_rows(text, ",", "x", 1)]
    by_polars = parse_regular(text.encode(), ",")
    assert by_polars is not None
    assert [tuple(cell or "" for cell in row) for row in by_polars.rows()] == by_csv[:-1]  # csv sees an empty last line
    assert read_table(TableText(text.encode(), 1), ",", "x").rows() == [("1", 'x "y"'), ("two\nlines", ""), ("3", "")]


def test_errors_name_the_line_of_the_file() -> None:
    with pytest.raises(UnreadableFileError, match="line 12 has 3 cells where the header has 2"):
        read_table(TableText(b"a,b\n1,2\n1,2,3\n", 10), ",", "x")
    with pytest.raises(UnreadableFileError, match="carriage return within a row in line 2"):
        read_table(TableText(b"a,b\n1,2\r3\n", 1), ",", "x")


def test_repeated_column_names_get_an_ending() -> None:
    assert column_names(["a", "b", "a", " a", ""]) == ["a", "b", "a_duplicated_0", "a_duplicated_1", ""]
    assert column_names(["a", "a_duplicated_0", "a"]) == ["a", "a_duplicated_0", "a_duplicated_1"]
    frame = read_table(TableText(b"a,a\n1,2\n", 1), ",", "x")
    assert frame.to_dicts() == [{"a": "1", "a_duplicated_0": "2"}]


def test_numbers_are_read_with_either_decimal_sign() -> None:
    assert text_numbers(pl.Series(["0,5", "1.234,25", "7"])).to_list() == [0.5, 1234.25, 7.0]
    assert text_numbers(pl.Series(["1,234.5", "2"])).to_list() == [1234.5, 2.0]


def test_blank_lines_before_the_header_are_counted_and_left_out() -> None:
    assert table_text(b"\n\nitem,label\n") == (b"item,label\n", 3)

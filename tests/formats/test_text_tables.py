"""Text tables: rows, cells, numbers, and cells that no spreadsheet runs."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crowdprism as cp
from crowdprism.errors import UnreadableFileError
from crowdprism.formats.text_tables import (
    MARKER,
    TableText,
    as_written,
    column_names,
    columns_as_written,
    csv_rows,
    decode,
    inert,
    is_regular,
    n_rows,
    parse_regular,
    read_table,
    sample_rows,
    table_text,
    text_numbers,
    write_csv,
)
from crowdprism.formats.write import write_annotations


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


PAYLOADS = [
    *("=1+1", "+1-800", "-cmd", "@SUM(A1)", "=cmd|' /C calc'!A0", "\t=1", "\r=1", "\n=1", "\x0b=1", " =1", "  -x"),
    *("\xa0=1", "\u200b=1", "\u3000@x", "\ufeff=1", "\uff1d1", "\uff0bx", "\uff0dx", "\uff20x", "'=1", "''=1", "'-3"),
    *("cat\r=1+1", "cat\n=1+1", "a;=1+1", "a\t=1", "a|=1", 'a"=1', 'a",=1', "'tis", "-3", "+2.5e3", "plain"),
]


def would_run(cell: str) -> bool:
    """An independent rule: the first visible character starts a formula, and the cell is no number."""
    try:
        float(cell)
        return False
    except ValueError:
        first = cell.lstrip(" \t\r\n\x0b\x0c\xa0\u200b\u3000\ufeff")[:1]
        return first != "" and first in "=+-@\uff1d\uff0b\uff0d\uff20"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_cell_runs_and_every_cell_is_read_back(payload: str) -> None:
    file = io.StringIO(newline="")
    write_csv(file, {"item": [payload, "x"], "label": ["yes", payload]})
    rows = list(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert not any(would_run(cell) for row in rows for cell in row)
    back = [[as_written(cell) if MARKER in rows[0] else cell for cell in row[:2]] for row in rows]
    assert back == [["item", "label"], [payload, "yes"], ["x", payload]]


@given(st.text(alphabet="'=+-@ \t\r\x0b\xa0\uff1d1a.e", max_size=6))
@settings(deadline=None, derandomize=True)
def test_the_rule_can_be_undone_for_any_text(text: str) -> None:
    written = inert(text)
    assert (as_written(written) if written != text else text) == text
    assert not would_run(written)


@pytest.mark.parametrize(
    ("ending", "format"), [("csv", "csv"), ("tsv", "tsv"), ("csv", "wide-csv"), ("csv", "crowd-kit")]
)
def test_annotations_are_read_back_with_the_same_names(ending: str, format: str, tmp_path: Path) -> None:
    n = len(PAYLOADS)
    a = cp.Annotations.from_triplets(PAYLOADS * 2, ["=ann"] * n + ["bob"] * n, ["+yes", "no"] * n)
    path = write_annotations(a, tmp_path / f"x.{ending}", format=format)
    assert cp.read_annotations(path) == a


def test_a_quote_in_a_file_of_others_stays(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("item,annotator,label\n'=1,ann,a\n'x,ann,b\n")
    assert cp.read_annotations(tmp_path / "x.csv").items.tolist() == ["'=1", "'x"]


def test_plain_tables_have_no_further_column() -> None:
    file = io.StringIO()
    write_csv(file, {"item": ["a", "-3"], "share": [0.5, None]})
    assert file.getvalue() == "item,share\na,0.5\n-3,\n"


def test_formulas_get_a_quote_that_reading_takes_away() -> None:
    texts = ["=cmd|' /C calc'!A0", "-3", "cat", "'=1", "'tis"]
    assert [inert(text) for text in texts] == ["'=cmd|' /C calc'!A0", "-3", "cat", "''=1", "'tis"]
    assert [as_written(inert(text)) for text in texts] == texts


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a;b\n1,5;2\n2,5;3\n", ";"),  # the same number of cells in every row counts for more than commas
        ("a,b,c;d\n1,2,3;4\n", ","),
        ("a|b,c\n1|2\n3|4\n", "|"),
        ("a\n1\n2\n", ","),
        ("a b\n1 2\n", " "),
    ],
)
def test_the_delimiter_is_the_one_that_gives_even_rows_of_most_cells(text: str, delimiter: str) -> None:
    assert sample_rows(text, "file")[0] == delimiter


@pytest.mark.parametrize(("data", "line"), [(b"\xff", 1), (b"a,b\nc,d\ne,\xff", 3), (b"a\n\xff\nb\n", 2)])
def test_bytes_that_are_no_text_are_told_with_their_line(data: bytes, line: int) -> None:
    with pytest.raises(UnreadableFileError, match=f"byte 0xff in line {line} "):
        decode(data, "x")


def test_named_columns_lose_their_quotes_only_in_a_table_that_was_escaped() -> None:
    frame = pl.DataFrame({"'=a": ["'=1", "b"]})
    assert columns_as_written(frame).equals(frame)
    escaped = columns_as_written(frame.with_columns(pl.lit("").alias(MARKER)))
    assert escaped.to_dict(as_series=False) == {"=a": ["=1", "b"]}

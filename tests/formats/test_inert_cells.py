"""Cells that no spreadsheet runs, read back as they were by us, and left alone in files of others."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crowdprism as cp
from crowdprism.formats.inert_cells import MARKER, as_written, inert, write_csv
from crowdprism.formats.write import write_annotations

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

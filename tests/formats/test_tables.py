"""Tables are read by their columns, as Python's own csv module reads them."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_files import TRIPLETS, triplets, write_table

from crowdprism.annotations import Annotations, names
from crowdprism.annotations.names import MANY_TEXTS
from crowdprism.errors import UnreadableFileError
from crowdprism.formats import read_annotations, read_annotations_with_report
from crowdprism.formats.tables import MISSING_LABELS, missing_cells


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (["item", "annotator", "label"], "long"),
        (["task", "worker", "label"], "crowd-kit"),
        (["taskId", "workerId", "answer"], "netease-crowd"),
        (["example", "annotator", "value"], "spark-crowd"),
        (["task", "annotator", "label"], "cleanlab"),
        (["Question ID", "Rater", "Response"], "long"),
    ],
)
@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_long_tables_are_known_by_their_columns(tmp_path: Path, header: list[str], name: str, delimiter: str) -> None:
    path = write_table(tmp_path / "x.txt", header, [list(row) for row in TRIPLETS], delimiter)
    annotations, report = read_annotations_with_report(path)
    assert triplets(annotations) == TRIPLETS
    assert report.format == name
    assert list(report.columns.values()) == header


def test_ids_with_leading_zeros_stay_text(tmp_path: Path) -> None:
    rows = [["007", 1, "yes"], ["7", 1, "no"]]
    a = read_annotations(write_table(tmp_path / "x.csv", ["item", "annotator", "label"], rows))
    assert a.items.tolist() == ["007", "7"]


def test_whole_floats_are_whole_numbers(tmp_path: Path) -> None:
    rows = [["1.0", "a", "0.0"], ["2.0", "a", "1.0"]]
    a = read_annotations(write_table(tmp_path / "x.csv", ["item", "annotator", "label"], rows))
    assert a.items.tolist() == [1, 2]
    assert a.classes.tolist() == [0, 1]


def test_further_columns_become_weight_time_and_gold(tmp_path: Path) -> None:
    header = ["item", "annotator", "label", "weight", "duration", "timestamp", "gold"]
    rows = [
        [1, "a", "yes", 0.5, 2.5, "2026-01-02T10:00:00Z", "no"],
        [1, "b", "no", 1, "", "2026-01-02T10:00:01Z", "no"],
        [2, "a", "no", 2, 1, "", ""],
    ]
    a = read_annotations(write_table(tmp_path / "x.csv", header, rows))
    assert a.weight is not None
    assert a.weight.tolist() == [0.5, 1, 2]
    assert a.duration is not None
    assert a.timestamp is not None
    assert np.isnan(a.duration).tolist() == [False, True, False]
    assert a.timestamp[1] - a.timestamp[0] == 1
    assert np.isnan(a.timestamp[2])
    assert a.gold is not None
    assert a.classes[a.gold[0]] == "no"
    assert np.ma.getmaskarray(a.gold).tolist() == [False, True]


def test_rows_whose_status_says_so_are_skipped_and_counted(tmp_path: Path) -> None:
    rows = [[1, "a", "yes", "approved"], [1, "b", "no", "Rejected"], [2, "a", "no", "ok"], [2, "b", "no", "rejected"]]
    path = write_table(tmp_path / "x.csv", ["item", "annotator", "label", "status"], rows)
    a, report = read_annotations_with_report(path)
    assert a.n_annotations == 2
    assert report.skipped["status rejected"].count == 2
    assert report.skipped["status rejected"].first.endswith("line 3")
    assert read_annotations(path, include_rejected=True).n_annotations == 4


@pytest.mark.parametrize("marker", ["", "-1", "NaN", "None", "?"])
def test_a_wide_table_holds_nothing_where_a_cell_is_missing(tmp_path: Path, marker: str) -> None:
    cells = {
        (item, annotator): code for item, annotator, code in [(7, 3, 0), (7, 5, 1), (8, 3, 1), (8, 4, 1), (9, 5, 0)]
    }
    rows = [[item, *(cells.get((item, annotator), marker) for annotator in (3, 4, 5))] for item in (7, 8, 9)]
    a, report = read_annotations_with_report(write_table(tmp_path / "x.csv", ["", "3", "4", "5"], rows))
    assert report.format == "wide"
    assert triplets(a) == [(item, annotator, code) for (item, annotator), code in cells.items()]


def test_a_matrix_without_header_is_numbered_from_zero(tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text("0 -1 1\n1 1 -1\n-1 -1 -1\n-1 -1 0\n")
    a, report = read_annotations_with_report(tmp_path / "answers.txt")
    assert report.format == "matrix"
    assert a == Annotations.from_dense([[0, -1, 1], [1, 1, -1], [-1, -1, -1], [-1, -1, 0]])


def test_numbers_in_a_header_are_names_of_annotators(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("0,1,2\n1,1,\n0,,1\n")
    a = read_annotations(tmp_path / "wide.csv")
    assert triplets(a) == [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 2, 1)]


def test_the_raw_answers_of_cifar10h_lose_their_attention_checks(tmp_path: Path) -> None:
    header = ["annotator_id", "chosen_label", "true_label", "is_attn_check", "reaction_time", "cifar10_test_test_idx"]
    rows = [[0, 3, 3, 0, 1500, 11], [0, 9, 1, 1, 700, -99999], [1, 5, 3, 0, 2500, 11], [1, 5, 5, 0, 800, 12]]
    a, report = read_annotations_with_report(write_table(tmp_path / "cifar10h-raw.csv", header, rows))
    assert report.format == "cifar10h"
    assert triplets(a) == [(11, 0, 3), (11, 1, 5), (12, 1, 5)]
    assert report.skipped["attention check"].count == 1
    assert report.skipped["attention check"].first.endswith("line 3")
    assert a.duration is not None
    assert a.duration.tolist() == pytest.approx([1.5, 2.5, 0.8])
    assert a.gold is not None
    assert a.classes[a.gold.filled(0)].tolist() == [3, 5]


# -- odd but valid tables, against Python's own csv module ------------------------------------------------------

CELL = st.one_of(
    st.text(
        st.characters(codec="utf-8", exclude_characters="\r\n\0", exclude_categories=["Cs"]), min_size=1, max_size=20
    ).filter(lambda cell: cell.strip().lower() not in MISSING_LABELS),
    st.integers(-20, 20).map(str),
    st.sampled_from(["item_0001", "two\nlines", 'say "no"', "a,b", "07", "1.0", "-0", "a-rather-long-name-of-an-item"]),
)
ROWS = st.lists(st.tuples(CELL, CELL, CELL), min_size=2, max_size=60)
ANY_TABLE = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


def plainly_read(text: str) -> list[tuple[Any, ...]]:
    """Sorted triplets by Python's csv module; a column is of whole numbers where Python writes every cell that way."""
    rows = [row for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")) if any(row)][1:]
    return sorted(zip(*map(typed, zip(*rows, strict=True)), strict=True))


def typed(column: tuple[str, ...]) -> tuple[Any, ...]:
    for ending in ("", ".0"):
        stems = [cell.removesuffix(ending) for cell in column]
        if all(stem + ending == cell and is_whole(stem) for stem, cell in zip(stems, column, strict=True)):
            return tuple(map(int, stems))
    return column


def is_whole(text: str) -> bool:
    try:
        return str(int(text)) == text and text.isascii()
    except ValueError:
        return False


def written(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


@ANY_TABLE
@given(
    st.lists(st.tuples(CELL, CELL, CELL), min_size=2, max_size=60).filter(
        lambda rows: len({row[2] for row in rows}) > 1
    ),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_table_is_read_as_by_the_csv_module(
    tmp_path: Path, rows: list[tuple[str, ...]], quoting: int, line_end: str
) -> None:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=quoting, lineterminator=line_end).writerows([["item", "annotator", "label"], *rows])
    path = written(tmp_path / "x.csv", buffer.getvalue())
    assert triplets(read_annotations(path)) == plainly_read(buffer.getvalue())


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        'item,annotator,label\n1,a,x\n2,b,"say ""no"""\n',
        'item,annotator,label\n1,a,x\n2,b,"two\nlines"\n',
        'item,annotator,label\n1,a,x\n2,b,"two\r\nlines"\n',
        'item,annotator,label\n"1","a, the first","x"\n"2","b","y"\n',
        "\ufeffitem,annotator,label\n1,a,x\n2,b,y\n",
        "item,annotator,label\r\n1,a,x\r\n2,b,y\r\n",
        "item,annotator,label\n1,a,x\n2,b,y",
        "item,annotator,label\n\n\n1,a,x\n\n2,b,y\n\n\n",
        "item,annotator,label\n1.0,a,x\n2.0,b,y\n10.0,b,y\n",
        "item,annotator,label\n01,a,x\n2,b,y\n",
        "item,annotator,label\n-1,a,x\n0,b,y\n10,b,y\n9,b,y\n",
        "item,annotator,label\nb,é,x\na,日本,y\nB,\U0001f600,z\n\uffff,e,z\n",
        "item,annotator,label\n1,a b, x\n1,a,x\n",
    ],
)
def test_odd_tables_are_read_as_by_the_csv_module(
    tmp_path: Path, content: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:  # encode by polars, as for millions of rows
        monkeypatch.setattr(names, "MANY_TEXTS", 1)
    assert triplets(read_annotations(written(tmp_path / "x.csv", content))) == plainly_read(content)


@pytest.mark.parametrize("kind", ["text", "numbers", "long text"])
def test_many_rows_in_any_order_are_read_as_by_the_csv_module(tmp_path: Path, kind: str) -> None:
    draws = np.random.default_rng(0)
    prefix = {"text": "item_", "numbers": "", "long text": "https://example.org/a/rather/long/path/"}[kind]
    items = [f"{prefix}{number}" for number in draws.integers(-50, 500, MANY_TEXTS)]
    labels = draws.choice(["cat", "dog", "émeu"], MANY_TEXTS).tolist()
    rows = zip(items, map(str, draws.integers(0, 30, MANY_TEXTS)), labels, strict=True)
    path = write_table(tmp_path / "x.csv", ["item", "annotator", "label"], [list(row) for row in rows])
    a = read_annotations(path)
    assert triplets(a) == plainly_read(path.read_text(encoding="utf-8"))
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_annotations(packed) == a


def test_missing_cells_are_found_whatever_their_case_and_padding() -> None:
    cells = pl.Series(["NaN", " na ", "", None, "nap", "x", "#N/A", "  ", "a long name"])
    assert missing_cells(cells, MISSING_LABELS).to_list() == [True, True, True, True, False, False, True, True, False]
    assert missing_cells(pl.Series([1.0, float("nan"), None]), MISSING_LABELS).to_list() == [False, True, True]
    assert missing_cells(pl.Series([1, None]), MISSING_LABELS).to_list() == [False, True]


def test_gold_of_many_rows_is_kept_by_item(tmp_path: Path) -> None:
    rows = [
        [item, annotator, "xy"[item % 2], "yx"[item % 2] if item else ""] for item in range(6) for annotator in "ab"
    ]
    a = read_annotations(write_table(tmp_path / "x.csv", ["item", "annotator", "label", "truth"], rows))
    assert a.gold_by_name() == {item: "yx"[item % 2] for item in range(1, 6)}


def long_rows(column: str, values: list[str]) -> str:
    """A long table with one more column."""
    rows = [f'{item},{person},{label},"{value}"' for (item, person, label), value in zip(TRIPLETS, values, strict=True)]
    return "\n".join([f"item,annotator,label,{column}", *rows, ""])


def test_american_dates_are_times(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(long_rows("created_at", [f"3/1/2024 10:00:0{second}" for second in range(5)]))
    a = read_annotations(tmp_path / "x.csv")
    assert a.timestamp is not None
    assert np.diff(np.sort(a.timestamp)).tolist() == [1.0] * 4


@pytest.mark.parametrize("column", ["created_at", "duration", "weight"])
def test_an_optional_column_that_cannot_be_read_is_a_note(tmp_path: Path, column: str) -> None:
    (tmp_path / "x.csv").write_text(long_rows(column, ["1", "2", "soon", "3", "4"]))
    a, report = read_annotations_with_report(tmp_path / "x.csv")
    assert triplets(a) == TRIPLETS
    assert any(repr(column) in note and "'soon'" in note for note in report.notes)
    assert [a.timestamp, a.duration, a.weight] == [None] * 3
    role = "timestamp" if column == "created_at" else column
    with pytest.raises(ValueError, match="soon"):
        read_annotations(tmp_path / "x.csv", **{role: column})


@pytest.mark.parametrize("values", [["0,5", "1,25", "2", "3,5", "1.234,5"], ["0.5", "1.25", "2", "3.5", "1,234.5"]])
def test_decimals_are_read_as_europe_and_america_write_them(tmp_path: Path, values: list[str]) -> None:
    (tmp_path / "x.csv").write_text(long_rows("duration", values))
    a = read_annotations(tmp_path / "x.csv")
    assert a.duration is not None
    assert sorted(a.duration.tolist()) == [0.5, 1.25, 2, 3.5, 1234.5]


def test_a_column_of_marks_is_no_gold(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(long_rows("golden", ["true", "true", "false", "false", "false"]))
    a, report = read_annotations_with_report(tmp_path / "x.csv")
    assert a.gold is None
    assert any("'golden' is not used as gold" in note for note in report.notes)


def test_a_column_of_decimals_is_guessed_to_be_the_label(tmp_path: Path) -> None:
    rows = [[f"a{item}", who, f"{item},{len(who)}"] for item in range(9) for who in ("ann", "robert")]
    path = write_table(tmp_path / "x.csv", ["Artikel", "Mensch", "Note"], rows)
    with pytest.raises(UnreadableFileError, match=r"Try: item='Artikel', annotator='Mensch', label='Note'$") as refused:
        read_annotations(path)
    assert "Known formats" not in str(refused.value)


def test_an_unknown_column_of_gold_gets_no_guess_that_would_fail_again(tmp_path: Path) -> None:
    path = write_table(tmp_path / "x.csv", ["item", "annotator", "label"], [list(one) for one in TRIPLETS])
    with pytest.raises(UnreadableFileError, match=r"no column 'truth' \(for gold\)") as refused:
        read_annotations(path, gold="truth")
    assert "Try:" not in str(refused.value)


def test_unknown_columns_end_with_a_guess(tmp_path: Path) -> None:
    rows = [[item, f"p{person}", label] for item, person, label in TRIPLETS]
    path = write_table(tmp_path / "x.csv", ["picture no", "who", "verdict"], rows)
    with pytest.raises(UnreadableFileError, match=r"Try: item='picture no', annotator='who', label='verdict'$"):
        read_annotations(path, label="kind")

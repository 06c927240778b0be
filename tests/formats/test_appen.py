"""Appen's full report: judgments, test questions as gold, tainted judgments."""

from __future__ import annotations

from pathlib import Path

import pytest

from crowdprism.errors import UnreadableFileError
from crowdprism.formats.read import read_annotations_with_report

HEADER = "_unit_id,_created_at,_golden,_id,_tainted,_trust,_worker_id,relevance,relevance_gold,query\n"
ROWS = [
    "1,12/4/2014 12:01:33,true,11,false,1,7,yes,yes,a",
    "1,12/4/2014 12:01:33,true,12,false,1,8,no,yes,a",
    "2,12/4/2014 12:01:33,false,13,false,1,7,no,,b",
    "2,12/4/2014 12:01:33,false,14,true,.4,9,yes,,b",
    '3,12/4/2014 12:01:33,true,15,false,1,8,no,"yes\nno",c',
]


def read(tmp_path: Path, text: str, **options):
    (tmp_path / "report.csv").write_text(text, encoding="utf-8")
    return read_annotations_with_report(tmp_path / "report.csv", **options)


def test_the_answer_of_a_test_question_is_gold_and_golden_is_no_class(tmp_path: Path) -> None:
    annotations, report = read(tmp_path, HEADER + "\n".join(ROWS) + "\n")
    assert report.format == "appen"
    assert annotations.gold_by_name() == {1: "yes"}
    assert annotations.classes.tolist() == ["no", "yes"]
    assert (annotations.n_annotations, report.n_rows, report.skipped["tainted"].count) == (4, 5, 1)
    assert annotations.timestamp.tolist() == [1417694493.0] * 4
    assert any("1 test questions accept several" in note for note in report.notes)


def test_tainted_judgments_count_on_request(tmp_path: Path) -> None:
    assert read(tmp_path, HEADER + "\n".join(ROWS) + "\n", include_rejected=True)[0].n_annotations == 5


def test_without_a_gold_column_there_is_no_gold(tmp_path: Path) -> None:
    text = "_unit_id,_golden,_worker_id,answer\n1,true,7,a\n1,true,8,b\n"
    assert read(tmp_path, text)[0].gold is None


def test_several_questions_are_an_error_that_lists_them(tmp_path: Path) -> None:
    text = "_unit_id,_golden,_worker_id,a,a_gold,b,b_gold\n1,false,7,x,,y,\n"
    with pytest.raises(UnreadableFileError, match=r"2 questions: 'a', 'b'.*label="):
        read(tmp_path, text)
    assert read(tmp_path, text + "1,true,8,z,z,y,\n", label="a")[0].gold_by_name() == {1: "z"}


def test_american_dates_of_the_report_are_times(tmp_path: Path) -> None:
    annotations, _ = read(tmp_path, HEADER + "\n".join(ROWS) + "\n")
    assert annotations.timestamp is not None
    assert annotations.timestamp.tolist() == [1417694493.0] * annotations.n_annotations


def test_odd_dates_do_not_stop_the_read(tmp_path: Path) -> None:
    annotations, report = read(tmp_path, HEADER + "\n".join(ROWS).replace("12/4/2014 12:01:33", "last week") + "\n")
    assert annotations.timestamp is None
    assert "timestamp" not in report.columns

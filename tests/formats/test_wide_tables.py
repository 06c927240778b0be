"""Wide tables and NumPy arrays of labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_files import triplets

from crowdprism.annotations import Annotations
from crowdprism.errors import UnreadableFileError
from crowdprism.formats import read_annotations, read_annotations_with_report

SHEET = """Item,Text,Ann,Bob,Cy,gold,Notes
1,the red one,cat,cat,dog,cat,blurry
2,the green one,dog,,dog,,
3,"a, b",cat,dog,dog,dog,look again
4,nothing,dog,dog,dog,,
"""


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    path = tmp_path / "sheet.csv"
    path.write_text(SHEET, encoding="utf-8")
    return path


def test_texts_and_notes_are_left_out_and_listed(sheet: Path) -> None:
    annotations, report = read_annotations_with_report(sheet, "wide")
    assert annotations.annotators.tolist() == ["Ann", "Bob", "Cy"]
    assert annotations.classes.tolist() == ["cat", "dog"]
    assert annotations.n_annotations == 11
    assert any("'Text', 'Notes'" in note for note in report.notes)


def test_a_gold_column_is_gold_and_its_blanks_are_no_class(sheet: Path) -> None:
    for options in ({}, {"gold": "gold"}):
        annotations = read_annotations(sheet, "wide", **options)
        assert annotations.gold_by_name() == {1: "cat", 3: "dog"}
        assert "" not in annotations.classes.tolist()


def test_annotators_can_be_chosen(sheet: Path) -> None:
    annotations = read_annotations(sheet, annotators=["Ann", "Cy"])
    assert annotations.annotators.tolist() == ["Ann", "Cy"]
    with pytest.raises(UnreadableFileError, match="no column 'Dan'"):
        read_annotations(sheet, annotators=["Dan"])


def test_a_gold_column_does_not_hide_that_a_table_is_wide(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("item,ann,bob,gold\n1,a,b,a\n2,b,b,\n")
    annotations, report = read_annotations_with_report(tmp_path / "x.csv")
    assert report.format == "wide"
    assert annotations.annotators.tolist() == ["ann", "bob"]
    assert annotations.gold_by_name() == {1: "a"}


def test_a_sheet_with_texts_is_refused_with_the_options_that_read_it(sheet: Path) -> None:
    with sheet.open("a", encoding="utf-8") as file:
        file.writelines(f"{row},text number {row},cat,dog,dog,,\n" for row in range(5, 60))
    with pytest.raises(UnreadableFileError, match=r"Try: format='wide', annotators='Ann,Bob,Cy'$"):
        read_annotations(sheet)
    assert read_annotations(sheet, format="wide", annotators=["Ann", "Bob", "Cy"]).n_items == 59


def test_columns_without_common_values_are_all_annotators(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("item,ann,bob\n1,a,c\n2,b,d\n")
    assert read_annotations(tmp_path / "x.csv").annotators.tolist() == ["ann", "bob"]


def test_numpy_files_hold_a_matrix_or_three_columns(tmp_path: Path) -> None:
    table = np.array([[0, -1, 1], [1, 1, -1], [-1, -1, 0]])
    expected = Annotations.from_dense(table)
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "b.npz", answers=table, gold=np.array([0, 1, 1]))
    item, annotator = np.nonzero(table >= 0)
    np.savez(tmp_path / "c.npz", item=item, annotator=annotator, label=table[item, annotator])
    assert read_annotations(tmp_path / "a.npy") == expected
    with_gold = read_annotations(tmp_path / "b.npz")
    assert triplets(with_gold) == triplets(expected)
    assert with_gold.gold is not None
    assert with_gold.gold.tolist() == [0, 1, 1]
    assert read_annotations(tmp_path / "c.npz") == expected

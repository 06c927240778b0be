"""Files are found, merged and checked, and the account says what happened."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_files import TRIPLETS, triplets, write_table

from crowdprism.formats import read_annotations, read_annotations_with_report


def test_a_file_per_annotator_is_named_by_the_file(tmp_path: Path) -> None:
    write_table(tmp_path / "ann.csv", ["item", "label"], [[1, "x"], [2, "y"]])
    write_table(tmp_path / "bob.csv", ["item", "label"], [[1, "y"]])
    a = read_annotations(tmp_path, annotator_from="filename")
    assert triplets(a) == [(1, "ann", "x"), (1, "bob", "y"), (2, "ann", "y")]


def test_columns_can_be_named(tmp_path: Path) -> None:
    header = ["annotator", "label", "who", "what", "which"]
    path = write_table(tmp_path / "x.csv", header, [["-", "-", w, label, i] for i, w, label in TRIPLETS])
    assert triplets(read_annotations(path, item="which", annotator="who", label="what")) == TRIPLETS


def test_files_of_a_folder_that_are_no_annotations_are_named(tmp_path: Path) -> None:
    write_table(tmp_path / "annotations.csv", ["item", "annotator", "label"], [list(row) for row in TRIPLETS])
    write_table(tmp_path / "gold.csv", ["item", "label"], [[7, "cat"], [8, "dog"]])
    a, report = read_annotations_with_report(tmp_path)
    assert triplets(a) == TRIPLETS
    assert [Path(name).name for name in report.left_out_files] == ["gold.csv"]


def test_the_account_of_a_reading_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_table(tmp_path / "x.csv", ["task", "worker", "label"], [list(row) for row in TRIPLETS])
    with caplog.at_level("INFO", logger="crowdprism"):
        read_annotations(path)
    assert "read as crowd-kit; 5 annotations from 5 rows" in caplog.text
    assert "annotator <- worker" in caplog.text

"""Files of every kind become annotations; their format is told by content."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_files import TRIPLETS, triplets, write_table

from crowdprism.formats import read_annotations, read_annotations_with_report
from crowdprism.formats.documents import Document
from crowdprism.formats.raw_annotations import ReadingOptions
from crowdprism.formats.read import FORMATS, detect_format, unknown_format


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


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("task,worker,label\n1,a,x\n", "crowd-kit"),
        ("task,annotator,label\n1,a,x\n", "cleanlab"),
        ("unit,judge,vote\n1,a,x\n", "long"),
        ("HITId,WorkerId,Answer.x\n1,a,x\n", "mturk"),
        ("INPUT:x\tOUTPUT:y\n1\t2\n", "toloka"),
        ("0 1 -1\n1 1 0\n", "matrix"),
        ("item,p1,p2\n7,x,y\n", "wide"),
        ('{"7": {"ann": "cat"}}', "peerannot"),
        ("a,b\n1,2\n", None),
    ],
)
def test_the_content_says_the_format(content: str, name: str | None) -> None:
    assert detect_format(Document("x", data=content.encode())) == name


def test_named_columns_make_a_long_table_of_what_has_other_names() -> None:
    options = ReadingOptions(columns={"label": "other"})
    assert detect_format(Document("x", data=b"task,worker,label,other\n1,a,x,y\n", options=options)) == "long"


def test_what_fits_no_format_is_described_with_the_columns_it_lacks() -> None:
    found = str(unknown_format(Document("x.csv", data=b"item,who,label\n1,a,x\n")))
    for part in ("'item', 'who', 'label'", "no column for annotator", "annotator=...", *FORMATS):
        assert part in found


def test_every_format_describes_itself() -> None:
    assert all(one.description and callable(one.read) for one in FORMATS.values())

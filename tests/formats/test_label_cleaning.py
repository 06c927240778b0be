from __future__ import annotations

from pathlib import Path

import pytest

from crowdprism.errors import InvalidAnnotationsError, UnreadableFileError
from crowdprism.formats import read_annotations_with_report

ROWS = "item,annotator,label\n1,ann,yes\n1,bob,Unsure\n2,ann,no\n2,bob,n/a\n"


def test_answers_that_are_no_label_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(ROWS)
    found, report = read_annotations_with_report(path, skip_label=["unsure", "N/A"])
    assert found.classes.tolist() == ["no", "yes"]
    assert found.n_annotations == 2
    assert report.skipped["answered 'Unsure', 'n/a'"].count == 2


def test_nothing_but_unsure_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("item,annotator,label\n1,ann,unsure\n1,bob,Unsure\n")
    with pytest.raises(InvalidAnnotationsError, match="all 2 answers are to be skipped"):
        read_annotations_with_report(path, skip_label=["unsure"])


def test_spellings_of_a_class_are_noticed_and_joined_on_request(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(
        "item,annotator,label,gold\n1,a,Negative,NEGATIVE\n1,b,negative,\n1,c,negative ,\n2,a,pos,\n2,b,negative,\n"
    )
    found, report = read_annotations_with_report(path)
    assert found.n_classes == 4
    assert any("'Negative', 'negative', 'negative '" in note and "--fold-classes" in note for note in report.notes)
    found, report = read_annotations_with_report(path, fold_classes=True)
    assert "negative" in found.classes.tolist()
    assert "Negative" not in found.classes.tolist()
    assert any("joined" in note for note in report.notes)


def test_strings_taken_as_missing_are_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("item,annotator,label\n1,ann,yes\n1,bob,NA\n2,ann,no\n2,bob,nan\n")
    with pytest.raises(UnreadableFileError, match="'NA', 'nan' counts as missing"):
        read_annotations_with_report(path)
    _, report = read_annotations_with_report(path, skip_missing=True)
    assert "'NA', 'nan' counts as a missing label" in report.notes


@pytest.mark.parametrize(("repeats", "expected"), [("first", "no"), ("last", "yes")])
def test_of_repeated_answers_the_first_or_the_last_is_kept(tmp_path: Path, repeats: str, expected: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("item,annotator,label\n1,ann,no\n1,ann,yes\n2,ann,no\n2,bob,yes\n")
    found, report = read_annotations_with_report(path, repeats=repeats)  # type: ignore[arg-type]
    assert found.n_annotations == 3
    assert found.classes[found[0].label].tolist() == [expected]
    assert sum(skip.count for skip in report.skipped.values()) == 1


def test_an_order_of_the_classes_is_kept_and_must_be_complete(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("item,annotator,label\n1,ann,low\n1,bob,high\n2,ann,medium\n")
    found, _ = read_annotations_with_report(path, classes=["low", "medium", "high"], classes_ordered=True)
    assert found.classes_ordered
    assert found[:1].classes_ordered
    with pytest.raises(InvalidAnnotationsError, match="'medium' by annotator 'ann' on item 2"):
        read_annotations_with_report(path, classes=["low", "high"], classes_ordered=True)
    with pytest.raises(InvalidAnnotationsError, match="low"):
        read_annotations_with_report(path, classes=["low", "medium", "high", "low"], classes_ordered=True)

"""What readers hand over: columns put together, texts typed, answers cleaned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from crowdprism.errors import InvalidAnnotationsError, UnreadableFileError
from crowdprism.formats import read_annotations_with_report
from crowdprism.formats.raw_annotations import (
    N_FIRST,
    RawAnnotations,
    ReadingOptions,
    ReadingReport,
    Skipped,
    joined,
    merged,
    whole_numbers_together,
)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-20", "0"], [1, -20, 0]),
        (["1.0", "2.0"], [1, 2]),
        (["1", "2.0"], ["1", "2.0"]),
        (["007", "7"], ["007", "7"]),
        (["+1", "2"], ["+1", "2"]),
        (["9" * 18, "1"], [int("9" * 18), 1]),
        (["9" * 19, "1"], ["9" * 19, "1"]),
        (["\u0661", "2"], ["\u0661", "2"]),
        ([*["1"] * N_FIRST, "x"], [*["1"] * N_FIRST, "x"]),
    ],
)
def test_texts_are_whole_numbers_only_where_every_one_is_written_so(texts: list[str], expected: list[Any]) -> None:
    for column in (texts, pl.Series(texts)):
        assert list(whole_numbers_together(column)[0]) == expected


def test_columns_that_belong_together_are_typed_together() -> None:
    labels, gold = whole_numbers_together(["1", "2"], ["two"])
    assert list(labels) == ["1", "2"]
    assert list(gold) == ["two"]
    labels, nothing, gold = whole_numbers_together(["1", "2"], None, [])
    assert (list(labels), nothing, list(gold)) == ([1, 2], None, [])
    assert whole_numbers_together([0, 1]) == [[0, 1]]  # positions of a matrix are numbers already


def raw(label: list[Any], **numbers: Any) -> RawAnnotations:
    found = RawAnnotations({"item": "i"}, is_text=False)
    for place, one in enumerate(label):
        found.add(place, "ann", one, **{name: values[place] for name, values in numbers.items()})
    found.n_rows = len(label)
    return found


def test_merged_files_keep_rows_numbers_notes_and_skips() -> None:
    first, second = raw(["x", "y"], weight=[2.0, 3.0]), raw(["z"], duration=[5.0])
    first.notes, second.notes = ["note"], ["note", "other"]
    first.skip("draft", "a.csv line 2", 3)
    second.skip("draft", "b.csv line 9")
    whole = merged([first, second])
    assert whole.label == ["x", "y", "z"]
    assert whole.numbers == {"weight": [2.0, 3.0, 1.0], "duration": [None, None, 5.0]}
    assert (whole.n_rows, whole.notes) == (3, ["note", "other"])
    assert whole.skipped == {"draft": Skipped(4, "a.csv line 2")}


def test_an_id_is_the_same_in_a_file_with_types_and_in_one_without(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,annotator,label\n1,ann,x\n2,ann,y\n")
    (tmp_path / "b.jsonl").write_text('{"item": 1, "annotator": "bob", "label": "y"}\n')
    both = read_annotations_with_report([tmp_path / "a.csv", tmp_path / "b.jsonl"])[0]
    assert both.items.tolist() == [1, 2]


def test_polars_columns_stay_polars_where_all_are() -> None:
    assert isinstance(joined([pl.Series(["a"]), pl.Series(["b"])]), pl.Series)
    assert joined([pl.Series(["a"]), ["b"]]) == ["a", "b"]


def test_one_id_for_two_contents_is_refused_within_and_across_files() -> None:
    first, second = raw(["x"]), raw(["y"])
    first.see_content(1, "a cat", "a.json")
    first.see_content(1, "a cat", "a.json")
    with pytest.raises(InvalidAnnotationsError, match=r"different content in a\.json and in b\.json.*item="):
        first.see_content(1, "a dog", "b.json")
    second.see_content(1, "a dog", "b.json")
    with pytest.raises(InvalidAnnotationsError, match="different content"):
        merged([first, second])


def test_no_label_and_several_labels_are_skipped_with_their_reason() -> None:
    found = raw([])
    assert found.is_answer("x", "line 1", ReadingOptions())
    assert not found.is_answer(None, "line 2", ReadingOptions())
    assert not found.is_answer([], "line 3", ReadingOptions(), "no answer")
    assert not found.is_answer(["x", "y"], "line 4", ReadingOptions())
    assert {reason: str(skip) for reason, skip in found.skipped.items()} == {
        "no label": "1 (first: line 2)",
        "no answer": "1 (first: line 3)",
        "several labels chosen": "1 (first: line 4)",
    }


def test_the_report_counts_what_was_skipped_for_any_reason() -> None:
    report = ReadingReport("long", {}, ("a", "b"), 9, 4, {"x": Skipped(2, "l"), "y": Skipped(3, "l")}, {"c": "a table"})
    assert report.n_skipped == 5
    assert str(report).splitlines()[0] == "2 files (a, ...): read as long; 4 annotations from 9 rows"
    assert "  not read: c (a table)" in str(report)


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

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crowdprism.errors import InvalidAnnotationsError, UnreadableFileError
from crowdprism.formats import read_annotations_with_report
from crowdprism.formats.choices import read_choices, read_choices_with_report
from crowdprism.formats.raw_annotations import split


def answers(path: Path, **options: Any) -> dict[tuple[Any, Any], set[Any]]:
    found = read_choices(path, **options)
    sets = found.sets
    return {
        (sets.items[item], sets.annotators[who]): {
            name for name, yes in zip(found.choices, found.members[code], strict=True) if yes
        }
        for item, who, code in zip(sets.item, sets.annotator, sets.label, strict=True)
    }


def label_studio(*chosen: list[str] | None) -> dict[str, Any]:
    annotations = [
        {"completed_by": who, "result": [] if ticked is None else [
            {"from_name": "topic", "to_name": "text", "type": "choices", "value": {"choices": ticked}}]}
        for who, ticked in enumerate(chosen)
    ]  # fmt: skip
    return {"id": 1, "data": {"text": "?"}, "annotations": annotations}


def test_label_studio_keeps_all_choices_and_empty_answers(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps([label_studio(["news", "sport"], ["news"], None, ["sport"])]))
    assert answers(path) == {(1, 0): {"news", "sport"}, (1, 1): {"news"}, (1, 2): set(), (1, 3): {"sport"}}
    _, report = read_annotations_with_report(path)
    assert "answers with several choices were skipped; `crowdprism aggregate --multi` reads them." in report.notes


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ann.jsonl", '{"id": 1, "text": "?", "label": ["news", "sport"]}\n{"id": 2, "text": "!", "label": []}\n'),
        ("ann.csv", "id,text,label\n1,?,news#sport\n2,!,\n"),
    ],
)
def test_doccano_keeps_all_labels(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert answers(path, format="doccano") == {(1, "ann"): {"news", "sport"}, (2, "ann"): set()}


def test_prodigy_keeps_all_accepted_options(tmp_path: Path) -> None:
    record = {"text": "?", "options": [{"id": "news"}], "answer": "accept", "_input_hash": 7, "_annotator_id": "ann"}
    path = tmp_path / "out.jsonl"
    path.write_text(
        json.dumps({**record, "accept": ["news", "sport"]})
        + "\n"
        + json.dumps({**record, "accept": [], "_input_hash": 8})
    )
    assert answers(path) == {(7, "ann"): {"news", "sport"}, (8, "ann"): set()}


def test_argilla_keeps_all_values(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    responses = {"topic": [{"value": ["news", "sport"], "user_id": "u"}, {"value": ["news"], "user_id": "v"}]}
    path.write_text(json.dumps([{"id": "1", "fields": {}, "responses": responses}]))
    assert answers(path) == {("1", "u"): {"news", "sport"}, ("1", "v"): {"news"}}


def test_mturk_keeps_all_ticked_boxes(tmp_path: Path) -> None:
    path = tmp_path / "batch.csv"
    path.write_text("HITId,WorkerId,Input.url,Answer.news.on,Answer.sport.on\nH,W,u,true,true\nH,V,u,true,false\n")
    assert answers(path) == {("u", "W"): {"news", "sport"}, ("u", "V"): {"news"}}


def test_a_column_is_split_by_the_separator(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("item,annotator,label\n1,ann,news; sport\n2,ann,\n3,ann,news\n")
    assert answers(path, separator=";") == {(1, "ann"): {"news", "sport"}, (2, "ann"): set(), (3, "ann"): {"news"}}
    assert "1 answers tick nothing" in str(read_choices_with_report(path, separator=";")[1])
    _, report = read_annotations_with_report(path, skip_missing=True)
    assert "1 of 2 labels (first: 'news; sport' by annotator 'ann' on item '1') look like several choices" in str(
        report
    )


def test_zero_one_columns_are_choices(tmp_path: Path) -> None:
    path = tmp_path / "ticks.csv"
    path.write_text("item,annotator,news,sport\n1,ann,1,0\n1,bob,TRUE,x\n2,ann,0,\n")
    assert answers(path) == {(1, "ann"): {"news"}, (1, "bob"): {"news", "sport"}, (2, "ann"): set()}


def test_a_choice_column_with_something_else_than_ticks_is_not_dropped_unseen(tmp_path: Path) -> None:
    path = tmp_path / "ticks.csv"
    path.write_text("item,annotator,news,sport,remark\n1,ann,1,0,\n1,bob,0,2,long\n2,ann,yes,0,\n2,bob,1,1,\n")
    with pytest.raises(
        UnreadableFileError, match=r"1 of 4 cells of column 'sport' are neither 0 nor 1; .* '2' in row 1"
    ):
        answers(path)
    path.write_text("item,annotator,news,remark\n1,ann,1,\n1,bob,0,long\n")
    assert answers(path) == {(1, "ann"): {"news"}, (1, "bob"): set()}


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["1", "2", "good", "3"], "1 of 4 labels (first: 'good' by annotator 'c' on item '1') are no numbers"),
        (["cat", "dog", "3.5", "cat"], "1 of 4 labels (first: '3.5' by annotator 'c' on item '1') are numbers"),
    ],
)
def test_labels_of_two_kinds_are_told_with_the_first(tmp_path: Path, labels: list[str], said: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(
        "item,annotator,label\n" + "".join(f"1,{who},{one}\n" for who, one in zip("abcd", labels, strict=True))
    )
    assert said in str(read_annotations_with_report(path)[1])


def test_gold_holds_sets_and_unknown_choices_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("item,annotator,label,gold\n1,ann,a|b,a\n1,bob,a,a\n")
    found = read_choices(path)
    assert found.of("a").gold_by_name() == {1: "yes"}
    assert found.of("b").gold_by_name() == {1: "no"}
    with pytest.raises(InvalidAnnotationsError, match="Unknown are 'b'"):
        read_choices(path, classes=["a"])


def test_cells_are_split_at_the_separator() -> None:
    cells = ["a | b", ["a", "b"], None, 3]
    assert [split(cell, "|") for cell in cells] == [["a", "b"], ["a", "b"], [], [3]]

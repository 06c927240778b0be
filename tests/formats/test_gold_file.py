"""Files of true classes: columns by name or place, types of names, blank cells, Label Studio answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crowdprism.annotations.names import name_array
from crowdprism.errors import UnreadableFileError
from crowdprism.formats.gold_file import read_gold

ITEMS, CLASSES = name_array(["x", "y", "=z"]), name_array(["cat", "dog"])


def read(tmp_path: Path, text: str, name: str = "gold.csv", items=ITEMS, classes=CLASSES):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_gold(tmp_path / name, items, classes)


@pytest.mark.parametrize(
    "text",
    [
        "item,label\nx,cat\ny,dog\n",
        "truth,task_id,note\ncat,x,sure\ndog,y,\n",
        "picture;seen\nx;cat\ny;dog\n",
        "x,cat\ny,dog\n",
        "item\tlabel\tgold\nx\tdog\tcat\ny\tdog\tdog\n",
    ],
    ids=["names", "other names and order", "by place", "no header", "gold before label"],
)
def test_columns_are_found_by_name_or_by_place(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).pairs == (("x", "cat"), ("y", "dog"))


def test_names_get_the_type_that_the_annotations_have(tmp_path: Path) -> None:
    found = read(tmp_path, "item,label\n7,1\n8.0,0.0\n", items=name_array([7, 8]), classes=name_array([0, 1]))
    assert found.pairs == ((7, 1), (8, 0))


def test_a_quote_against_formulas_is_taken_off(tmp_path: Path) -> None:
    assert read(tmp_path, "item,label\n'=z,cat\n").pairs == (("=z", "cat"),)


def test_blank_labels_are_counted_and_unknown_names_stay_as_written(tmp_path: Path) -> None:
    found = read(tmp_path, "item,answer,audit\nx,,0-40-aa\nu,cow,0-40-aa\n")
    assert (found.pairs, found.n_blank, found.audits) == ((("u", "cow"),), 1, ("0-40-aa",))


def test_spellings_of_a_class_are_joined_on_request(tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("item,label\nx, Cat\ny,DOG\n", encoding="utf-8")
    assert read_gold(tmp_path / "gold.csv", ITEMS, CLASSES).pairs == (("x", " Cat"), ("y", "DOG"))
    assert read_gold(tmp_path / "gold.csv", ITEMS, CLASSES, fold=True).pairs == (("x", "cat"), ("y", "dog"))


def test_json_records_work_too(tmp_path: Path) -> None:
    assert read(tmp_path, json.dumps([{"item": "x", "label": "cat"}]), "gold.json").pairs == (("x", "cat"),)


def test_answers_of_label_studio_are_those_of_the_item_in_the_task(tmp_path: Path) -> None:
    def task(number: int, item: str, answer: str | None) -> dict:
        result = [{"from_name": "answer", "to_name": "shown", "type": "choices", "value": {"choices": [answer]}}]
        annotations = [] if answer is None else [{"completed_by": 1, "result": result}]
        return {"id": number, "data": {"item": item, "audit": "0-40-aa"}, "annotations": annotations}

    found = read(tmp_path, json.dumps([task(11, "x", "cat"), task(12, "y", None)]), "export.json")
    assert (found.pairs, found.n_blank, found.audits) == ((("x", "cat"),), 1, ("0-40-aa",))


@pytest.mark.parametrize(("text", "message"), [("item\nx\n", "two columns"), ("", "empty")])
def test_a_file_without_two_columns_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UnreadableFileError, match=message):
        read(tmp_path, text)


def test_a_missing_file_is_an_error_that_names_similar_ones(tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("item,label\n")
    with pytest.raises(UnreadableFileError, match=r"Did you mean gold\.csv"):
        read_gold(tmp_path / "glod.csv", ITEMS, CLASSES)

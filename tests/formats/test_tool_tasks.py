"""Labels go back to the tools as suggestions, and what people then confirm is read as it was."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from crowdprism.errors import InvalidParameterError
from crowdprism.formats import read_annotations
from crowdprism.formats.gold_file import read_gold
from crowdprism.formats.tool_tasks import TOOLS, Task, TaskList, labelling_interface, write_tasks

LABELS = {7: "cat", 8: "=dog", 9: 'a "quoted" <class>'}
TASKS = TaskList(
    [Task(item, {"text": f"text {item}"}, label, 0.75) for item, label in LABELS.items()],
    list(LABELS.values()),
    ["text"],
    "crowdprism dawid-skene",
)


def confirmed(a) -> dict:
    """The label of each item, given by one annotator."""
    return dict(zip(a.items[a.item].tolist(), a.classes[a.label].tolist(), strict=True))


def test_label_studio_predictions_that_a_person_accepts_are_read_back(tmp_path: Path) -> None:
    tasks = json.loads(write_tasks(TASKS, tmp_path / "tasks.json", "label-studio").read_text())
    assert [task["predictions"][0]["score"] for task in tasks] == [0.75] * 3
    assert {task["predictions"][0]["model_version"] for task in tasks} == {"crowdprism dawid-skene"}
    for number, task in enumerate(tasks):  # what the tool does when a person submits the prediction
        task |= {"id": 100 + number, "annotations": [{"completed_by": 1, "result": task["predictions"][0]["result"]}]}
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    assert confirmed(read_annotations(tmp_path / "export.json", item="item")) == LABELS


def test_argilla_suggestions_that_a_person_submits_are_read_back(tmp_path: Path) -> None:
    records = json.loads(write_tasks(TASKS, tmp_path / "records.json", "argilla").read_text())
    assert records[0]["suggestions"] == {"label": {"value": "cat", "score": 0.75, "agent": "crowdprism dawid-skene"}}
    for record in records:
        value = record["suggestions"]["label"]["value"]
        record["responses"] = {"label": [{"value": value, "user_id": "ann"}]}
    (tmp_path / "export.json").write_text(json.dumps(records))
    assert confirmed(read_annotations(tmp_path / "export.json")) == {str(item): one for item, one in LABELS.items()}


def test_doccano_lines_are_read_back_as_they_are(tmp_path: Path) -> None:
    assert confirmed(read_annotations(write_tasks(TASKS, tmp_path / "ann.jsonl", "doccano"))) == LABELS


def test_prodigy_lines_that_a_person_accepts_are_read_back(tmp_path: Path) -> None:
    path = write_tasks(TASKS, tmp_path / "tasks.jsonl", "prodigy")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [option["id"] for option in lines[0]["options"]] == list(LABELS.values())
    done = [{**line, "answer": "accept", "_input_hash": line["item"], "_annotator_id": "ann"} for line in lines]
    path.write_text("\n".join(map(json.dumps, done)))
    assert confirmed(read_annotations(path)) == LABELS


def test_a_table_is_read_as_gold_and_holds_no_formula(tmp_path: Path) -> None:
    from crowdprism.annotations.names import name_array

    path = write_tasks(TASKS, tmp_path / "tasks.csv", "csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["confidence"] for row in rows] == ["0.75"] * 3
    assert rows[1]["label"] == "'=dog"
    assert dict(read_gold(path, name_array(LABELS), name_array(LABELS.values())).pairs) == LABELS


def test_tasks_without_a_suggestion_have_none(tmp_path: Path) -> None:
    bare = TaskList([Task("x", more={"audit": "0-1-a"})], ["a", "b"])
    (task,) = json.loads(write_tasks(bare, tmp_path / "t.json").read_text())
    assert task == {"data": {"item": "x", "audit": "0-1-a"}}
    (record,) = json.loads(write_tasks(bare, tmp_path / "t.json", "argilla").read_text())
    assert record["suggestions"] == {}
    assert record["fields"] == {"item": "x"}


def test_the_labelling_interface_shows_the_first_column_and_escapes_classes() -> None:
    shown = labelling_interface(TASKS)
    assert '<Text name="shown" value="$text"/>' in shown
    assert "&lt;class&gt;" in shown
    images = TaskList([Task(1, {"photo": "a.PNG"})], ["a", "b"], ["photo"])
    assert '<Image name="shown" value="$photo"/>' in labelling_interface(images)


def test_an_unknown_tool_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=", ".join(TOOLS)):
        write_tasks(TASKS, tmp_path / "t.xml", "xml")
    assert not list(tmp_path.iterdir())

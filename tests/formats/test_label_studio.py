"""Label Studio exports give their annotations, whichever of the three kinds they are."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from small_files import TRIPLETS, triplets, write_table

from crowdprism.errors import UnreadableFileError
from crowdprism.formats import read_annotations, read_annotations_with_report


def label_studio_tasks() -> list[dict[str, Any]]:
    tasks: dict[int, dict[str, Any]] = {}
    for number, (item, annotator, label) in enumerate(TRIPLETS):
        task = tasks.setdefault(item, {"id": item, "data": {"image": f"s3://b/{item}.jpg"}, "annotations": []})
        result = {"from_name": "kind", "to_name": "img", "type": "choices", "value": {"choices": [label]}}
        who: Any = annotator if number % 2 else {"id": annotator, "email": "bo@x.org"}
        task["annotations"].append(
            {
                "id": number,
                "completed_by": who,
                "was_cancelled": False,
                "ground_truth": False,
                "lead_time": 4.25,
                "created_at": "2026-01-02T10:00:00.5Z",
                "result": [result],
            }
        )
    return list(tasks.values())


def label_studio_min() -> list[dict[str, Any]]:
    return [
        {
            "annotation_id": 70 + number,
            "annotator": annotator,
            "created_at": "2026-01-02T10:00:00Z",
            "id": item,
            "image": f"s3://b/{item}.jpg",
            "kind": label,
            "lead_time": 4.2,
            "updated_at": "2026-01-02T10:00:04Z",
        }
        for number, (item, annotator, label) in enumerate(TRIPLETS)
    ]


@pytest.mark.parametrize("indent", [None, 1])
def test_label_studio_json_gives_its_annotations(tmp_path: Path, indent: int | None) -> None:
    tasks = label_studio_tasks()
    cancelled = json.loads(json.dumps(tasks[0]["annotations"][0])) | {"was_cancelled": True, "completed_by": 99}
    truth = json.loads(json.dumps(tasks[0]["annotations"][0])) | {"ground_truth": True, "completed_by": 1}
    both = json.loads(json.dumps(tasks[0]["annotations"][0])) | {"completed_by": 98}
    both["result"][0]["value"]["choices"] = ["cat", "dog"]
    tasks[0]["annotations"] += [cancelled, truth, both]
    tasks[0]["predictions"] = [{"model_version": "m", "result": []}]
    (tmp_path / "ls.json").write_text(json.dumps(tasks, indent=indent))
    a, report = read_annotations_with_report(tmp_path / "ls.json")
    assert report.format == "label-studio"
    assert triplets(a) == TRIPLETS
    assert {reason: skip.count for reason, skip in report.skipped.items()} == {
        "cancelled": 1,
        "several labels chosen": 1,
    }
    assert a.gold is not None
    assert a.classes[a.gold.compressed()].tolist() == ["cat"]
    assert a.duration is not None
    assert a.duration.tolist() == [4.25] * 5


def test_label_studio_projects_are_not_mixed_up_by_their_own_numbering(tmp_path: Path) -> None:
    for person in (1, 2):
        task = {
            "id": 1,
            "data": {"image": f"{person}.jpg"},
            "annotations": [
                {"completed_by": person, "result": [{"from_name": "k", "value": {"choices": [str(person)]}}]}
            ],
        }
        (tmp_path / f"project{person}.json").write_text(json.dumps([task]))
    with pytest.raises(ValueError, match="stands for different content"):
        read_annotations(tmp_path / "project*.json")
    assert read_annotations(tmp_path / "project*.json", item="image").items.tolist() == ["1.jpg", "2.jpg"]


def test_label_studio_with_two_questions_asks_which(tmp_path: Path) -> None:
    tasks = label_studio_tasks()
    for task in tasks:
        for annotation in task["annotations"]:
            annotation["result"].append({"from_name": "stars", "type": "rating", "value": {"rating": 4}})
    tasks[0]["annotations"][0]["result"][1]["value"]["rating"] = 2
    (tmp_path / "ls.json").write_text(json.dumps(tasks))
    with pytest.raises(UnreadableFileError, match=r"kind \(5\), stars \(5\)(?s:.*)Try: label='kind'"):
        read_annotations(tmp_path / "ls.json")
    assert triplets(read_annotations(tmp_path / "ls.json", label="kind")) == TRIPLETS
    assert read_annotations(tmp_path / "ls.json", label="stars").classes.tolist() == [2, 4]


def test_label_studio_json_min_and_csv_are_read_alike(tmp_path: Path) -> None:
    records = label_studio_min()
    (tmp_path / "min.json").write_text(json.dumps(records))
    rows = [list(record.values()) for record in records]
    write_table(tmp_path / "ls.csv", list(records[0]), rows, quoting=csv.QUOTE_NONNUMERIC)
    write_table(tmp_path / "ls.tsv", list(records[0]), rows, delimiter="\t")
    read = [read_annotations_with_report(tmp_path / name) for name in ("min.json", "ls.csv", "ls.tsv")]
    assert [report.format for _, report in read] == ["label-studio-min"] * 3
    assert [report.columns["label"] for _, report in read] == ["kind"] * 3
    assert triplets(read[0][0]) == TRIPLETS
    assert read[0][0] == read[1][0] == read[2][0]


def test_a_second_question_in_json_min_is_no_other_content(tmp_path: Path) -> None:
    records = [{**record, "comment": f"by {record['annotator']}"} for record in label_studio_min()]
    (tmp_path / "min.json").write_text(json.dumps(records))
    assert triplets(read_annotations(tmp_path / "min.json", label="kind")) == TRIPLETS


def test_files_of_one_annotator_each_may_differ_in_the_second_question(tmp_path: Path) -> None:
    records = [{**record, "sure": record["annotator"] % 2} for record in label_studio_min()]
    for person in (3, 4, 5):
        own = [record for record in records if record["annotator"] == person]
        (tmp_path / f"{person}.json").write_text(json.dumps(own))
    assert triplets(read_annotations(sorted(tmp_path.glob("*.json")), label="kind")) == TRIPLETS

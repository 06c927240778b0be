"""Exports of Mechanical Turk, Ground Truth, Toloka and Appen."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from small_files import TRIPLETS, triplets, write_table

from crowdprism.errors import LostInformationWarning, UnreadableFileError
from crowdprism.formats import read_annotations, read_annotations_with_report

MTURK = ["HITId", "AssignmentId", "WorkerId", "AssignmentStatus", "WorkTimeInSeconds"]


def test_mturk_batches_with_one_item_are_read(tmp_path: Path) -> None:
    rows = [
        [f"3H{item}", f"3A{n}", f"A{annotator}", "Approved", 14, f"http://x/{item}.jpg", label]
        for n, (item, annotator, label) in enumerate(TRIPLETS)
    ]
    rows.append(["3H7", "3A9", "A9", "Rejected", 1, "http://x/7.jpg", "dog"])
    path = write_table(
        tmp_path / "b.csv", [*MTURK, "Input.image_url", "Answer.kind.label"], rows, quoting=csv.QUOTE_ALL
    )
    a, report = read_annotations_with_report(path)
    assert report.format == "mturk"
    assert triplets(a) == [(f"http://x/{i}.jpg", f"A{w}", label) for i, w, label in TRIPLETS]
    assert report.skipped["rejected"].count == 1
    assert a.duration is not None
    assert a.duration.tolist() == [14] * 5
    assert read_annotations(path, include_rejected=True).n_annotations == 6
    assert read_annotations(path, item="HITId").items.tolist() == ["3H7", "3H8", "3H9"]


def test_mturk_batches_with_several_items_in_a_hit_are_taken_apart(tmp_path: Path) -> None:
    header = [*MTURK, "Input.image_url1", "Input.image_url2", "Answer.label1", "Answer.label2"]
    rows = [
        ["H1", "A1", "w3", "Approved", 10, "7.jpg", "8.jpg", "cat", "dog"],
        ["H1", "A2", "w4", "Approved", 20, "7.jpg", "8.jpg", "dog", ""],
    ]
    a, report = read_annotations_with_report(write_table(tmp_path / "b.csv", header, rows))
    assert triplets(a) == [("7.jpg", "w3", "cat"), ("7.jpg", "w4", "dog"), ("8.jpg", "w3", "dog")]
    assert report.skipped["no answer in Answer.label2"].count == 1
    assert a.duration is not None
    assert a.duration.tolist() == [5, 10, 5]


@pytest.mark.parametrize(
    ("columns", "answers"),
    [
        (["Answer.taskAnswers"], {"cat": ['[{"kind":{"label":"cat"}}]'], "dog": ['[{"kind":{"label":"dog"}}]']}),
        (
            ["Answer.taskAnswers"],
            {"cat": ['[{"k":{"cat":true,"dog":false}}]'], "dog": ['[{"k":{"cat":false,"dog":true}}]']},
        ),
        (["Answer.cat.on", "Answer.dog.on"], {"cat": ["true", "false"], "dog": ["false", "true"]}),
        (["Answer.kind"], {"cat": ["cat"], "dog": ["dog"]}),
    ],
)
def test_mturk_answers_come_in_many_shapes(tmp_path: Path, columns: list[str], answers: dict[str, list[str]]) -> None:
    rows = [[f"H{i}", f"A{n}", f"w{w}", "Approved", 5, i, *answers[label]] for n, (i, w, label) in enumerate(TRIPLETS)]
    a = read_annotations(write_table(tmp_path / "b.csv", [*MTURK, "Input.id", *columns], rows))
    assert triplets(a) == [(i, f"w{w}", label) for i, w, label in TRIPLETS]


def test_toloka_assignments_give_labels_and_gold(tmp_path: Path) -> None:
    header = ["INPUT:image", "OUTPUT:kind", "GOLDEN:kind", "HINT:text", "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id"]
    header += ["ASSIGNMENT:status", "ASSIGNMENT:submitted"]
    when = "2026-01-02T10:00:09.123"
    rows = [[f"{i}.jpg", label, "", "", f"000-{i}", f"w{w}", "APPROVED", when] for i, w, label in TRIPLETS]
    rows.insert(2, [])  # a blank line between task suites
    rows.append(["10.jpg", "cat", "dog", "", "000-10", "w3", "APPROVED", when])
    rows.append(["10.jpg", "cat", "dog", "", "000-10", "w4", "REJECTED", when])
    a, report = read_annotations_with_report(write_table(tmp_path / "t.tsv", header, rows, delimiter="\t"))
    assert report.format == "toloka"
    expected = [("10.jpg", "w3", "cat"), *((f"{i}.jpg", f"w{w}", label) for i, w, label in TRIPLETS)]
    assert triplets(a) == expected
    assert report.skipped["rejected"].count == 1
    assert a.gold is not None
    assert a.classes[a.gold.compressed()].tolist() == ["dog"]


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


def ground_truth_answer(annotator: int, label: str) -> dict[str, Any]:
    return {
        "workerId": f"private.us-east-1.{annotator}",
        "acceptanceTime": "2026-01-02T10:00:00.000Z",
        "submissionTime": "2026-01-02T10:00:09.000Z",
        "timeSpentInSeconds": 8.5,
        "answerContent": {"crowd-image-classifier": {"label": label}},
    }


def test_ground_truth_responses_are_read_from_their_folders(tmp_path: Path) -> None:
    for item in (7, 8, 9):
        folder = tmp_path / f"annotations/worker-response/iteration-1/{item}"
        folder.mkdir(parents=True)
        answers = [ground_truth_answer(annotator, label) for i, annotator, label in TRIPLETS if i == item]
        (folder / "2026-01-02_10-00-09.json").write_text(json.dumps({"answers": answers}))
    a, report = read_annotations_with_report(tmp_path)
    assert report.format == "ground-truth"
    assert triplets(a) == [(item, f"private.us-east-1.{who}", label) for item, who, label in TRIPLETS]
    assert a.duration is not None
    assert a.duration.tolist() == [8.5] * 5


def test_ground_truth_consolidation_requests_are_read(tmp_path: Path) -> None:
    requests = [
        {
            "datasetObjectId": str(item),
            "dataObject": {"s3Uri": f"s3://b/{item}.jpg"},
            "annotations": [
                {
                    "workerId": f"w{who}",
                    "annotationData": {"content": json.dumps({"crowd-image-classifier": {"label": label}})},
                }
                for i, who, label in TRIPLETS
                if i == item
            ],
        }
        for item in (7, 8, 9)
    ]
    (tmp_path / "r.json").write_text(json.dumps(requests))
    a, report = read_annotations_with_report(tmp_path / "r.json")
    assert report.format == "ground-truth-requests"
    assert triplets(a) == [(item, f"w{who}", label) for item, who, label in TRIPLETS]
    assert read_annotations(tmp_path / "r.json", item="s3Uri").items[0] == "s3://b/7.jpg"


def test_a_ground_truth_manifest_warns_that_annotators_are_lost(tmp_path: Path) -> None:
    lines = [
        {"source-ref": f"s3://b/{n}.jpg", "kind": n, "kind-metadata": {"class-name": name, "confidence": 0.5}}
        for n, name in enumerate(["cat", "dog"])
    ]
    (tmp_path / "output.manifest").write_text("\n".join(map(json.dumps, lines)))
    with pytest.warns(LostInformationWarning, match="who gave which label is lost"):
        a = read_annotations(tmp_path / "output.manifest")
    assert triplets(a) == [("s3://b/0.jpg", "consolidated", "cat"), ("s3://b/1.jpg", "consolidated", "dog")]
    assert a.weight is not None
    assert a.weight.tolist() == [0.5, 0.5]

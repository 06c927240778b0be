"""Mechanical Turk batches are read whatever shape the answers have."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from small_files import TRIPLETS, triplets, write_table

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

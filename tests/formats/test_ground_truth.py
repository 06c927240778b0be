"""Ground Truth responses and requests keep their workers; the manifest warns that they are lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_files import TRIPLETS, triplets

from crowdprism.errors import LostInformationWarning
from crowdprism.formats import read_annotations, read_annotations_with_report


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

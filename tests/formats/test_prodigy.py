"""Prodigy answers become labels; ignored ones are counted."""

from __future__ import annotations

import json
from pathlib import Path

from small_files import TRIPLETS, triplets

from crowdprism.formats import read_annotations, read_annotations_with_report


def test_prodigy_choices_and_binary_answers_are_read(tmp_path: Path) -> None:
    options = [{"id": "cat", "text": "cat"}, {"id": "dog", "text": "dog"}]
    lines = [
        {
            "text": f"text {item}",
            "options": options,
            "accept": [label],
            "answer": "accept",
            "_view_id": "choice",
            "_input_hash": item,
            "_task_hash": -item,
            "_annotator_id": f"ds-{annotator}",
            "_session_id": f"ds-{annotator}",
            "_timestamp": 1767349200 + item,
        }
        for item, annotator, label in TRIPLETS
    ]
    lines.append({**lines[0], "answer": "ignore", "accept": []})
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    a, report = read_annotations_with_report(tmp_path / "p.jsonl")
    assert report.format == "prodigy"
    assert triplets(a) == [(item, f"ds-{annotator}", label) for item, annotator, label in TRIPLETS]
    assert report.skipped["ignored"].count == 1
    assert a.timestamp is not None
    assert a.timestamp[0] == 1767349207
    binary = [
        {"text": "t", "label": "SPAM", "answer": answer, "_input_hash": 1, "_annotator_id": who}
        for who, answer in (("a", "accept"), ("b", "reject"))
    ]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, binary)))
    assert triplets(read_annotations(tmp_path / "b.jsonl")) == [(1, "a", "SPAM"), (1, "b", "not SPAM")]

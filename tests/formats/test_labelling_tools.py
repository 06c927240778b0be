"""Exports of Prodigy, doccano, Argilla and peerannot."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import polars as pl
import pytest
from small_files import TRIPLETS, triplets

from crowdprism.errors import LostInformationWarning
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


def text_ids(prefix_item: str = "", prefix_annotator: str = "") -> list[tuple[str, str, str]]:
    return [(f"{prefix_item}{item}", f"{prefix_annotator}{annotator}", label) for item, annotator, label in TRIPLETS]


def doccano_files() -> dict[str, str]:
    files: dict[str, str] = {}
    for item, annotator, label in text_ids():
        record = {"id": int(item), "text": f"text {item}", "label": [label], "Comments": []}
        name = f"user{annotator}.jsonl"
        files[name] = files.get(name, "") + json.dumps(record) + "\n"
    return files


def test_doccano_takes_the_annotator_from_the_file_in_the_zip(tmp_path: Path) -> None:
    files = doccano_files()
    files["user3.jsonl"] += json.dumps({"id": 9, "text": "text 9", "label": [], "Comments": []}) + "\n"
    with zipfile.ZipFile(tmp_path / "doccano.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    a, report = read_annotations_with_report(tmp_path / "doccano.zip")
    assert report.format == "doccano"
    assert triplets(a) == [(item, f"user{annotator}", label) for item, annotator, label in TRIPLETS]
    assert report.skipped["no label"].count == 1


def test_doccano_files_are_merged(tmp_path: Path) -> None:
    for name, text in doccano_files().items():
        (tmp_path / name).write_text(text)
    expected = [(item, f"user{annotator}", label) for item, annotator, label in TRIPLETS]
    assert triplets(read_annotations(tmp_path)) == expected
    assert triplets(read_annotations(sorted(tmp_path.iterdir()))) == expected


def test_doccano_without_annotators_warns_what_is_lost(tmp_path: Path) -> None:
    records = [{"id": 1, "text": "a", "label": ["x"]}, {"id": 2, "text": "b", "label": ["y"]}]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, records)))
    with pytest.warns(LostInformationWarning, match="does not say who gave which label"):
        a, report = read_annotations_with_report(tmp_path / "all.jsonl")
    assert a.annotators.tolist() == ["unknown"]
    assert report.notes


def test_argilla_nested_and_flattened_records_are_read(tmp_path: Path) -> None:
    nested, flat = [], []
    for item in ("7", "8", "9"):
        given = [(f"u{who}", label) for i, who, label in TRIPLETS if str(i) == item]
        nested.append(
            {
                "id": item,
                "fields": {"text": "Late again"},
                "metadata": {},
                "suggestions": {},
                "responses": {"kind": [{"value": label, "user_id": who} for who, label in given]},
                "vectors": {},
                "status": "completed",
                "_server_id": "x",
            }
        )
        flat.append(
            {
                "id": item,
                "status": "completed",
                "text": "Late again",
                "kind.responses": [*(label for _, label in given), "cat"],
                "kind.responses.users": [*(who for who, _ in given), "u99"],
                "kind.responses.status": [*("submitted" for _ in given), "draft"],
            }
        )
    (tmp_path / "nested.json").write_text(json.dumps(nested))
    (tmp_path / "flat.json").write_text(json.dumps(flat))
    pl.DataFrame(flat).write_parquet(tmp_path / "flat.parquet")
    expected = [(str(item), f"u{who}", label) for item, who, label in TRIPLETS]
    a, report = read_annotations_with_report(tmp_path / "nested.json")
    assert (report.format, triplets(a)) == ("argilla", expected)
    assert any("status" in note for note in report.notes)
    for name in ("flat.json", "flat.parquet"):
        a, report = read_annotations_with_report(tmp_path / name)
        assert (report.format, triplets(a)) == ("argilla-flat", expected)
        assert report.skipped["draft"].count == 3


def test_peerannot_answers_know_their_classes_from_the_metadata_beside_them(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text('{"0": {"12": 3, "40": 1}, "1": {"12": 0}, "2": {}}')
    assert read_annotations(tmp_path / "answers.json").classes.tolist() == [0, 1, 3]
    (tmp_path / "metadata.json").write_text('{"name": "d", "n_classes": 8, "n_workers": 59}')
    for source in (tmp_path / "answers.json", tmp_path):
        a, report = read_annotations_with_report(source)
        assert report.format == "peerannot"
        assert triplets(a) == [(0, 12, 3), (0, 40, 1), (1, 12, 0)]
        assert a.classes.tolist() == list(range(8))
        assert a.items.tolist() == [0, 1, 2]

"""doccano names annotators by file, and a shared file says what is lost."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from small_files import TRIPLETS, triplets

from crowdprism.errors import LostInformationWarning
from crowdprism.formats import read_annotations, read_annotations_with_report


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

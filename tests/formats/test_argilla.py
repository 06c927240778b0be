"""Argilla records are read alike, nested or flattened."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
from small_files import TRIPLETS, triplets

from crowdprism.formats import read_annotations_with_report


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

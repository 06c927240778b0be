"""Toloka assignments give labels and gold."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from crowdprism.annotations import Annotations
from crowdprism.formats import read_annotations_with_report

# (item, annotator, label): three items, three annotators, an item with one annotation.
TRIPLETS = [(7, 3, "cat"), (7, 5, "dog"), (8, 3, "dog"), (8, 4, "dog"), (9, 5, "cat")]


def triplets(a: Annotations) -> list[tuple[Any, Any, Any]]:
    return list(
        zip(a.items[a.item].tolist(), a.annotators[a.annotator].tolist(), a.classes[a.label].tolist(), strict=True)
    )


def write_table(path: Path, header: list[str], rows: list[list[Any]], delimiter: str = ",", quoting: int = 0) -> Path:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writerows([header, *rows])
    path.write_text(buffer.getvalue(), encoding="utf-8")
    return path


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

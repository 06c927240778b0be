"""Toloka assignments give labels and gold."""

from __future__ import annotations

from pathlib import Path

from small_files import TRIPLETS, triplets, write_table

from crowdprism.formats import read_annotations_with_report


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

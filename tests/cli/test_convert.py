"""`crowdprism info` and `convert`."""

from __future__ import annotations

import json
from pathlib import Path

from crowdprism import read_annotations


def test_convert_and_back_keeps_every_annotation(run, labels_csv: Path, tmp_path: Path) -> None:
    assert run("convert", labels_csv, tmp_path / "labels.parquet").code == 0
    assert run("convert", tmp_path / "labels.parquet", tmp_path / "again.csv").code == 0
    assert read_annotations(tmp_path / "again.csv") == read_annotations(labels_csv)


def test_info_counts_and_measures_agreement(run, labels_csv: Path) -> None:
    shown = run("info", labels_csv).out
    assert "6 annotations of 3 items by 3 annotators" in shown
    record = json.loads(run("info", labels_csv, "--json").out)
    assert record["summary"]["n_annotations"] == 6
    assert "agreement" in record

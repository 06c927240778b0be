"""`diagnose` and `suggest` as a stranger meets them."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from crowdprism.cli import main
from crowdprism.simulate import demo_annotations


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    annotations = demo_annotations(np.arange(600) % 10)
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    frame = annotations.to_frame()
    gold = np.asarray(annotations.gold)[annotations.item]
    frame.with_columns(gold=gold).write_csv(path)
    return path


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", ["crowdprism", "-q", *map(str, arguments)])
    with contextlib.suppress(SystemExit):
        main()
    return capsys.readouterr().out


def test_diagnose_prints_findings_and_names_the_adversary(
    labels: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads(call(monkeypatch, capsys, "diagnose", labels, "--gold", "gold", "--json"))
    assert {"regulariser", "class specialists"} <= {finding["name"] for finding in record["findings"]}
    kinds = {person["annotator"]: person["kind"] for person in record["suspects"]}
    assert kinds["adversary-01"] == "adverse"


def test_diagnose_writes_three_tables_and_replaces_only_its_own(
    labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        out = call(monkeypatch, capsys, "diagnose", labels, "-o", tmp_path / "there")
    assert "co-labelling" in out
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == [
        "annotators.csv",
        "findings.csv",
        "items.csv",
        "manifest.json",
    ]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("keep", encoding="utf-8")
    call(monkeypatch, capsys, "diagnose", labels, "-o", tmp_path / "mine")
    assert not (tmp_path / "mine" / "findings.csv").exists()
    assert (tmp_path / "mine" / "precious.txt").exists()


def test_suggest_names_items_and_annotators_of_a_saved_run(
    labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call(monkeypatch, capsys, "aggregate", labels, "--no-use-gold", "-o", tmp_path / "run")
    out = call(monkeypatch, capsys, "suggest", labels, "--run", tmp_path / "run", "--budget", 7)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 7
    assert all(row["annotator"].startswith("expert") for row in rows)
    call(monkeypatch, capsys, "suggest", labels, "--budget", 3, "-o", tmp_path / "next.csv")
    assert len((tmp_path / "next.csv").read_text(encoding="utf-8").splitlines()) == 4


def test_suggest_says_when_to_stop(
    labels: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads(call(monkeypatch, capsys, "suggest", labels, "--target", 0.5, "--json"))
    assert record["stop"]
    assert "target" in record["reason"]


def test_the_diagnosis_begins_with_a_verdict(crowd_folder: Path, run) -> None:
    first = run("-q", "diagnose", "labels.csv").out.splitlines()[0]
    assert first.startswith(("None of the", "Use the result with care:", "Do not rely on the result yet:"))
    assert "Expected right" in first

"""`crowdprism report`, from a run folder to a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import crowdprism as cp
from crowdprism.cli import BAD_INPUT, main

ROWS = [
    (item, person, str((item + (person == "cy" and item % 3 == 0)) % 2))
    for item in range(8)
    for person in ("ann", "bob", "cy")
]


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    labels = tmp_path / "labels.csv"
    labels.write_text("item,annotator,label\n" + "".join(f"{i},{p},{c}\n" for i, p, c in ROWS), encoding="utf-8")
    cp.make_aggregator("majority-vote").fit(cp.read_annotations(labels)).result_.save(tmp_path / "run")
    return tmp_path / "run"


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["crowdprism", "report", *map(str, arguments)])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_the_page_lands_in_the_run_by_default(run_folder: Path, monkeypatch, capsys) -> None:
    assert call(monkeypatch, run_folder) == 0
    page = (run_folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "report.html" in capsys.readouterr().err
    assert 'id="agreement"' not in page


def test_annotation_files_add_agreement(run_folder: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    page = tmp_path / "page.html"
    assert call(monkeypatch, run_folder, tmp_path / "labels.csv", "-o", page) == 0
    assert 'id="agreement"' in page.read_text(encoding="utf-8")


def test_a_folder_without_a_result_is_refused_and_nothing_written(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "empty").mkdir()
    assert call(monkeypatch, tmp_path / "empty", "-o", tmp_path / "page.html") == BAD_INPUT
    assert "no saved result" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_annotations_of_another_run_are_refused(run_folder: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    other = tmp_path / "other.csv"
    other.write_text("item,annotator,label\n1,zoe,a\n1,yan,b\n", encoding="utf-8")
    assert call(monkeypatch, run_folder, other) == BAD_INPUT
    assert "not those of this result" in capsys.readouterr().err
    assert not (run_folder / "report.html").exists()


@pytest.mark.parametrize("command", ["report", "predict", "diagnose"])
def test_a_run_of_a_newer_version_says_so(command: str, small_folder: Path, failed) -> None:
    cp.make_aggregator("majority-vote").fit(cp.read_annotations("labels.csv")).result_.save("run")
    record = json.loads((small_folder / "run" / "result.json").read_text())
    (small_folder / "run" / "result.json").write_text(json.dumps({**record, "schema": 99}))
    (small_folder / "run" / "manifest.json").unlink()
    (small_folder / "x.csv").write_text("item,x\npic1,1.5\n")
    words = {
        "report": ("report", "run"),
        "predict": ("predict", "run", "-x", "x.csv"),
        "diagnose": ("diagnose", "labels.csv", "--run", "run"),
    }
    assert "newer crowdprism" in failed(*words[command])


def test_the_items_to_review_become_a_page_to_answer_on(run_folder: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    labels, page = tmp_path / "labels.csv", tmp_path / "review.html"
    assert call(monkeypatch, run_folder, labels, "--page", page) == 0
    assert "3 items" in capsys.readouterr().err
    data = page.read_text(encoding="utf-8").partition('id="data">')[2].partition("</script>")[0]
    asked = json.loads(data)["questions"]
    assert sorted(question["cell"] for question in asked) == ["0", "3", "6"], "on which cy differs"
    assert asked[0]["votes"]

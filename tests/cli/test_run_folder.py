"""Run folders appear whole, and never replace something else."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

import crowdprism as cp
from crowdprism.cli import BAD_INPUT
from crowdprism.cli.screen import INCOMPLETE


def test_a_run_folder_holds_result_labels_and_annotators(run, labels_csv: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run("aggregate", labels_csv, "-o", folder).code == 0
    assert cp.load(folder).items.tolist() == ["img1.png", "img2.png", "img3.png"]
    labels = rows_of(folder / "labels.csv")
    assert [row["annotations"] for row in labels] == ["3", "2", "1"]
    people = rows_of(folder / "annotators.csv")
    assert [row["annotator"] for row in people] == ["ann", "bob", "cy"]
    assert all(0 <= float(row["accuracy_low"]) <= float(row["accuracy_high"]) <= 1 for row in people)
    assert run("aggregate", labels_csv, "-o", folder).code == 0, "a run may be repeated in place"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_names_cannot_run_as_formulas_in_a_spreadsheet(run, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("item,annotator,label\n\"=cmd|' /C calc'!A0\",@ann,+yes\nx,bob,no\n")
    folder = tmp_path / "run"
    assert run("aggregate", tmp_path / "labels.csv", "-o", folder, "-m", "majority-vote").code == 0
    cells = (folder / "labels.csv").read_text() + (folder / "annotators.csv").read_text()
    assert "'=cmd" in cells
    assert "'+yes" in cells
    assert "'@ann" in cells


def test_a_folder_of_something_else_is_never_replaced(run, labels_csv: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    outcome = run("aggregate", labels_csv, "-o", tmp_path / "thesis")
    assert outcome.code == BAD_INPUT
    assert (tmp_path / "thesis" / "chapter.txt").exists()


def test_a_report_that_fails_costs_only_the_report(crowd_folder: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*rest: object, **more: object) -> None:
        raise RuntimeError("by hand")

    monkeypatch.setattr(cp.FitResult, "report", broken)
    code, _, said = run("-q", "aggregate", "labels.csv", "-o", "run")
    assert code == INCOMPLETE
    assert "the report was left out (RuntimeError: by hand)" in said
    assert (crowd_folder / "run" / "labels.csv").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("aggregate", "labels.csv", "-o"),
        ("train", "labels.csv", "-x", "x.npy", "-o"),
        ("compare", "labels.csv", "--report"),
        ("diagnose", "labels.csv", "-o"),
        ("convert", "labels.csv"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_and_nothing_is_left(words: tuple[str, ...], failed) -> None:
    """/proc takes no folders, not even from root."""
    if not os.path.isdir("/proc/self"):
        pytest.skip("needs a place where nobody can write")
    assert "/proc" in failed(*words, "/proc/crowdprism-run.csv")

"""Run folders appear whole, and never replace something else."""

from __future__ import annotations

import csv
import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

import crowdprism as cp
from crowdprism.cli import BAD_INPUT
from crowdprism.cli.app import COMMANDS
from crowdprism.cli.options import expand_groups
from crowdprism.cli.run_folder import READ, WRITTEN
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
    assert run("simulate", tmp_path / "new.csv", "--truth", folder / "labels.csv").code == 0
    assert "=cmd|' /C calc'!A0" in cp.read_annotations(tmp_path / "new.csv").items.tolist()


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


def test_an_input_inside_the_run_folder_is_refused_and_stays(run, labels_csv: Path, tmp_path: Path) -> None:
    folder = tmp_path / "inp"
    assert run("aggregate", labels_csv, "-o", folder, "--no-report").code == 0
    (folder / "in.csv").write_bytes(labels_csv.read_bytes())
    outcome = run("aggregate", folder / "in.csv", "-o", folder)
    assert (outcome.code, "in.csv is inside" in outcome.err) == (BAD_INPUT, True)
    assert (folder / "in.csv").read_bytes() == labels_csv.read_bytes()
    assert run("aggregate", labels_csv, "-o", folder, "--no-report").code == 0
    assert (folder / "in.csv").exists(), "a file that we did not write stays"


@pytest.mark.parametrize(
    "words",
    [
        ("report", "run", "labels.csv", "-o", "labels.csv"),
        ("report", "run", "-o", "run/labels.csv"),
        ("report", "run", "-o", "run/manifest.json"),
        ("convert", "labels.csv", "labels.csv"),
        ("convert", "labels.csv", "./labels.csv"),
        ("suggest", "labels.csv", "-o", "labels.csv"),
        ("compare", "labels.csv", "--report", "labels.csv"),
        ("simulate", "labels.csv", "--truth", "labels.csv", "--item", "item"),
        ("diagnose", "labels.csv", "--run", "run", "-o", "run"),
        ("aggregate", "labels.csv", "-o", "."),
        ("aggregate", "labels.csv", "-o", "link"),
        ("aggregate", "labels.csv", "-o", "link/"),
        ("aggregate", "labels.csv", "-o", "dangling"),
        ("convert", "labels.csv", "/dev/null", "--to", "csv"),
        ("convert", "linked.csv", "labels.csv"),
        ("convert", "more", "more/a.csv"),
        ("convert", "more/*.csv", "more/b.csv"),
        ("aggregate", "more", "-o", "more/a.csv"),
        ("aggregate", "more/*.csv", "-o", "more/a.csv"),
        ("suggest", "labels.csv", "--page", "labels.csv"),
        ("suggest", "labels.csv", "-o", "next.html", "--page", "./next.html"),
        ("audit", "labels.csv", "--page", "labels.csv"),
        ("audit", "labels.csv", "-o", "labels.csv"),
        ("audit", "labels.csv", "--page", "x.html", "--content", "labels.csv", "-o", "x.html"),
        ("audit", "labels.csv", "--answers", "more/a.csv", "--gold-out", "more/a.csv"),
        ("audit", "labels.csv", "--answers", "more/a.csv", "--gold-out", "run/labels.csv"),
        ("jury", "labels.csv", "--gold-file", "more/a.csv", "-o", "more/a.csv"),
        ("report", "run", "labels.csv", "--page", "labels.csv"),
        ("report", "run", "labels.csv", "--page", "run/labels.csv"),
        ("report", "run", "--content", "more/a.csv", "--page", "more/a.csv"),
        ("report", "run", "-o", "store/files-0123456789abcdef/items-00000.parquet"),
        ("convert", "labels.csv", "store/manifest.json", "--to", "csv"),
        ("convert", "labels.csv", "run/labels/part-0.parquet"),
        ("aggregate", "circle", "-o", "new"),
        ("aggregate", "labels.csv", "-o", "circle/new"),
        ("convert", "labels.csv", "circle"),
        ("report", "circle"),
    ],
    ids=" ".join,
)
@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_an_output_that_is_an_input_a_link_or_part_of_a_run_is_refused_before_the_work(
    words: tuple[str, ...], run, small_folder: Path
) -> None:
    assert run("aggregate", "labels.csv", "-o", "run", "--no-report").code == 0
    (small_folder / "link").symlink_to("run")
    (small_folder / "dangling").symlink_to("nowhere")
    (small_folder / "circle").symlink_to("circle")
    (small_folder / "linked.csv").symlink_to("labels.csv")
    for name in ("more/a.csv", "more/b.csv", "store/files-0123456789abcdef/items-00000.parquet", "store/manifest.json"):
        (small_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (small_folder / name).write_bytes((small_folder / "labels.csv").read_bytes())
    (small_folder / "run" / "labels").mkdir()
    (small_folder / "run" / "labels" / "part-0.parquet").write_text("a part of the labels")
    before = {path: path.read_bytes() for path in small_folder.rglob("*") if path.is_file()}
    outcome = run(*words)
    assert outcome.code == BAD_INPUT
    assert "12 annotations" not in outcome.err, "the work had begun"
    assert {path: path.read_bytes() for path in small_folder.rglob("*") if path.is_file()} == before
    assert not list(small_folder.glob(".*"))


def test_every_path_of_a_command_is_known_as_read_or_written() -> None:
    """What is not listed is not compared; these may be what they like: states, rows that only grow, a run to go on."""
    known = {*READ, *WRITTEN, "checkpoint", "rows", "onwards"}
    for name, (module, _) in COMMANDS.items():
        command = getattr(import_module(f"crowdprism.cli.{module}"), name)
        if callable(command) and not isinstance(command, typer.Typer):
            parameters = inspect.signature(expand_groups(command)).parameters
            assert {one for one, about in parameters.items() if "Path" in str(about.annotation)} <= known, name


def test_a_run_of_another_kind_is_replaced_only_with_force(run, small_folder: Path) -> None:
    assert run("diagnose", "labels.csv", "-o", "run").code == 0
    outcome = run("aggregate", "labels.csv", "-o", "run", "--no-report")
    assert (outcome.code, "--force" in outcome.err) == (BAD_INPUT, True)
    assert (small_folder / "run" / "findings.csv").exists()
    assert run("aggregate", "labels.csv", "-o", "run", "--no-report", "--force").code == 0
    assert not (small_folder / "run" / "findings.csv").exists()


def test_a_report_joins_the_run_and_the_next_run_replaces_it(run, small_folder: Path) -> None:
    assert run("aggregate", "labels.csv", "-o", "run", "--no-report").code == 0
    assert run("report", "run", "labels.csv").code == 0
    assert (small_folder / "run" / "report.html").exists()
    assert run("aggregate", "labels.csv", "-o", "run", "--no-report").code == 0
    assert not (small_folder / "run" / "report.html").exists()


def test_labels_corrected_by_hand_are_not_replaced_without_force(run, small_folder: Path) -> None:
    assert run("aggregate", "labels.csv", "-o", "run", "--no-report").code == 0
    (small_folder / "run" / "labels.csv").write_text("mine")
    outcome = run("aggregate", "labels.csv", "-o", "run", "--no-report")
    assert (outcome.code, "--force" in outcome.err) == (BAD_INPUT, True)
    assert (small_folder / "run" / "labels.csv").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (("aggregate", "labels.csv", "-o", "run", "--no-report"), 500),
        (
            ("train", "labels.csv", "-x", "x.csv", "--epochs", "1", "--network", "linear", "-o", "run", "--no-report"),
            900,
        ),
        (("convert", "labels.csv", "new.parquet"), 100),
    ],
    ids=lambda given: str(given[0]) if isinstance(given, tuple) else str(given),
)
def test_a_full_disk_is_one_sentence_and_an_exit_code(words: tuple[str, ...], limit: int, small_folder: Path) -> None:
    """The largest size that a file may have stands for the disk: writing more fails in the same way."""
    resource = pytest.importorskip("resource")
    (small_folder / "x.csv").write_text("item,x\n" + "".join(f"pic{i},{i % 2}\n" for i in range(6)))
    done = subprocess.run(
        [sys.executable, "-c", "from crowdprism.cli import main; main()", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert (done.returncode, "Traceback" in done.stderr) == (BAD_INPUT, False), done.stderr
    assert "File too large" in done.stderr
    left = {path.name for path in small_folder.iterdir()} - {"run.checkpoint"}
    assert left == {"labels.csv", "x.csv"}


def test_any_name_is_printed_where_the_output_is_ascii(small_folder: Path) -> None:
    (small_folder / "labels.csv").write_text("item,annotator,label\né,ann,日本\né,bob,c\n", encoding="utf-8")
    for words in (("aggregate", "labels.csv"), ("aggregate", "labels.csv", "--json"), ("info", "labels.csv")):
        done = subprocess.run(
            [sys.executable, "-m", "crowdprism", *words],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"},
        )
        assert done.returncode == 0, done.stderr
        assert words[0] == "info" or "é" in done.stdout.decode()

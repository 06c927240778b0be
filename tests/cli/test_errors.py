"""What the command says when something is wrong, and that it then leaves nothing behind."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from crowdprism.cli import BAD_INPUT, main

LABELS = "item,annotator,label\n" + "".join(f"pic{i},{who},{'yn'[i % 2]}\n" for i in range(6) for who in ("ann", "bob"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "labels.csv").write_text(LABELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path.parent / "cache"))
    return tmp_path


@pytest.fixture
def failed(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command that must fail; returns what it said, after looking that nothing was left behind."""

    def call(*arguments: object) -> str:
        before = sorted(here.rglob("*"))
        monkeypatch.setattr(sys, "argv", ["crowdprism", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == BAD_INPUT
        assert sorted(here.rglob("*")) == before
        shown = capsys.readouterr()
        assert shown.out == ""
        return " ".join(shown.err.split())

    return call


@pytest.mark.parametrize("command", ["aggregate", "info", "compare", "diagnose", "suggest"])
def test_a_missing_file_names_the_nearest(command: str, failed) -> None:
    assert "Did you mean labels.csv?" in failed(command, "lables.csv")


def test_missing_features_name_the_nearest(here: Path, failed) -> None:
    (here / "features.npy").write_bytes(b"")
    assert "Did you mean features.npy?" in failed("train", "labels.csv", "-x", "feature.npy")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("train", "labels.csv", "--feature", "x.npy"), "--features or -x"),
        (("aggregate", "labels.csv", "--outptu", "run"), "--output or -o"),
        (("aggregate", "labels.csv", "--Method", "mace"), "--method or -m"),
        (("train", "labels.csv", "--id_column", "x"), "--id-column"),
        (("compare", "labels.csv", "-s", "3"), "--seeds"),
    ],
)
def test_a_wrong_option_gets_the_nearest_in_both_spellings(words: tuple[str, ...], told: str, failed) -> None:
    said = failed(*words)
    assert told in said
    assert f"Try: crowdprism {words[0]} --help" in said


def test_a_wrong_command_gets_the_nearest(failed) -> None:
    assert "aggregate" in failed("agregate", "labels.csv")


def test_a_wrong_value_names_the_option(failed) -> None:
    assert "--seed" in failed("aggregate", "labels.csv", "--seed", "many")


def test_a_forgotten_file_is_asked_for(failed) -> None:
    assert "Missing annotation files" in failed("aggregate")


def test_a_wrong_column_is_answered_in_options_not_in_python(failed) -> None:
    said = failed("aggregate", "labels.csv", "--item", "picture")
    assert "--item" in said
    assert "item=" not in said


def test_reading_options_are_offered_where_they_help(here: Path, failed) -> None:
    (here / "labels.csv").write_text(LABELS + "pic9,ann,\n", encoding="utf-8")
    assert "--reading skip_missing=yes" in failed("aggregate", "labels.csv")
    assert "NAME=VALUE" in failed("aggregate", "labels.csv", "--reading", "skip")


def test_a_reading_option_is_heeded(here: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    (here / "labels.csv").write_text(LABELS + "pic9,ann,\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["crowdprism", "aggregate", "labels.csv", "--reading", "skip_missing=yes"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert "pic5" in capsys.readouterr().out


def test_features_of_other_items_show_three_of_each(here: Path, failed) -> None:
    (here / "x.csv").write_text("item,x\n" + "".join(f"img{i},{i}.5\n" for i in range(5)))
    said = failed("train", "labels.csv", "-x", "x.csv", "-o", "run")
    assert "'img0', 'img1', 'img2', ... (5 in all)" in said
    assert "'pic0', 'pic1', 'pic2', ... (6 in all)" in said


@pytest.mark.parametrize("command", ["report", "predict", "diagnose"])
def test_a_run_of_a_newer_version_says_so(command: str, here: Path, failed) -> None:
    import crowdprism as cp

    cp.make_aggregator("majority-vote").fit(cp.read_annotations("labels.csv")).result_.save("run")
    record = json.loads((here / "run" / "result.json").read_text())
    (here / "run" / "result.json").write_text(json.dumps({**record, "schema": 99}))
    (here / "x.csv").write_text("item,x\npic1,1.5\n")
    words = {
        "report": ("report", "run"),
        "predict": ("predict", "run", "-x", "x.csv"),
        "diagnose": ("diagnose", "labels.csv", "--run", "run"),
    }
    assert "newer crowdprism" in failed(*words[command])


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


def test_a_folder_without_a_run_is_explained_in_commands(here: Path, failed) -> None:
    said = failed("report", ".")
    assert "crowdprism aggregate" in said
    assert "save()" not in said

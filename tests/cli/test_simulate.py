"""`crowdprism simulate` writes annotations that can be read back, with gold."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from crowdprism import read_annotations
from crowdprism.cli.app import app
from crowdprism.errors import CrowdprismError


def run(*words: str):
    return CliRunner().invoke(app, ["simulate", *words], catch_exceptions=True)


def test_made_up_items_are_labelled_in_the_asked_pattern(tmp_path: Path) -> None:
    target = tmp_path / "labels.csv"
    words = ["--items", "200", "--classes", "4", "--annotators", "9", "--family", "one-coin", "--level", "0.8"]
    done = run(str(target), *words, "--amount", "5")
    assert done.exit_code == 0, done.output
    a = read_annotations(target)
    assert (a.n_items, a.n_annotators, a.n_annotations, a.n_classes) == (200, 9, 1000, 4)
    assert a.summary().label_accuracy == pytest.approx(0.8, abs=0.06)
    first = target.read_bytes()
    run(str(target), *words, "--amount", "5")
    assert target.read_bytes() == first
    run(str(target), *words, "--amount", "5", "--seed", "1")
    assert target.read_bytes() != first


def test_items_of_a_file_keep_their_names(tmp_path: Path) -> None:
    (tmp_path / "truth.csv").write_text(
        "photo,kind\n" + "".join(f"p{i},{'cat' if i % 3 else 'dog'}\n" for i in range(60))
    )
    target = tmp_path / "labels.csv"
    done = run(
        str(target), "--truth", str(tmp_path / "truth.csv"), "--item", "photo", "--label", "kind", "--copiers", "2"
    )
    assert done.exit_code == 0, done.output
    a = read_annotations(target)
    assert a.classes.tolist() == ["cat", "dog"]
    assert set(a.items.tolist()) == {f"p{i}" for i in range(60)}
    assert a.gold is not None


def test_machines_label_a_data_set(tmp_path: Path) -> None:
    target = tmp_path / "labels.csv"
    words = ["--dataset", "digits", "--machines", "2", "--items", "300", "--annotators", "3", "--amount", "0.5"]
    done = run(str(target), *words)
    assert done.exit_code == 0, done.output
    assert read_annotations(target).n_annotators == 3


@pytest.mark.parametrize("words", [["--family", "list"], ["--pattern", "list"]])
def test_choices_are_listed_without_writing(tmp_path: Path, words: list[str]) -> None:
    done = run(str(tmp_path / "labels.csv"), *words)
    assert done.exit_code == 0
    assert "per-item" in done.output or "hammer-spammer" in done.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--family", "hammers"], "hammer-spammer"),
        (["--items", "0"], "--items must be at least 1"),
        (["--classes", "1"], "--classes must be at least 2"),
        (["--machines", "1"], "--dataset"),
        (["--machines", "3", "--dataset", "digits"], "with experts"),
        (["--truth", "TRUTH", "--dataset", "digits"], "not both"),
        (["--truth", "TRUTH"], "no column 'item'"),
        (["--truth", "TRUTH", "--item", "a", "--label", "b"], "empty cells"),
        (["--truth", "TRUTH", "--item", "c", "--label", "a"], "more than once"),
    ],
)
def test_wrong_wishes_are_refused_and_nothing_is_written(tmp_path: Path, words: list[str], told: str) -> None:
    truth = tmp_path / "truth.csv"
    truth.write_text("a,b,c\n1,x,7\n2,,7\n")
    target = tmp_path / "labels.csv"
    done = run(str(target), *(str(truth) if word == "TRUTH" else word for word in words))
    assert isinstance(done.exception, CrowdprismError)
    assert told in str(done.exception)
    assert not target.exists()

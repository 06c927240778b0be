"""Files to work on, and the command line as a function."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from crowdprism.cli import BAD_INPUT, main, screen

TASKS = """task,worker,label
img1.png,ann,cat
img1.png,bob,cat
img1.png,cy,dog
img2.png,ann,dog
img2.png,bob,dog
img3.png,cy,cat
"""
SMALL_LABELS = "item,annotator,label\n" + "".join(
    f"pic{i},{who},{'yn'[i % 2]}\n" for i in range(6) for who in ("ann", "bob")
)
PEOPLE = (("ann", 0.05), ("bob", 0.1), ("cy", 0.45))
HOSTILE = "<script>alert(1)</script>"


class Outcome(NamedTuple):
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command line with some words."""
    monkeypatch.setattr(screen, "_interrupted", False)

    def call(*words: object, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["crowdprism", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as stop:
            main()
        return Outcome(int(stop.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def failed(small_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command that must fail and leave nothing behind; returns its message on one line."""

    def call(*arguments: object) -> str:
        before = sorted(small_folder.rglob("*"))
        monkeypatch.setattr(sys, "argv", ["crowdprism", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == BAD_INPUT
        assert sorted(small_folder.rglob("*")) == before
        shown = capsys.readouterr()
        assert shown.out == ""
        return " ".join(shown.err.split())

    return call


@pytest.fixture
def labels_csv(tmp_path: Path) -> Path:
    """Six labels of three tasks by three workers."""
    path = tmp_path / "labels.csv"
    path.write_text(TASKS, encoding="utf-8")
    return path


@pytest.fixture
def small_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a small labels.csv."""
    (tmp_path / "labels.csv").write_text(SMALL_LABELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path.parent / "cache"))
    return tmp_path


@pytest.fixture
def crowd_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with annotations that hold a hostile name, and features that separate the classes."""
    random = np.random.default_rng(0)
    truth = np.arange(80) % 2
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "annotator", "label", "says"])
        for item in range(80):
            name = HOSTILE if item == 0 else f"pic{item}"
            text = f"{'the cat purrs' if truth[item] else 'a dog barks'} {item}"
            for person, error in PEOPLE:
                writer.writerow([name, person, "yes" if truth[item] ^ (random.random() < error) else "no", text])
    with (tmp_path / "features.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "x", "y"])
        for item, (x, y) in enumerate(truth[:, None] * 4 + random.normal(size=(80, 2))):
            writer.writerow([HOSTILE if item == 0 else f"pic{item}", x, y])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def hostile() -> str:
    """The name of an item that would run as a script in a careless page."""
    return HOSTILE

"""What is printed, and where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crowdprism.cli import screen


@pytest.mark.filterwarnings("always")
def test_warnings_are_sentences_on_standard_error(run, tmp_path: Path) -> None:
    (tmp_path / "apart.csv").write_text("item,annotator,label\n1,ann,a\n1,bob,b\n2,cy,a\n2,dee,a\n")
    outcome = run("info", tmp_path / "apart.csv")
    assert "warning: The annotators form 2 groups that share no items" in outcome.err
    assert ".py" not in outcome.err


def test_no_color_is_honoured(crowd_folder: Path) -> None:
    environment = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "crowdprism", "aggregate", "nothing.csv"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert "\x1b[3" not in done.stderr
    assert "error:" in done.stderr


def test_cells_have_three_digits_and_missing_values_are_dashes() -> None:
    assert [screen.format_cell(cell) for cell in (0.12345, 3, "[b]x", None)] == ["0.123", "3", "[b]x", "-"]


def test_names_are_printed_as_text_and_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    screen.print_table("Title", ("name", "number"), [("[red]x[/red]", 1), ("y", 100)])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert any(line.split() == ["[red]x[/red]", "1"] for line in lines)
    ends = [len(line) for line in lines if line.endswith(("  1", "100"))]
    assert len(ends) == 2
    assert len(set(ends)) == 1


def test_an_interruption_is_told_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(screen, "_interrupted", False)
    for kept in ("the first part is kept.", "nothing was written."):
        screen.print_interrupted(kept)
    assert capsys.readouterr().err == "error: interrupted; the first part is kept.\n"


def test_no_name_steers_a_terminal(run, tmp_path: Path) -> None:
    odd = "\x1b]0;title\x07\x1b[2J\u202eann"
    (tmp_path / "labels.csv").write_text(f'item,annotator,label\n1,"{odd}",yes\n1,bob,"{odd}"\n2,"{odd}",yes\n')
    for words in (("info",), ("diagnose",), ("aggregate", "-o", tmp_path / "run"), ("aggregate", "--item", odd)):
        outcome = run(words[0], tmp_path / "labels.csv", *words[1:])
        assert "\x1b" not in outcome.out + outcome.err
        assert "\u202e" not in outcome.out + outcome.err
    assert "⟨U+001B⟩" in outcome.err

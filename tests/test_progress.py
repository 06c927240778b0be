"""The bar appears only where a person is waiting."""

from __future__ import annotations

import pytest

from crowdprism import progress as progress_room
from crowdprism.progress import progress, set_progress


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress_room, "PATIENCE_SECONDS", 0.0)
    yield
    set_progress(None)


def test_a_pipe_stays_clean(no_patience: None, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("counting", total=3) as bar:
        for _ in range(3):
            bar.advance()
    assert bar.done == 3
    assert capsys.readouterr() == ("", "")


def test_a_bar_shows_steps_and_note_on_standard_error_when_asked(
    no_patience: None, capsys: pytest.CaptureFixture[str]
) -> None:
    set_progress(True)
    with progress("counting", total=2) as bar:
        bar.advance(note="loss 0.5")
        bar.advance(note="loss 0.25")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "counting" in shown.err


def test_short_work_stays_silent(capsys: pytest.CaptureFixture[str]) -> None:
    set_progress(True)
    try:
        with progress("counting", total=1) as bar:
            bar.advance()
    finally:
        set_progress(None)
    assert capsys.readouterr().err == ""

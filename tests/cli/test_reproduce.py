"""`crowdprism reproduce` at the door: lists, runs, reports, refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crowdprism.cli.app import app
from crowdprism.errors import InvalidParameterError

STUDY = """
name = "mine"
title = "My comparison"
source = "me"
[parameters]
epochs = 1
network = "linear"
[[cells]]
name = "digits"
title = "Digits"
data = { dataset = "digits", n_items = 200 }
[methods.vote]
title = "NN-MV"
classifier = "nn-mv"
[methods.gold-like]
title = "NN-DSEM"
classifier = "nn-dsem"
[budgets.quick]
reduces = "everything"
seeds = [1]
[published.digits]
vote = [90.0, 1.0]
"""


def reproduce(*words: str) -> str:
    return CliRunner().invoke(app, ["reproduce", *words], catch_exceptions=False).output


def test_without_a_table_all_are_listed() -> None:
    output = reproduce()
    for name in ("T1", "T2", "T3", "T4", "T5", "T6", "confusions"):
        assert name in output


def test_a_study_of_ones_own_is_run_and_its_reductions_are_told(tmp_path: Path) -> None:
    study = tmp_path / "mine.toml"
    study.write_text(STUDY)
    output = reproduce(str(study), "--methods", "vote", "-o", str(tmp_path / "out"))
    assert "Reduced: everything" in output
    assert "90.00 ± 1.00" in output
    assert (tmp_path / "out" / "mine.md").is_file()
    again = reproduce(str(study), "--methods", "vote", "-o", str(tmp_path / "out"))
    assert "1 fits were stored before, 0 were run" in again


def test_report_only_runs_nothing_and_json_is_for_machines(tmp_path: Path) -> None:
    study = tmp_path / "mine.toml"
    study.write_text(STUDY)
    runner = CliRunner().invoke(app, ["-q", "reproduce", str(study), "--report-only", "--json", "-o", str(tmp_path)])
    lines = json.loads(runner.stdout)
    assert [line["measured"] for line in lines] == ["not measured", "not measured"]
    assert not (tmp_path / "rows.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["T7"], "There is no study 'T7'"),
        (["T2", "--budget", "fast"], "no budget 'fast'; it has"),
        (["T2", "--cells", "musik"], "no cell 'musik'; it has music, labelme"),
        (["T2", "--methods", "nn-mv,nnmv"], "no method 'nnmv'; it has nn-mv, "),
    ],
)
def test_wrong_wishes_are_refused_with_what_there_is(words: list[str], told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        reproduce(*words, "-o", str(tmp_path))
    assert not list(tmp_path.iterdir())

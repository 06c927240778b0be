"""The runner: nothing is lost, nothing is measured twice, and one bad fit does not stop the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from crowdprism.errors import MissingDatasetError
from crowdprism.experiments import (
    RowStore,
    make_plan,
    measuring,
    read_study,
    run,
    summarize,
    write_page,
)


def without_times(rows: dict[str, Any]) -> dict[str, Any]:
    return {key: {name: value for name, value in row.items() if name != "seconds"} for key, row in rows.items()}


def test_a_resumed_run_equals_an_uninterrupted_one_and_measures_nothing_twice(tiny_text: str, tmp_path: Path) -> None:
    study = read_study(tiny_text)
    whole, parts = RowStore(tmp_path / "whole.jsonl"), RowStore(tmp_path / "parts.jsonl")
    report = run(make_plan(study, "quick"), whole)
    assert (report.n_there, report.n_measured, report.failed) == (0, 12, ())
    run(make_plan(study, "quick", seeds=[1]), parts)
    parts.path.write_text(parts.path.read_text()[:-20])  # as if the power had failed while the last row was written
    second = run(make_plan(study, "quick"), parts)
    assert (second.n_there, second.n_measured) == (5, 7)
    assert without_times(parts.read()) == without_times(whole.read())
    assert run(make_plan(study, "quick"), parts).n_measured == 0


def test_a_failed_fit_is_a_row_with_its_reason_and_the_rest_goes_on(tiny_text: str, tmp_path: Path) -> None:
    broken = tiny_text.replace('parameters = { mode = "paper" }', 'parameters = { loss = "cccem" }')
    store = RowStore(tmp_path / "rows.jsonl")
    plan = make_plan(read_study(broken), "quick", seeds=[1])
    report = run(plan, store)
    assert len(report.failed) == 4
    assert all("loss must be 'ccem' or 'joint'" in row["reason"] for row in report.failed)
    result = summarize(plan, store.read())
    assert result.measured("easy", "f") is None
    assert result.measured("easy", "vote") is not None
    page = write_page(result, tmp_path)[0].read_text(encoding="utf-8")
    assert "4 fits failed; the first with InvalidParameterError: loss must be 'ccem' or 'joint'" in page
    assert run(plan, store).n_measured == 0  # a failure is not tried again ...
    assert len(run(plan, store, retry=True).failed) == 4  # ... unless that is asked for


def test_two_processes_measure_what_one_does(tiny_text: str, tmp_path: Path) -> None:
    plan = make_plan(read_study(tiny_text), "quick", methods=["vote"])
    one, two = RowStore(tmp_path / "one.jsonl"), RowStore(tmp_path / "two.jsonl")
    run(plan, one)
    run(plan, two, processes=2)
    assert without_times(one.read()) == without_times(two.read())


def test_after_ctrl_c_the_same_command_goes_on(tiny_text: str, tmp_path: Path) -> None:
    study = tmp_path / "slow.toml"
    study.write_text(tiny_text.replace("epochs = 2", "epochs = 40").replace("seeds = [1, 2]", "seeds = [1, 2, 3, 4]"))
    rows = tmp_path / "out" / "rows.jsonl"
    words = [
        sys.executable,
        "-m",
        "crowdprism",
        "reproduce",
        str(study),
        "--methods",
        "vote",
        "-o",
        str(tmp_path / "out"),
    ]
    running = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 120
    while not (rows.exists() and rows.read_text().count("\n") >= 2):
        assert running.poll() is None, running.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    told = running.communicate(timeout=120)[1]
    measured = [json.loads(line) for line in rows.read_text().splitlines()]
    if len(measured) < 8:  # unless it was done before the signal came
        assert running.returncode == 130
        assert f"{len(measured)} fits were measured and stored, {8 - len(measured)} are left" in told
        assert "The same command continues" in told
    assert all(row["status"] == "done" for row in measured)
    plan = make_plan(read_study(study.read_text()), "quick", methods=["vote"])
    assert run(plan, RowStore(rows)).n_there == len(measured)
    assert len(RowStore(rows).read()) == 8


def test_a_missing_data_set_ends_the_run_and_says_how_to_get_it(
    tiny_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROWDPRISM_DATA", str(tmp_path))
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path / "cache"))
    plan = make_plan(read_study(tiny_text.replace('dataset = "digits"', 'dataset = "music"')), "quick")
    with pytest.raises(MissingDatasetError, match=r"'music' was not found(.|\n)*set CROWDPRISM_DATA"):
        run(plan, RowStore(tmp_path / "rows.jsonl"))


def test_a_place_that_cannot_be_written_is_noticed_before_the_work(
    tiny_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(measuring, "measure", lambda *given, **options: pytest.fail("worked"))
    with pytest.raises(OSError, match="file"):
        run(make_plan(read_study(tiny_text), "quick"), RowStore(tmp_path / "file" / "rows.jsonl"))

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

import numpy as np
import pytest

from crowdprism.errors import MissingDatasetError
from crowdprism.experiments import RowStore, make_plan, read_study, run, summarize, write_page
from crowdprism.experiments.problems import make_problem


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
    assert all("loss must be one of" in row["reason"] for row in report.failed)
    result = summarize(plan, store.read())
    assert result.measured("easy", "f") is None
    assert result.measured("easy", "vote") is not None
    page = write_page(result, tmp_path)[0].read_text(encoding="utf-8")
    assert "4 fits failed; the first with InvalidParameterError: loss must be one of" in page
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
        assert "The same command goes on" in told
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
    with pytest.raises(MissingDatasetError, match=r"'music' is not here(.|\n)*set CROWDPRISM_DATA"):
        run(plan, RowStore(tmp_path / "rows.jsonl"))


def test_a_place_that_cannot_be_written_is_noticed_before_the_work(tiny_text: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    worked: list[str] = []
    with pytest.raises(OSError, match="file"):
        run(make_plan(read_study(tiny_text), "quick"), RowStore(tmp_path / "file" / "rows.jsonl"), tell=worked.append)
    assert not worked


def test_validation_items_are_drawn_apart_from_the_training_items(tiny_text: str) -> None:
    data = make_plan(read_study(tiny_text), "quick").cells[0].data
    one, again, other = make_problem(data, 1), make_problem.__wrapped__(data, 1), make_problem(data, 2)
    assert (len(one.X), len(one.validation["X_valid"]), one.y.n_items) == (250, 50, 250)
    np.testing.assert_array_equal(one.X, again.X)
    np.testing.assert_array_equal(one.y.label, again.y.label)
    assert not np.array_equal(one.X, other.X)
    rows = {row.tobytes() for row in one.X}
    assert not rows & {row.tobytes() for row in one.validation["X_valid"]}


def test_the_labels_of_a_family_follow_its_confusions_in_the_order_of_annotators(tiny_text: str) -> None:
    problem = make_problem(make_plan(read_study(tiny_text), "quick").cells[0].data, 1)
    assert problem.truth.shape == (4, 10, 10)
    np.testing.assert_allclose(np.diagonal(problem.truth, axis1=1, axis2=2), 0.8)
    assert abs(problem.label_accuracy - 0.8) < 0.06  # 500 labels: three standard errors are 0.054
    assert problem.unlabelled == 0


def test_a_machine_crowd_is_made_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdprism.experiments import Crowd, Data, problems

    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path))
    crowd = Crowd("machine", n_annotators=3, case=2, probability=0.5, pool_size=500)
    data = Data("digits", "images", n_items=200, valid="drawn", n_valid=20, crowd=crowd)
    first = problems.simulated(data, 1)
    monkeypatch.setattr(problems, "labels_of_machines", lambda data, seed: pytest.fail("made again"))
    again = problems.simulated(data, 1)
    np.testing.assert_array_equal(first.label, again.label)
    assert problems.make_problem(data, 1).X.shape == (180, 1, 8, 8)

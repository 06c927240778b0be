"""What a run leaves behind, how it is interrupted and resumed, and what `compare` tells."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.cli import INTERRUPTED, main, screen

PEOPLE = (("ann", 0.05), ("bob", 0.1), ("cy", 0.45))
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Annotations with a hostile name, and features that tell the classes apart."""
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
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(screen, "_interruption_told", False)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["crowdprism", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0), *capsys.readouterr()

    return call


def train(*more: object) -> tuple[object, ...]:
    return ("train", "labels.csv", "-x", "features.csv", "--network", "linear", "-o", "run", *more)


def test_aggregate_leaves_result_tables_report_and_log(here: Path, run) -> None:
    assert run("aggregate", "labels.csv", "-o", "run")[0] == 0
    names = set(os.listdir(here / "run"))
    assert names == {"result.json", "arrays.npz", "labels.csv", "annotators.csv", "report.html", "log.txt"}
    page = (here / "run" / "report.html").read_text(encoding="utf-8")
    assert HOSTILE not in page
    assert "crowdprism aggregate labels.csv -o run" in page
    log = (here / "run" / "log.txt").read_text(encoding="utf-8")
    assert log.startswith("crowdprism aggregate labels.csv -o run\n")
    assert "240 annotations" in log


def test_no_report_leaves_it_out(here: Path, run) -> None:
    assert run("aggregate", "labels.csv", "-o", "run", "--no-report")[0] == 0
    assert not (here / "run" / "report.html").exists()


def test_a_report_that_fails_costs_only_the_report(here: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*rest: object, **more: object) -> None:
        raise RuntimeError("by hand")

    monkeypatch.setattr(cp.FitResult, "report", broken)
    code, _, said = run("aggregate", "labels.csv", "-o", "run")
    assert code == 0
    assert "the report was left out (RuntimeError: by hand)" in said
    assert (here / "run" / "labels.csv").exists()


def test_train_leaves_a_classifier_and_no_checkpoint(here: Path, run) -> None:
    assert run(*train("--epochs", 3, "--no-report"))[0] == 0
    assert {"classifier.json", "weights.safetensors", "features.json"} <= set(os.listdir(here / "run"))
    assert not (here / "run.checkpoint").exists()
    assert run("diagnose", "labels.csv", "--run", "run", "--json")[0] == 0


def interrupt_after(epochs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdprism.training import Trainer

    whole = Trainer._one_epoch

    def one_epoch(self: Trainer, bar: object) -> None:
        if self.outcome.epochs_done == epochs:
            monkeypatch.setattr(Trainer, "_one_epoch", whole)
            raise KeyboardInterrupt
        whole(self, bar)

    monkeypatch.setattr(Trainer, "_one_epoch", one_epoch)


@pytest.mark.filterwarnings("always")
def test_ctrl_c_keeps_the_run_and_resume_ends_as_if_never_interrupted(
    here: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*train("--epochs", 6, "--no-report"))[0] == 0
    whole = (here / "run" / "labels.csv").read_bytes()
    interrupt_after(3, monkeypatch)
    code, _, said = run(*train("--epochs", 6, "--no-report"))
    assert code == INTERRUPTED
    assert "run holds what was learned so far" in said
    assert "--epochs 6 --no-report --resume" in said
    assert (here / "run" / "labels.csv").exists()
    assert (here / "run.checkpoint").is_dir()
    assert run(*train("--epochs", 6, "--no-report", "--resume"))[0] == 0
    assert (here / "run" / "labels.csv").read_bytes() == whole
    assert not (here / "run.checkpoint").exists()


def test_resume_without_anything_to_resume_says_so(here: Path, run) -> None:
    code, _, said = run(*train("--resume"))
    assert code == 2
    assert "nothing to resume" in said


@pytest.mark.filterwarnings("always")
def test_resuming_another_run_is_refused_in_options(here: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_after(2, monkeypatch)
    assert run(*train("--epochs", 6, "--no-report"))[0] == INTERRUPTED
    code, _, said = run(*train("--epochs", 7, "--no-report", "--resume"))
    assert code == 2
    assert "leave out --resume" in said


def test_texts_of_the_annotation_file_train_and_predict(here: Path, run) -> None:
    words = ("train", "labels.csv", "-t", "says", "--embedding", "words", "-o", "run", "--no-report", "--epochs", 20)
    code, _, said = run(*words)
    assert code == 0, said
    assert "words and pairs of words" in said
    (here / "new.csv").write_text("item,says\nn1,the cat purrs and purrs\nn2,a dog barks\n")
    _, out, _ = run("predict", "run", "-x", "new.csv")
    assert [row["label"] for row in csv.DictReader(out.splitlines())] == ["yes", "no"]


def test_quiet_works_before_and_after_the_command(here: Path, run) -> None:
    assert run("-q", "aggregate", "labels.csv")[2] == ""
    assert run("aggregate", "labels.csv", "-q")[2] == ""


def test_compare_ranks_and_recommends(here: Path, run) -> None:
    words = ("compare", "labels.csv", "-m", "majority-vote,dawid-skene,crowdlayer", "--seeds", 2)
    code, out, said = run(*words, "--report", "c.html")
    assert code == 0, said
    assert "Methods in order of merit" in out
    assert "crowdlayer failed: It is a classifier and needs features of the items." in out
    page = (here / "c.html").read_text(encoding="utf-8")
    assert "Methods compared" in page
    assert "crowdlayer failed: It is a classifier" in page
    assert HOSTILE not in page
    record = json.loads(run(*words, "--json")[1])
    assert record["recommended"] in ("majority-vote", "dawid-skene")
    assert record["reason"]
    assert [row["method"] for row in record["methods"]][-1] == "crowdlayer"


def test_compare_takes_features(here: Path, run) -> None:
    words = ("compare", "labels.csv", "-x", "features.csv", "-m", "majority-vote,geocrowdnet", "--epochs", 5, "--json")
    record = json.loads(run(*words, "--seeds", 1)[1])
    assert all(row["log_likelihood"] is not None for row in record["methods"])


def test_compare_shows_what_was_measured_when_interrupted(here: Path, run, monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdprism.comparison import running

    fitted = running.fitted

    def impatient(name: str, *rest: object) -> cp.FitResult:
        if name == "glad":
            raise KeyboardInterrupt
        return fitted(name, *rest)

    monkeypatch.setattr(running, "fitted", impatient)
    code, out, said = run("compare", "labels.csv", "-m", "majority-vote,glad", "--seeds", 1)
    assert code == INTERRUPTED
    assert "majority-vote" in out
    assert "methods measured so far: 1" in said


def test_a_signal_ends_the_command_with_a_sentence_and_code_130(here: Path) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "crowdprism", "aggregate", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(3)  # it now waits for standard input
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == INTERRUPTED, said
    assert "nothing was written" in said


def test_a_reader_that_had_enough_is_no_error(here: Path) -> None:
    command = f"{sys.executable} -m crowdprism -q aggregate labels.csv | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("item,label")
    assert "Traceback" not in done.stderr


def test_no_color_is_honoured(here: Path) -> None:
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    request = {
        "bash": {"COMP_WORDS": "crowdprism agg", "COMP_CWORD": "1"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "crowdprism agg"},
        "fish": {"_TYPER_COMPLETE_ARGS": "crowdprism agg", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    environment = {**os.environ, "_CROWDPRISM_COMPLETE": f"complete_{shell}", **request}
    command = Path(sys.executable).with_name("crowdprism")
    if not command.exists():
        pytest.skip("the command is not installed beside this Python")
    done = subprocess.run([command], capture_output=True, text=True, env=environment, timeout=120)
    assert "aggregate" in done.stdout

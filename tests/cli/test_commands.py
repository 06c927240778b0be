"""The command line as a stranger meets it."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from crowdprism.cli import BAD_INPUT, main

LABELS = """task,worker,label
img1.png,ann,cat
img1.png,bob,cat
img1.png,cy,dog
img2.png,ann,dog
img2.png,bob,dog
img3.png,cy,cat
"""


class Outcome:
    """Exit code and what was printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def call(*arguments: object, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["crowdprism", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def labels_csv(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text(LABELS, encoding="utf-8")
    return path


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_command_has_help_with_an_example(run) -> None:
    from crowdprism.cli.app import app

    assert run("--help").code == 0
    for command in app.registered_commands:
        shown = run(command.callback.__name__.replace("_", "-"), "--help")
        assert shown.code == 0
        assert "Example" in shown.out, command.callback.__name__


def test_labels_go_to_standard_output_in_the_users_own_names(run, labels_csv: Path) -> None:
    outcome = run("aggregate", labels_csv, "-m", "majority-vote")
    assert outcome.code == 0
    assert [(row["item"], row["label"]) for row in rows_of(outcome.out)] == [
        ("img1.png", "cat"),
        ("img2.png", "dog"),
        ("img3.png", "cat"),
    ]
    assert "task" in outcome.err, "how columns were mapped is told on standard error"


def test_a_pipe_in_and_a_pipe_out(run) -> None:
    outcome = run("-q", "aggregate", "-", "-m", "majority-vote", stdin=LABELS)
    assert [row["label"] for row in rows_of(outcome.out)] == ["cat", "dog", "cat"]
    assert outcome.err == ""


def test_a_run_folder_holds_result_labels_and_annotators(run, labels_csv: Path, tmp_path: Path) -> None:
    from crowdprism import load

    folder = tmp_path / "run"
    assert run("aggregate", labels_csv, "-o", folder).code == 0
    assert load(folder).items.tolist() == ["img1.png", "img2.png", "img3.png"]
    labels = rows_of((folder / "labels.csv").read_text(encoding="utf-8"))
    assert [row["annotations"] for row in labels] == ["3", "2", "1"]
    people = rows_of((folder / "annotators.csv").read_text(encoding="utf-8"))
    assert [row["annotator"] for row in people] == ["ann", "bob", "cy"]
    assert all(0 <= float(row["accuracy_low"]) <= float(row["accuracy_high"]) <= 1 for row in people)
    assert run("aggregate", labels_csv, "-o", folder).code == 0, "a run may be repeated in place"


def test_json_is_for_machines(run, labels_csv: Path) -> None:
    record = json.loads(run("aggregate", labels_csv, "--json").out)
    assert record["classes"] == ["cat", "dog"]
    assert len(record["labels"]) == 3


def test_names_cannot_run_as_formulas_in_a_spreadsheet(run, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("item,annotator,label\n\"=cmd|' /C calc'!A0\",@ann,+yes\nx,bob,no\n")
    folder = tmp_path / "run"
    assert run("aggregate", tmp_path / "labels.csv", "-o", folder, "-m", "majority-vote").code == 0
    cells = (folder / "labels.csv").read_text() + (folder / "annotators.csv").read_text()
    assert "'=cmd" in cells
    assert "'+yes" in cells
    assert "'@ann" in cells


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("aggregate", "lables.csv"), "labels.csv"),
        (("aggregate", "labels.csv", "-m", "david-skene"), "dawid-skene"),
        (("aggregate", "labels.csv", "--item", "picture"), "task"),
        (("aggregate", "labels.csv", "-f", "csvv"), "csv"),
        (("aggregate", "labels.csv", "-o", "labels.csv"), "another folder"),
    ],
)
def test_bad_input_says_what_to_do_and_writes_nothing(
    arguments: tuple[str, ...], told: str, run, labels_csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(labels_csv.parent)
    outcome = run(*arguments)
    assert outcome.code == BAD_INPUT
    assert told in outcome.err
    assert outcome.out == ""
    assert [path.name for path in labels_csv.parent.iterdir()] == ["labels.csv"]


def test_a_folder_of_something_else_is_never_replaced(run, labels_csv: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    outcome = run("aggregate", labels_csv, "-o", tmp_path / "thesis")
    assert outcome.code == BAD_INPUT
    assert (tmp_path / "thesis" / "chapter.txt").exists()


def test_convert_and_back_keeps_every_annotation(run, labels_csv: Path, tmp_path: Path) -> None:
    from crowdprism import read_annotations

    assert run("convert", labels_csv, tmp_path / "labels.parquet").code == 0
    assert run("convert", tmp_path / "labels.parquet", tmp_path / "again.csv").code == 0
    assert read_annotations(tmp_path / "again.csv") == read_annotations(labels_csv)


def test_info_counts_and_measures_agreement(run, labels_csv: Path) -> None:
    shown = run("info", labels_csv).out
    assert "6 annotations of 3 items by 3 annotators" in shown
    record = json.loads(run("info", labels_csv, "--json").out)
    assert record["summary"]["n_annotations"] == 6
    assert "agreement" in record


def test_the_demo_runs_and_finds_the_spammers(run) -> None:
    record = json.loads(run("demo", "--json").out)
    by_name = {row["method"]: row for row in record["methods"]}
    assert len(by_name) >= 2
    best = max(row["test accuracy"] for row in record["methods"])
    assert best > 0.85
    suspects = [person["annotator"].rsplit("-", 1)[0] for person in record["unreliable"]]
    assert suspects.count("spammer") == 8
    assert "adversary" in suspects


@pytest.mark.filterwarnings("always")
def test_warnings_are_sentences_on_standard_error(run, tmp_path: Path) -> None:
    (tmp_path / "apart.csv").write_text("item,annotator,label\n1,ann,a\n1,bob,b\n2,cy,a\n2,dee,a\n")
    outcome = run("info", tmp_path / "apart.csv")
    assert "warning: The crowd falls apart" in outcome.err
    assert ".py" not in outcome.err


def digits_files(folder: Path) -> tuple[Path, Path]:
    """A CSV of annotations and a table of features for a hundred easy items."""
    import numpy as np

    random = np.random.default_rng(0)
    truth = np.arange(100) % 2
    rows = [
        f"pic{item},{person},{'yes' if (truth[item] ^ (random.random() < error)) else 'no'}"
        for item in range(100)
        for person, error in (("ann", 0.05), ("bob", 0.1), ("cy", 0.5))
    ]
    (folder / "labels.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    features = truth[:, None] * 3 + random.normal(size=(100, 2))
    lines = [f"pic{item},{x:.4f},{y:.4f}" for item, (x, y) in enumerate(features)]
    (folder / "features.csv").write_text("item,x,y\n" + "\n".join(lines) + "\n")
    return folder / "labels.csv", folder / "features.csv"


def test_train_then_predict_from_files(run, tmp_path: Path) -> None:
    labels, features = digits_files(tmp_path)
    folder = tmp_path / "run"
    trained = run("train", labels, "-x", features, "-o", folder, "--epochs", 20, "--network", "linear")
    assert trained.code == 0, trained.err
    people = {row["annotator"]: float(row["accuracy"]) for row in rows_of((folder / "annotators.csv").read_text())}
    assert min(people, key=people.get) == "cy"
    predicted = rows_of(run("-q", "predict", folder, "-x", features).out)
    truth = ["no", "yes"] * 50
    assert sum(row["label"] == right for row, right in zip(predicted, truth, strict=True)) > 90
    assert run("predict", folder, "-x", features, "-o", tmp_path / "new.csv").code == 0
    assert rows_of((tmp_path / "new.csv").read_text()) == predicted


def test_train_without_features_offers_aggregate(run, labels_csv: Path) -> None:
    outcome = run("train", labels_csv)
    assert outcome.code == BAD_INPUT
    assert "crowdprism aggregate" in outcome.err


def test_features_of_other_items_show_three_ids_of_each(run, labels_csv: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("item,x\n1,0.5\n2,0.25\n")
    outcome = run("train", labels_csv, "-x", tmp_path / "x.csv")
    assert outcome.code == BAD_INPUT
    assert "img1.png" in outcome.err
    assert "1, 2" in outcome.err


def test_predicting_from_labels_alone_says_that_there_is_no_classifier(run, labels_csv: Path, tmp_path: Path) -> None:
    run("aggregate", labels_csv, "-m", "majority-vote", "-o", tmp_path / "run")
    (tmp_path / "x.csv").write_text("item,x\n1,0.5\n2,0.25\n")
    outcome = run("predict", tmp_path / "run", "-x", tmp_path / "x.csv")
    assert outcome.code == BAD_INPUT
    assert "crowdprism train" in outcome.err

"""`crowdprism aggregate` as a stranger meets it."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from crowdprism.cli import BAD_INPUT


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_labels_go_to_standard_output_in_the_users_own_names(run, labels_csv: Path) -> None:
    outcome = run("aggregate", labels_csv, "-m", "majority-vote")
    assert outcome.code == 0
    assert [(row["item"], row["label"]) for row in rows_of(outcome.out)] == [
        ("img1.png", "cat"),
        ("img2.png", "dog"),
        ("img3.png", "cat"),
    ]
    assert "task" in outcome.err, "how columns were read is reported on standard error"


def test_json_is_for_machines(run, labels_csv: Path) -> None:
    record = json.loads(run("aggregate", labels_csv, "--json").out)
    assert record["classes"] == ["cat", "dog"]
    assert [set(row) for row in record["labels"]] == [{"item", "label", "confidence", "probability"}] * 3
    assert set(record["annotator_accuracy"][0]) >= {"annotator", "accuracy", "accuracy_low", "accuracy_high"}
    assert record["account"]["n_gold"] == 0
    assert 0 <= record["account"]["expected_accuracy"]["low"] < record["account"]["expected_accuracy"]["high"] <= 1


def test_the_first_sentence_is_how_right_the_labels_are_and_how_to_know_more(crowd_folder: Path, run) -> None:
    _, said, _ = run("aggregate", "labels.csv", "-o", "run", "--no-report")
    first = said.splitlines()[0]
    assert first.startswith("Expected right: ")
    assert "nothing here was checked against gold" in first
    assert first.endswith("points. Ask for them: crowdprism audit run -n 40 -o questions.csv")
    rows = rows_of((crowd_folder / "run" / "labels.csv").read_text(encoding="utf-8"))
    assert list(rows[0]) == ["item", "label", "confidence", "probability", "annotations", "agreement"]
    assert float(rows[0]["confidence"]) < 0.9


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


def test_aggregate_leaves_result_tables_report_and_log(crowd_folder: Path, hostile: str, run) -> None:
    assert run("aggregate", "labels.csv", "-o", "run")[0] == 0
    names = set(os.listdir(crowd_folder / "run"))
    tables = {"labels.csv", "annotators.csv", "report.html", "log.txt"}
    assert names == {"manifest.json", "result.json", "arrays.npz", *tables}
    page = (crowd_folder / "run" / "report.html").read_text(encoding="utf-8")
    assert hostile not in page
    assert "crowdprism aggregate labels.csv -o run" in page
    log = (crowd_folder / "run" / "log.txt").read_text(encoding="utf-8")
    assert log.startswith("crowdprism aggregate labels.csv -o run\n")
    assert "240 annotations" in log


def test_no_report_leaves_it_out(crowd_folder: Path, run) -> None:
    assert run("aggregate", "labels.csv", "-o", "run", "--no-report")[0] == 0
    assert not (crowd_folder / "run" / "report.html").exists()

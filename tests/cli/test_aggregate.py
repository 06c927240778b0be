"""`crowdprism aggregate` as a stranger meets it."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
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


def test_gold_is_used_and_what_is_measured_against_it_has_not_seen_it(run, labels_csv: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_text("item,label\nimg1.png,dog\n", encoding="utf-8")
    used = run("aggregate", labels_csv, "--gold-file", gold, "--json")
    record = json.loads(used.out)
    assert record["labels"][0]["label"] == "dog"
    assert record["gold_used"] == 1
    assert record["accuracy_against_gold"] == 0.0
    assert "gold of 1 item was used" in used.err.replace("\n", " ")
    hidden = json.loads(run("aggregate", labels_csv, "--gold-file", gold, "--no-use-gold", "--json").out)
    assert hidden["labels"][0]["label"] == "cat"
    assert hidden["gold_used"] == 0


def test_the_first_sentence_is_how_right_the_labels_are_and_how_to_know_more(crowd_folder: Path, run) -> None:
    _, said, _ = run("aggregate", "labels.csv", "-o", "run", "--no-report")
    first = said.splitlines()[0]
    assert first.startswith("Expected right: ")
    assert "nothing here was checked against gold" in first
    assert first.endswith("points. Ask for them: crowdprism audit run -n 40 --page audit.html")
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
        (("aggregate", "labels.csv", "-o", "labels.csv"), "another name"),
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


@pytest.fixture
def copied_csv(tmp_path: Path) -> Path:
    """Three judges who are right in four of five cases, and four copies of a worse one; names are numbers."""
    random = np.random.default_rng(0)
    truth = random.integers(2, size=300)
    wrong = random.random((300, 4)) < (0.2, 0.2, 0.2, 0.4)
    table = truth[:, None] ^ wrong[:, [0, 1, 2, 3, 3, 3, 3]]
    rows = ["item,annotator,label"]
    rows += [
        f"{item},{who},{'yn'[label]}" for item, line in enumerate(table) for who, label in enumerate(line, start=1)
    ]
    path = tmp_path / "copied.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_copies_are_counted_once_and_the_screen_says_so(run, copied_csv: Path) -> None:
    outcome = run("aggregate", copied_csv, "--json")
    assert json.loads(outcome.out)["voices"] == [[4, 5, 6, 7]]
    said = "4, 5, 6 and 7 answer as one and are counted once: 7 annotators are 4 independent voices."
    assert said in " ".join(outcome.err.split())


def test_every_annotator_counts_where_nobody_depends_on_another(run, copied_csv: Path) -> None:
    outcome = run("aggregate", copied_csv, "--dependence", "none", "--json")
    assert json.loads(outcome.out)["voices"] == []
    assert "answer as one" not in outcome.err


def test_voices_can_be_named(run, copied_csv: Path) -> None:
    words = ("--one-voice", "4,5", "--one-voice", "6, 7", "-m", "majority-vote")
    record = json.loads(run("aggregate", copied_csv, *words, "--json").out)
    assert record["voices"] == [[4, 5], [6, 7]]
    assert "7 annotators are 5 independent voices" in record["warnings"][0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--one-voice", "4,9"), "--one-voice: 1 of 2 names given as one voice are not annotators: '9'"),
        (("--one-voice", "4,5", "--dependence", "none"), "contradict each other"),
        (("--dependence", "no"), "takes auto or none, not 'no'"),
        (("-m", "glad", "--dependence", "none"), "glad counts every annotator"),
    ],
)
def test_impossible_voices_are_explained(run, copied_csv: Path, words: tuple[str, ...], told: str) -> None:
    outcome = run("aggregate", copied_csv, *words)
    assert outcome.code == BAD_INPUT
    assert told in " ".join(outcome.err.split())


@pytest.mark.parametrize("words", [("aggregate", "-m"), ("train", "-m"), ("compare", "-m"), ("diagnose", "-m")])
def test_methods_are_listed_without_a_file(run, words: tuple[str, ...]) -> None:
    listed = run(*words, "list")
    assert listed.code == 0
    assert {"majority-vote", "geocrowdnet"} & set(listed.out.split())


def test_a_csv_file_as_output_gets_the_labels(run, labels_csv: Path, tmp_path: Path) -> None:
    assert run("aggregate", labels_csv, "-o", tmp_path / "out.csv").code == 0
    assert (tmp_path / "out.csv").read_text() == run("-q", "aggregate", labels_csv).out
    refused = run("aggregate", labels_csv, "-o", tmp_path / "out.html")
    assert refused.code == BAD_INPUT
    assert "out.html names a file" in refused.err
    assert not (tmp_path / "out.html").exists()


def test_many_classes_are_not_all_printed(run, tmp_path: Path) -> None:
    rows = [f"pic{item},p{person},class{item // 2}" for item in range(200) for person in range(3)]
    (tmp_path / "many.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    done = run("aggregate", tmp_path / "many.csv", "-o", tmp_path / "run", "--no-report")
    assert done.code == 0, done.err
    assert "The 30 most frequent of 100 classes." in done.out
    assert done.out.count("class") < 50

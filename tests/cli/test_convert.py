"""`crowdprism info` and `convert`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from crowdprism import read_annotations


def test_convert_and_back_keeps_every_annotation(run, labels_csv: Path, tmp_path: Path) -> None:
    assert run("convert", labels_csv, tmp_path / "labels.parquet").code == 0
    assert run("convert", tmp_path / "labels.parquet", tmp_path / "again.csv").code == 0
    assert read_annotations(tmp_path / "again.csv") == read_annotations(labels_csv)


def test_info_counts_and_measures_agreement(run, labels_csv: Path) -> None:
    shown = run("info", labels_csv).out
    assert "6 annotations of 3 items by 3 annotators" in shown
    record = json.loads(run("info", labels_csv, "--json").out)
    assert record["summary"]["n_annotations"] == 6
    assert "agreement" in record


def test_json_holds_arrays_as_lists(run, tmp_path: Path) -> None:
    rows = [f"pic{item},p{person},{(item * person) % 3}" for item in range(40) for person in range(60)]
    (tmp_path / "many.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    record = json.loads(run("-q", "info", tmp_path / "many.csv", "--json").out)
    assert len(record["agreement"]["annotators"]["raw"]) == 60
    assert "..." not in json.dumps(record)


def test_repeated_labels_are_no_more_than_all_pairs(run, tmp_path: Path) -> None:
    rows = [f"pic{item},ann,{item % 2}" for item in range(4) for _ in range(3)]
    (tmp_path / "again.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    told = run("info", tmp_path / "again.csv").out
    assert "100.00% of all item-annotator pairs" in told
    assert "by 1 annotator\n" in told
    assert "1 annotators" not in told


def test_labels_of_a_run_become_tasks_with_predictions(run, crowd_folder: Path) -> None:
    assert run("aggregate", "labels.csv", "-o", "run", "--no-report").code == 0
    done = run("convert", "run", "tasks.json", "--to", "label-studio", "--content", "features.csv")
    assert done.code == 0, done.err
    assert "labelling interface: <View>" in done.err
    tasks = json.loads(Path("tasks.json").read_text(encoding="utf-8"))
    with Path("run/labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    predicted = [task["predictions"][0] for task in tasks]
    assert [one["result"][0]["value"]["choices"] for one in predicted] == [[row["label"]] for row in rows]
    assert [one["score"] for one in predicted] == [float(row["confidence"]) for row in rows]
    assert {"item", "x", "y"} == set(tasks[0]["data"])


def test_info_begins_with_a_sentence_in_plain_words(run, labels_csv: Path, tmp_path: Path) -> None:
    assert run("-q", "info", labels_csv).out.startswith("Annotators agree")
    (tmp_path / "single.csv").write_text("item,annotator,label\n1,a,x\n2,b,y\n")
    assert run("-q", "info", tmp_path / "single.csv").out.startswith("No item has two labels")

"""`crowdprism audit`: questions out, answers in, gold out."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from crowdprism import read_annotations


def rows_of(path: str | Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def answer(path: Path, *, columns: tuple[str, ...] | None = None) -> Path:
    """Fill in the answers as the crowd folder's truth says; keep only some columns."""
    rows = rows_of(path)
    for row in rows:
        number = 0 if row["item"].startswith("<") else int(row["item"].removeprefix("pic"))
        row["answer"] = "yes" if number % 2 else "no"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_questions_hide_the_label_and_answers_give_the_accuracy(run, crowd_folder: Path) -> None:
    drawn = run("audit", "labels.csv", "-n", 40, "--content", "features.csv", "-o", "audit.csv")
    assert drawn.code == 0, drawn.err
    rows = rows_of("audit.csv")
    assert list(rows[0]) == ["item", "x", "y", "choices", "answer", "stratum", "probability", "audit"]
    assert {row["choices"] for row in rows} == {"no | yes"}
    assert {row["answer"] for row in rows} == {""}
    assert all(row["x"] for row in rows)
    found = run("audit", "labels.csv", "--answers", answer(Path("audit.csv")), "--gold-out", "gold.csv")
    assert found.code == 0, found.err
    assert "of the 80 labels are right; 95% interval" in found.out
    assert "more answers would halve the interval" in found.out
    assert "cy" in found.out
    assert len(rows_of("gold.csv")) == 40
    again = run("info", "labels.csv", "--gold-file", "gold.csv")
    assert "gold of 40 items" in again.err
    assert run("info", "labels.csv", "--gold-file", "audit.csv").err == again.err.replace("gold.csv", "audit.csv")


def test_deleted_columns_do_not_matter_with_the_same_options(run, crowd_folder: Path) -> None:
    run("audit", "labels.csv", "-n", 24, "--seed", 3, "-o", "audit.csv")
    answer(Path("audit.csv"), columns=("answer", "item"))
    record = json.loads(run("audit", "labels.csv", "--answers", "audit.csv", "-n", 24, "--seed", 3, "--json").out)
    assert (record["answered"], record["items"]) == (24, 80)
    assert record["accuracy"]["low"] <= record["accuracy"]["value"] <= record["accuracy"]["high"]
    wrong = run("audit", "labels.csv", "--answers", "audit.csv", "-n", 24)
    assert wrong.code == 2
    assert "were not asked in the audit 0-24-" in " ".join(wrong.err.split())
    assert "--number" in wrong.err


def test_a_run_folder_is_audited_as_it_is(run, crowd_folder: Path) -> None:
    run("aggregate", "labels.csv", "-o", "run", "--no-report")
    run("audit", "run", "-o", "audit.csv")
    answer(Path("audit.csv"))
    alone = json.loads(run("audit", "run", "--answers", "audit.csv", "--json").out)
    with_files = json.loads(run("audit", "run", "labels.csv", "--answers", "audit.csv", "--json").out)
    assert alone["annotators"] == []
    assert {one["name"] for one in with_files["annotators"]} == {"ann", "bob", "cy"}
    assert alone["accuracy"] == with_files["accuracy"]


def test_label_studio_tasks_come_back_as_answers(run, crowd_folder: Path) -> None:
    drawn = run("audit", "labels.csv", "-n", 20, "-o", "tasks.json", "--content", "features.csv")
    assert '<Choice value="no"/>' in drawn.err
    tasks = json.loads(Path("tasks.json").read_text())
    assert set(tasks[0]["data"]) == {"item", "x", "y", "audit"}
    for number, task in enumerate(tasks):
        result = [{"from_name": "answer", "to_name": "shown", "type": "choices", "value": {"choices": ["no"]}}]
        task |= {"id": number, "annotations": [{"completed_by": 1, "result": result}]}
    Path("export.json").write_text(json.dumps(tasks))
    record = json.loads(run("audit", "labels.csv", "--answers", "export.json", "--json").out)
    assert record["answered"] == 20


def test_answers_to_other_labels_are_refused(run, crowd_folder: Path) -> None:
    run("audit", "labels.csv", "-o", "audit.csv")
    answer(Path("audit.csv"))
    changed = Path("labels.csv").read_text().replace(",yes,", ",maybe,", 1)
    Path("labels.csv").write_text(changed)
    refused = run("audit", "labels.csv", "--answers", "audit.csv")
    assert refused.code == 2
    assert "the labels differ" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Use --page audit.html, --output audit.csv or --answers answers.csv"),
        (("-n", 3, "-o", "a.csv"), "at least 10 answers"),
        (("-o", "a.csv", "--to", "xml"), "no tool 'xml'"),
        (("-o", "a.csv", "--content", "nothing.csv"), "no file nothing.csv"),
        (("--gold-file", "labels.csv", "-o", "a.csv"), "nothing to audit"),
    ],
)
@pytest.mark.filterwarnings("ignore:Every annotated item has gold")
def test_bad_options_write_nothing(failed, words: tuple, message: str) -> None:
    assert message in failed("audit", "labels.csv", *words)


def test_gold_that_matches_no_item_is_an_error(failed, small_folder: Path) -> None:
    (small_folder / "gold.csv").write_text("item,label\nphoto,y\n")
    assert "None of the 1 gold items" in failed("info", "labels.csv", "--gold-file", "gold.csv")
    assert read_annotations("labels.csv").gold is None


def test_gold_of_an_unknown_item_is_a_warning(run, small_folder: Path) -> None:
    (small_folder / "gold.csv").write_text("item,label\npic0,y\nphoto,y\n")
    shown = run("aggregate", "labels.csv", "--gold-file", "gold.csv", "--json")
    assert "1 of 2 gold items are not among the items" in " ".join(shown.err.split())
    assert json.loads(shown.out)["accuracy_against_gold"] == 1.0

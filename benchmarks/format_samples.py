"""One sample of every annotation format, as its tool exports it, and tables with unusual content.

`frozen_behaviour.py` writes the samples to disk and reads them back through the public API.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

# (item, annotator, label): seven items, five annotators; the last item has one annotation.
TRIPLETS = [
    (item, 3 + (2 * item + k) % 5, ("cat", "dog", "emu")[(item * k) % 3]) for item in range(7, 13) for k in (0, 1, 2)
]
TRIPLETS.append((13, 4, "dog"))
ITEMS = sorted({item for item, _, _ in TRIPLETS})
LONG = ["item", "annotator", "label"]
WHEN = "2026-01-02T10:00:09.500Z"
N_LARGE_ROWS = 350_000  # with PADDING more than 32 MB, where a quicker reader took over when behaviour was frozen
PADDING = "x" * 90


@dataclass(frozen=True)
class Sample:
    """Files of one export by relative path, and how to read them.

    `format` is the name that a user can pass instead of letting the content decide; None where there is none. A
    sample with several files is read as a folder.
    """

    name: str
    files: Mapping[str, bytes]
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], *, delimiter: str = ",", quoting: Any = csv.QUOTE_MINIMAL
) -> bytes:
    """Return a table with a header as text in UTF-8."""
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows([header, *rows])
    return buffer.getvalue().encode()


def long_table(*rows: Sequence[Any], more: Sequence[str] = (), **options: Any) -> bytes:
    """Return a table with columns item, annotator, label and more; by default with the rows of TRIPLETS."""
    return table([*LONG, *more], rows or TRIPLETS, **options)


def as_json(value: Any, **options: Any) -> bytes:
    """Return a value as JSON."""
    return json.dumps(value, **options).encode()


def json_lines(records: Iterable[Any]) -> bytes:
    """Return one line of JSON for each record."""
    return "\n".join(map(json.dumps, records)).encode()


def parquet(frame: pl.DataFrame) -> bytes:
    """Return a data frame as a Parquet file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return the files as a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def numpy_file(**arrays: Any) -> bytes:
    """Return arrays as .npz, or a single array named `array` as .npy."""
    buffer = io.BytesIO()
    if set(arrays) == {"array"}:
        np.save(buffer, arrays["array"])
    else:
        np.savez(buffer, **arrays)
    return buffer.getvalue()


def matrix(missing: int = -1) -> np.ndarray:
    """Return TRIPLETS as class codes, (item, annotator)."""
    codes = np.full((len(ITEMS), 5), missing)
    for item, annotator, label in TRIPLETS:
        codes[item - 7, annotator - 3] = ("cat", "dog", "emu").index(label)
    return codes


def given_to(item: int) -> list[tuple[int, str]]:
    """Return annotators and labels of one item."""
    return [(annotator, label) for other, annotator, label in TRIPLETS if other == item]


# -- annotation tools ---------------------------------------------------------------------------------------


def label_studio_answer(annotator: Any, labels: list[str], **changes: Any) -> dict[str, Any]:
    """Return one annotation of a Label Studio task."""
    result = [{"from_name": "kind", "to_name": "img", "type": "choices", "value": {"choices": labels}}]
    plain = {"was_cancelled": False, "ground_truth": False, "lead_time": 4.25, "created_at": WHEN, "result": result}
    return {"completed_by": annotator, **plain, **changes}


def label_studio() -> list[dict[str, Any]]:
    """Return tasks, with a cancelled, a golden and an ambiguous annotation."""
    tasks: list[dict[str, Any]] = []
    for item in ITEMS:
        answers = [label_studio_answer({"id": who, "email": "bo@x.org"}, [label]) for who, label in given_to(item)]
        tasks.append({"id": item, "data": {"image": f"s3://b/{item}.jpg"}, "annotations": answers, "predictions": []})
    tasks[0]["annotations"] += [
        label_studio_answer(99, ["cat"], was_cancelled=True),
        label_studio_answer(1, ["emu"], ground_truth=True),
        label_studio_answer(98, ["cat", "dog"]),
    ]
    return tasks


def label_studio_min() -> list[dict[str, Any]]:
    """Return one record per annotation."""
    times = {"created_at": WHEN, "lead_time": 4.2, "updated_at": WHEN}
    return [
        {"annotation_id": n, "annotator": who, "id": item, "image": f"s3://b/{item}.jpg", "kind": label, **times}
        for n, (item, who, label) in enumerate(TRIPLETS)
    ]


def doccano() -> dict[str, bytes]:
    """Return one file per annotator; one record has no label, one has two."""
    records: dict[str, list[Any]] = {}
    for item, who, label in TRIPLETS:
        mine = records.setdefault(f"user{who}.jsonl", [])
        mine.append({"id": item, "text": f"text {item}", "label": [label], "Comments": []})
    records["user3.jsonl"].append({"id": 20, "text": "text 20", "label": [], "Comments": []})
    records["user3.jsonl"].append({"id": 21, "text": "text 21", "label": ["cat", "dog"], "Comments": []})
    return {name: json_lines(mine) for name, mine in records.items()}


def prodigy() -> list[dict[str, Any]]:
    """Return choices, one of them ignored."""
    options = [{"id": label, "text": label} for label in ("cat", "dog", "emu")]
    lines = []
    for item, who, label in TRIPLETS:
        answer = {"options": options, "accept": [label], "answer": "accept", "_view_id": "choice"}
        keys = {"_input_hash": item, "_task_hash": -item, "_annotator_id": f"ds-{who}", "_session_id": f"ds-{who}"}
        lines.append({"text": f"text {item}", **answer, **keys, "_timestamp": 1767349200 + item})
    return [*lines, {**lines[0], "answer": "ignore", "accept": []}]


def prodigy_binary() -> list[dict[str, Any]]:
    """Return accepted and rejected proposals."""
    answers = [("a", "accept"), ("b", "reject"), ("c", "accept"), ("d", "ignore")]
    return [
        {"text": "t", "label": "SPAM", "answer": answer, "_input_hash": 1, "_annotator_id": who}
        for who, answer in answers
    ]


def mturk(columns: Sequence[str], answers: Mapping[str, Sequence[str]]) -> bytes:
    """Return batch results with one item per task; the last assignment is rejected."""
    header = ["HITId", "AssignmentId", "WorkerId", "AssignmentStatus", "WorkTimeInSeconds", "Input.image_url", *columns]
    rows = [
        [f"3H{item}", f"3A{n}", f"A{who}", "Approved", 14, f"http://x/{item}.jpg", *answers[label]]
        for n, (item, who, label) in enumerate(TRIPLETS)
    ]
    rows.append(["3H7", "3A99", "A99", "Rejected", 1, "http://x/7.jpg", *answers["dog"]])
    return table(header, rows, quoting=csv.QUOTE_ALL)


def mturk_several() -> bytes:
    """Return batch results with two items per task and one missing answer."""
    header = ["HITId", "AssignmentId", "WorkerId", "AssignmentStatus", "WorkTimeInSeconds"]
    header += ["Input.image_url1", "Input.image_url2", "Answer.label1", "Answer.label2"]
    rows = [
        ["H1", "A1", "w3", "Approved", 10, "7.jpg", "8.jpg", "cat", "dog"],
        ["H1", "A2", "w4", "Approved", 20, "7.jpg", "8.jpg", "dog", ""],
    ]
    return table(header, rows)


def ground_truth() -> dict[str, bytes]:
    """Return worker responses in the folders that SageMaker makes."""
    times = {"acceptanceTime": "2026-01-02T10:00:00.000Z", "submissionTime": WHEN, "timeSpentInSeconds": 8.5}
    return {
        f"annotations/worker-response/iteration-1/{item}/2026-01-02_10-00-09.json": as_json(
            {
                "answers": [
                    {
                        "workerId": f"private.us-east-1.{who}",
                        **times,
                        "answerContent": {"crowd-image-classifier": {"label": label}},
                    }
                    for who, label in given_to(item)
                ]
            }
        )
        for item in ITEMS
    }


def ground_truth_requests() -> list[dict[str, Any]]:
    """Return what SageMaker sends to a consolidation function."""

    def answer(who: int, label: str) -> dict[str, Any]:
        content = json.dumps({"crowd-image-classifier": {"label": label}})
        return {"workerId": f"w{who}", "annotationData": {"content": content}}

    return [
        {
            "datasetObjectId": str(item),
            "dataObject": {"s3Uri": f"s3://b/{item}.jpg"},
            "annotations": [answer(who, label) for who, label in given_to(item)],
        }
        for item in ITEMS
    ]


def ground_truth_manifest() -> list[dict[str, Any]]:
    """Return consolidated labels, which no longer name annotators."""
    return [
        {"source-ref": f"s3://b/{n}.jpg", "kind": n, "kind-metadata": {"class-name": name, "confidence": 0.5 + n / 10}}
        for n, name in enumerate(["cat", "dog", "emu"])
    ]


def toloka() -> bytes:
    """Return assignments with a blank line, two golden tasks and a rejected one."""
    header = ["INPUT:image", "OUTPUT:kind", "GOLDEN:kind", "HINT:text", "ASSIGNMENT:task_id", "ASSIGNMENT:worker_id"]
    header += ["ASSIGNMENT:status", "ASSIGNMENT:submitted"]
    when = "2026-01-02T10:00:09.123"
    rows: list[list[str]] = [
        [f"{item}.jpg", label, "", "", f"000-{item}", f"w{who}", "APPROVED", when] for item, who, label in TRIPLETS
    ]
    rows.insert(2, [])
    rows.append(["20.jpg", "cat", "dog", "", "000-20", "w3", "APPROVED", when])
    rows.append(["20.jpg", "cat", "dog", "", "000-20", "w4", "REJECTED", when])
    return table(header, rows, delimiter="\t")


def argilla() -> list[dict[str, Any]]:
    """Return records with nested responses."""
    empty: dict[str, Any] = {"metadata": {}, "suggestions": {}, "vectors": {}, "status": "completed", "_server_id": "x"}
    return [
        {
            "id": str(item),
            "fields": {"text": "Late again"},
            "responses": {"kind": [{"value": label, "user_id": f"u{who}"} for who, label in given_to(item)]},
            **empty,
        }
        for item in ITEMS
    ]


def argilla_flat() -> list[dict[str, Any]]:
    """Return records with one list per field; each has a draft."""
    return [
        {
            "id": str(item),
            "status": "completed",
            "text": "Late again",
            "kind.responses": [*(label for _, label in given_to(item)), "cat"],
            "kind.responses.users": [*(f"u{who}" for who, _ in given_to(item)), "u99"],
            "kind.responses.status": [*("submitted" for _ in given_to(item)), "draft"],
        }
        for item in ITEMS
    ]


def cifar10h() -> bytes:
    """Return raw answers with an attention check."""
    header = ["annotator_id", "chosen_label", "true_label", "is_attn_check", "reaction_time", "cifar10_test_test_idx"]
    rows = [[0, 3, 3, 0, 1500, 11], [0, 9, 1, 1, 700, -99999], [1, 5, 3, 0, 2500, 11], [1, 5, 5, 0, 800, 12]]
    return table(header, rows)


def wide(missing: str) -> bytes:
    """Return a row per item and a column per annotator."""
    rows = [
        [item, *(missing if code < 0 else code for code in codes)] for item, codes in zip(ITEMS, matrix(), strict=True)
    ]
    return table(["", "3", "4", "5", "6", "7"], rows)


def large_table(prefix: str) -> bytes:
    """Return a table that is large enough for a quicker reader."""
    draws = np.random.default_rng(7)
    items, annotators = draws.integers(0, 60_000, N_LARGE_ROWS), draws.integers(0, 400, N_LARGE_ROWS)
    labels = np.array(["cat", "dog", "émeu"])[draws.integers(0, 3, N_LARGE_ROWS)]
    rows = zip(items.tolist(), annotators.tolist(), labels.tolist(), strict=True)
    lines = (f"{PADDING},{prefix}{item},{prefix}{annotator},{label}\n" for item, annotator, label in rows)
    return "".join(["comment,item,annotator,label\n", *lines]).encode()


def format_samples() -> list[Sample]:
    """Return at least one sample of every format that can be read."""
    frame = pl.DataFrame(TRIPLETS, schema=LONG, orient="row")
    codes = matrix()
    item, annotator = np.nonzero(codes >= 0)
    columns = {"item": item, "annotator": annotator, "label": codes[item, annotator]}
    min_records = label_studio_min()
    min_fields, min_rows = list(min_records[0]), [list(record.values()) for record in min_records]
    answers = {str(item): {str(who): len(label) + who % 2 for who, label in given_to(item)} for item in ITEMS}
    plain = {label: [label] for label in ("cat", "dog", "emu")}
    ticked = {label: [str(label == other).lower() for other in plain] for label in plain}
    elements = {label: [json.dumps([{"kind": {"label": label}}])] for label in plain}
    boxes = {label: [json.dumps([{"kind": {other: label == other for other in plain}}])] for label in plain}
    manifest = json_lines(ground_truth_manifest())
    flat = argilla_flat()
    with_truth = [(1, 1, 0, 0), (1, 2, 1, 0)]
    layouts = {
        "crowd-kit": ["task", "worker", "label"],
        "netease-crowd": ["taskId", "workerId", "answer"],
        "spark-crowd": ["example", "annotator", "value"],
        "cleanlab": ["task", "annotator", "label"],
        "long": ["Question ID", "Rater", "Response"],
    }
    return [
        Sample("numpy matrix", {"a.npy": numpy_file(array=codes)}, "numpy"),
        Sample("numpy matrix with gold", {"a.npz": numpy_file(answers=codes, gold=codes.max(axis=1))}, "numpy"),
        Sample("numpy columns", {"a.npz": numpy_file(**columns)}, "numpy"),
        Sample("label-studio", {"a.json": as_json(label_studio())}, "label-studio"),
        Sample("label-studio indented", {"a.json": as_json(label_studio(), indent=1)}, "label-studio"),
        Sample("label-studio by image", {"a.json": as_json(label_studio())}, "label-studio", {"item": "image"}),
        Sample("label-studio-min", {"a.json": as_json(min_records)}, "label-studio-min"),
        Sample("label-studio csv", {"a.csv": table(min_fields, min_rows)}, "label-studio-min"),
        Sample("label-studio tsv", {"a.tsv": table(min_fields, min_rows, delimiter="\t")}, "label-studio-min"),
        Sample("prodigy", {"a.jsonl": json_lines(prodigy())}, "prodigy"),
        Sample("prodigy binary", {"a.jsonl": json_lines(prodigy_binary())}, "prodigy"),
        Sample("argilla", {"a.json": as_json(argilla())}, "argilla"),
        Sample("argilla-flat", {"a.json": as_json(flat)}, "argilla-flat"),
        Sample("argilla-flat parquet", {"a.parquet": parquet(pl.DataFrame(flat))}, "argilla-flat"),
        Sample("ground-truth", ground_truth(), "ground-truth"),
        Sample("ground-truth-requests", {"a.json": as_json(ground_truth_requests())}, "ground-truth-requests"),
        Sample("ground-truth-manifest", {"output.manifest": manifest}, "ground-truth-manifest"),
        Sample("mturk", {"a.csv": mturk(["Answer.kind.label"], plain)}, "mturk"),
        Sample("mturk rejected", {"a.csv": mturk(["Answer.kind"], plain)}, "mturk", {"include_rejected": True}),
        Sample("mturk by task", {"a.csv": mturk(["Answer.kind"], plain)}, "mturk", {"item": "HITId"}),
        Sample("mturk ticked", {"a.csv": mturk([f"Answer.{label}.on" for label in plain], ticked)}, "mturk"),
        Sample("mturk elements", {"a.csv": mturk(["Answer.taskAnswers"], elements)}, "mturk"),
        Sample("mturk boxes", {"a.csv": mturk(["Answer.taskAnswers"], boxes)}, "mturk"),
        Sample("mturk several", {"a.csv": mturk_several()}, "mturk"),
        Sample("toloka", {"a.tsv": toloka()}, "toloka"),
        Sample("peerannot", {"answers.json": as_json({**answers, "99": {}})}, "peerannot"),
        Sample("peerannot folder", {"answers.json": as_json(answers), "metadata.json": as_json({"n_classes": 8})}),
        Sample("cifar10h", {"a.csv": cifar10h()}, "cifar10h"),
        *(Sample(name, {"a.csv": table(header, TRIPLETS)}, name) for name, header in layouts.items()),
        Sample("netease-crowd gold", {"a.csv": table([*layouts["netease-crowd"], "truth"], with_truth)}),
        Sample("long parquet", {"a.parquet": parquet(frame)}, "long"),
        Sample("long json", {"a.json": frame.write_json().encode()}, "long"),
        Sample("long json lines", {"a.jsonl": frame.write_ndjson().encode()}, "long"),
        Sample("doccano folder", doccano(), "doccano"),
        Sample("doccano zip", {"a.zip": zipped(doccano())}, "doccano"),
        Sample("doccano shared", {"all.jsonl": b"\n".join(doccano().values())}, "doccano"),
        Sample("matrix", {"answers.txt": "\n".join(" ".join(map(str, row)) for row in codes).encode()}, "matrix"),
        *(Sample(f"wide {gap!r}", {"a.csv": wide(gap)}, "wide") for gap in ("", "-1", "NaN", "None", "?")),
    ]  # fmt: skip


# -- tables with unusual content ----------------------------------------------------------------------------


def odd_samples() -> list[Sample]:
    """Return tables with unusual content; some must be refused."""
    rows = long_table()
    accents = long_table((1, "a", "café"), (1, "b", "thé"))
    lacking = long_table((1, "a", "x"), (1, "b", ""), (2, "a", "y"), (2, "", "x"), (3, "c", "nan"))
    repeated = long_table((1, "a", "x"), (1, "a", "y"), (1, "a", "x"), (2, "b", "y"))
    states = [(1, "a", "x", "approved"), (1, "b", "y", "Rejected"), (2, "a", "y", "ok"), (2, "b", "y", "draft")]
    status = long_table(*states, more=["status"])
    numbers = ["weight", "duration", "timestamp", "gold"]
    measured = [
        (1, "a", "x", 0.5, 2.5, "2026-01-02T10:00:00Z", "y"),
        (1, "b", "y", 1, "", "2026-01-02T11:00:00+01:00", "y"),
        (2, "a", "y", "", 1, "", ""),
    ]
    quoted = [("a, b", 'say "no"', "x"), ("two\nlines", "b", "y"), (" spaced ", "c", " y")]
    other_names = table(
        ["annotator", "label", "who", "what", "which"], [("-", "-", w, what, i) for i, w, what in TRIPLETS]
    )
    nulls = [{"item": 1, "annotator": who, "label": label} for who, label in (("a", "x"), ("b", None), ("c", "y"))]
    mixed = [{"item": 1, "annotator": "a", "label": "x"}, {"item": "1", "annotator": "a", "label": "y"}]
    truths = [{"item": 1, "annotator": "a", "label": True}, {"item": 1, "annotator": "b", "label": False}]
    of_people = {
        "ann.csv": table(["item", "label"], [(1, "x"), (2, "y")]),
        "bob.csv": table(["item", "label"], [(1, "y")]),
    }
    return [
        Sample("quoted cells", {"a.csv": long_table(*quoted)}),
        Sample("all cells quoted", {"a.csv": long_table(quoting=csv.QUOTE_ALL)}),
        Sample("semicolons", {"a.csv": long_table(delimiter=";")}),
        Sample("tabs", {"a.txt": long_table(delimiter="\t")}),
        Sample("carriage returns", {"a.csv": rows.replace(b"\n", b"\r\n")}),
        Sample("blank lines", {"a.csv": rows.replace(b"\n", b"\n\n")}),
        Sample("byte order mark", {"a.csv": b"\xef\xbb\xbf" + accents}),
        Sample("latin-1 unsaid", {"a.csv": accents.decode().encode("latin-1")}),
        Sample("latin-1", {"a.csv": accents.decode().encode("latin-1")}, options={"encoding": "latin-1"}),
        Sample("utf-16", {"a.csv": accents.decode().encode("utf-16")}, options={"encoding": "utf-16"}),
        Sample("gzip", {"a.csv.gz": gzip.compress(rows)}),
        Sample("gzip by content", {"export.bin": gzip.compress(rows)}),
        Sample("gzip cut off", {"a.csv.gz": gzip.compress(rows * 9)[:-20]}),
        Sample("zstd", {"a.csv.zst": pa.compress(rows, codec="zstd", asbytes=True)}),
        Sample("zip", {"a.zip": zipped({"a.csv": rows})}),
        Sample("missing cells", {"a.csv": lacking}),
        Sample("missing cells skipped", {"a.csv": lacking}, options={"skip_missing": True}),
        Sample("own marker", {"a.csv": rows.replace(b"emu", b"??")}, options={"missing": ["??"], "skip_missing": True}),
        Sample("null in json", {"a.json": as_json(nulls)}, options={"skip_missing": True}),
        Sample("leading zeros", {"a.csv": long_table(("007", 1, "yes"), ("7", 1, "no"))}),
        Sample("whole floats", {"a.csv": long_table(("1.0", "a", "0.0"), ("2.0", "a", "1.0"))}),
        Sample("fractions as labels", {"a.csv": long_table((1, "a", 0.5), (2, "a", 1.5))}),
        Sample("negative numbers", {"a.csv": long_table((-1, "a", -1), (2, "a", 1))}),
        Sample("huge numbers", {"a.csv": long_table((10**20, "a", "x"), (10**18 - 1, "a", "y"))}),
        Sample("numbers and text", {"a.csv": long_table((1, "a", "x"), ("two", 2, "y"))}),
        Sample("mixed types in json", {"a.json": as_json(mixed)}),
        Sample("truth values in json", {"a.json": as_json(truths)}),
        Sample("weights, times, gold", {"a.csv": long_table(*measured, more=numbers)}),
        Sample("unix time", {"a.csv": long_table((1, "a", "x", 1767349200.25), (1, "b", "y", 0), more=["timestamp"])}),
        Sample("dates", {"a.csv": long_table((1, "a", "x", "2026-01-02"), (1, "b", "y", ""), more=["timestamp"])}),
        Sample("dates as items", {"a.csv": long_table(("2026-01-02", "a", "x"), ("2026-01-03", "b", "y"))}),
        Sample("bad time", {"a.csv": long_table((1, "a", "x", "yesterday"), (2, "a", "y", 1), more=["timestamp"])}),
        Sample("bad weight", {"a.csv": long_table((1, "a", "x", "heavy"), (2, "a", "y", 1), more=["weight"])}),
        Sample("contradicting gold", {"a.csv": long_table((1, "a", "x", "x"), (1, "b", "y", "y"), more=["gold"])}),
        Sample("status", {"a.csv": status}),
        Sample("status ignored", {"a.csv": status}, options={"include_rejected": True}),
        Sample("repeats", {"a.csv": repeated}),
        Sample("last of repeats", {"a.csv": repeated}, options={"repeats": "last"}),
        Sample("repeats refused", {"a.csv": repeated}, options={"repeats": "error"}),
        Sample("classes given", {"a.csv": rows}, options={"classes": ["emu", "dog", "cat", "yak"]}),
        Sample("class not given", {"a.csv": rows}, options={"classes": ["dog", "cat"]}),
        Sample("columns named", {"a.csv": other_names}, options={"item": "which", "annotator": "who", "label": "what"}),
        Sample("column not there", {"a.csv": rows}, options={"label": "lab"}),
        Sample("file per annotator", of_people, options={"annotator_from": "filename"}),
        Sample("two files", {"a.csv": rows, "b.csv": long_table((7, 99, "yak"), (20, 3, "cat"))}),
        Sample("folder with gold", {"a.csv": rows, "gold.csv": table(["item", "label"], [(7, "cat")])}),
        Sample("folder of two formats", {"a.csv": rows, "b.json": as_json({"0": {"1": 2}})}),
        Sample("one class", {"a.csv": long_table((1, "a", "x"), (2, "b", "x"))}),
        Sample("uneven rows", {"a.csv": rows + b"3,b,x,y\n"}),
        Sample("header only", {"a.csv": table(LONG, [])}),
        Sample("empty", {"a.csv": b""}),
        Sample("no annotator", {"a.csv": table(["item", "label"], [(1, "x"), (2, "y")])}),
        Sample("prose", {"a.txt": b"hello world\nthis is\n"}),
        Sample("unknown format", {"a.csv": rows}, options={"format": "labelstudio"}),
        Sample("large, text", {"a.csv": large_table("item_")}),
        Sample("large, numbers", {"a.csv": large_table("")}),
        Sample("large, gzip", {"a.csv.gz": gzip.compress(large_table("item_"), 0)}),  # level 0: the file must be large
    ]  # fmt: skip

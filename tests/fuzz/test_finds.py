"""Files that once ended in a foreign exception, hung, or lost rows; each is as small as it could be made."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from crowdprism.errors import InvalidAnnotationsError, UnreadableFileError
from crowdprism.formats import read_annotations_with_report

LONG = b"item,annotator,label\n1,a,x\n2,b,y\n"
PRODIGY = {"_input_hash": 1, "_task_hash": 1, "_session_id": "a", "answer": "accept"}
RESULT = {"from_name": "kind", "value": {"choices": ["x"]}}
ODD_RESULT = {"from_name": "kind", "value": {"choices": [{}]}}
ANSWER = {"workerId": "w", "answerContent": "{}"}


def records(*items: Any) -> bytes:
    return json.dumps(items).encode()


def tasks(**changes: Any) -> bytes:
    annotation = {"completed_by": 1, "result": [RESULT]}
    return records({"id": 1, "data": {}, "annotations": [annotation]} | changes)


def array_file(header: str, content: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + content


def parquet(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


def archive(change: tuple[int, bytes] | None = None, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.csv", content)
    data = buffer.getvalue()
    if change is None:
        return data
    place = data.index(b"PK\x01\x02") + change[0]
    return data[:place] + change[1] + data[place + len(change[1]) :]


# Name of the file, its content, and a part of the message.
REFUSED: list[tuple[str, bytes, str]] = [
    ("number for annotations.json", records({"id": 1, "annotations": 5, "data": {}}), r"annotations is not as"),
    ("list for data.json", tasks(data=[]), r"data is not as"),
    ("text for an annotation.json", tasks(annotations=["x"]), r"annotations\[0\] is not as"),
    ("text for a result.json", tasks(annotations=[{"result": "x"}]), r"result is not as"),
    ("list for a value.json", tasks(annotations=[{"result": [{"from_name": "a", "value": []}]}]), "value is not as"),
    ("text for a duration.json", tasks(annotations=[{"result": [RESULT], "lead_time": "x"}]), "lead_time is not as"),
    (
        "object as gold.json",
        tasks(annotations=[{"completed_by": 1, "result": [RESULT]}, {"result": [ODD_RESULT], "ground_truth": True}]),
        "gold labels are not hashable",
    ),
    ("number accepted.jsonl", json.dumps(PRODIGY | {"accept": 5, "options": []}).encode(), "accept is not as"),
    ("object as label.jsonl", json.dumps(PRODIGY | {"label": {}}).encode(), "label is not as"),
    ("argilla list.json", records({"id": 1, "fields": {}, "responses": {"q": [5]}}), "is not as"),
    ("argilla text.json", records({"id": 1, "fields": {}, "responses": {"q": "ab"}}), "is not as"),
    (
        "argilla uneven.json",
        records({"id": 1, "q.responses": ["x", "y"], "q.responses.users": ["u"], "q.responses.status": ["submitted"]}),
        "2 responses .* but 1 users",
    ),
    ("worker list.json", records({"answers": [ANSWER, 5]}), r"answers\[1\] is not as"),
    ("no worker.json", records({"answers": [ANSWER, {}]}), "missing required field `workerId`"),
    ("time list.json", records({"answers": [ANSWER | {"timeSpentInSeconds": []}]}), "timeSpentInSeconds is not as"),
    ("request.json", records({"datasetObjectId": "1", "annotations": [5]}), "answer 0"),
    (
        "manifest.jsonl",
        b'{"source-ref": "a", "k": 1, "k-metadata": []}\n{"source-ref": "b", "k": 1, "k-metadata": {}}',
        "k-metadata is not as",
    ),
    ("doccano.jsonl", b'{"id": 1, "text": "a", "label": ["x"]}\n{"text": "b", "label": ["y"]}', "has no field 'id'"),
    ("late list.json", json.dumps({n: {"a": [n] if n > 25 else n} for n in range(30)}).encode(), "is not as"),
    ("surrogate.json", records({"item": "\ud800", "annotator": "a", "label": "x"}), "half of a surrogate pair"),
    ("same key.json", b'{"1": {"a": 0}, "1": {"a": 1}}', "the key '1' twice"),
    ("deep.json", b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    ("digits.json", b'[{"item": ' + b"9" * 5000 + b', "annotator": 1, "label": 2}]', "thousands of digits"),
    (
        "far away.json",
        records({"item": 1, "annotator": "a", "label": "x", "timestamp": "x" * 9}, {"item": 1}),
        "missing",
    ),
    ("huge.npy", array_file("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000, 1000000)}\n"), "0 bytes"),
    ("no cells.npy", array_file("{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000, 0)}\n"), "at least"),
    ("negative.npy", array_file("{'descr': '<i8', 'fortran_order': False, 'shape': (-1, -1)}\n", b"\0" * 8), "numbers"),
    ("dates.npy", array_file("{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1, 1)}\n", b"\0" * 8), "expected"),
    ("no header.npy", array_file("{'descr': \n"), "damaged"),
    ("deep header.npy", array_file("(" * 5000 + "\n"), "damaged"),
    ("header of numbers.npy", array_file("{'descr': 5, 'fortran_order': 5, 'shape': 5}\n"), "damaged"),
    ("version 9.npy", b"\x93NUMPY\x09\x00abc", "damaged"),
    ("scalar.npy", array_file("{'descr': '<i8', 'fortran_order': False, 'shape': ()}\n", b"\0" * 8), "shape"),
    ("method 99.zip", archive((10, b"\x63\x00"), a=LONG), "zip file"),
    ("encrypted.zip", archive((8, b"\x01\x00"), a=LONG), "zip file"),
    ("checksum.zip", archive((16, b"\1\2\3\4"), a=LONG), "zip file"),
    ("flag.csv.gz", b"\x1f\x8b\x08\xff" + b"\0" * 30, "gzip"),
    ("only magic.csv.gz", b"\x1f\x8b", "gzip"),
    ("only magic.csv.zst", b"\x28\xb5\x2f\xfd", "zstd"),
    ("cut.parquet", parquet(item=[1, 2], annotator=[1, 2], label=[0, 1])[:-20], "Parquet"),
    ("lists.parquet", parquet(item=[[1], [2]], annotator=[1, 2], label=[0, 1]), "not hashable"),
    ("return in a cell.csv", b"item,annotator,label\n1,a,x\ry\n2,b,y\n", "carriage return within a row in line 2"),
    ("return first in a cell.csv", b"item,annotator,label\n1,a,\r0\n2,b,y\n", "carriage return within a row in line 2"),
    ("return in the header.csv", b"item,anno\rtator,label\n1,a,x\n2,b,y\n", "carriage return within a row in line 1"),
    ("returns only.csv", LONG.replace(b"\n", b"\r"), "carriage return within a row|no known format"),
    ("return in a matrix.txt", b"0 1\r1 0\n", "carriage return"),
    ("open quote.csv", LONG + b'3,a,"x\n4,b,y\n', "unexpected end of data"),
    ("text after a quote.csv", LONG + b'3,"a"b,x\n', "expected after"),
    ("many columns.csv", b",".join(b"c%d" % number for number in range(60_000)) + b"\n", "60000 columns"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), REFUSED, ids=[name for name, _, _ in REFUSED])
def test_a_file_is_refused_with_its_name_and_reason(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises((UnreadableFileError, InvalidAnnotationsError), match=f"(?s){message}") as caught:
        read_annotations_with_report(path)
    assert name in str(caught.value)


# Name of the file, its content, and the triplets it holds.
READ: list[tuple[str, bytes, list[tuple[Any, Any, Any]]]] = [
    ("blank first line.csv", b"\n \r\n" + LONG, [(1, "a", "x"), (2, "b", "y")]),
    ("return in quotes.csv", LONG + b'3,a,"x\ry"\n', [(1, "a", "x"), (2, "b", "y"), (3, "a", "x\ry")]),
    ("quote in a cell.csv", LONG + b'3,5" disk,x\n', [(1, "a", "x"), (2, "b", "y"), (3, '5" disk', "x")]),
    ("two quotes.csv", LONG + b'3,5",x\n4,6",y\n', [(1, "a", "x"), (2, "b", "y"), (3, '5"', "x"), (4, '6"', "y")]),
    ("signs.csv", LONG + "3,\u2028\x0b\x1c,x\n".encode(), [(1, "a", "x"), (2, "b", "y"), (3, "\u2028\x0b\x1c", "x")]),
    (
        "large numbers.json",
        records({"item": "a", "annotator": 1, "label": 2**100}, {"item": "b", "annotator": 1, "label": 2}),
        [("a", 1, 2**100), ("b", 1, 2)],
    ),
    (
        "large id.json",
        records({"item": 2**63, "annotator": 1, "label": 1}, {"item": 5, "annotator": 1, "label": 2}),
        [(5, 1, 2), (2**63, 1, 1)],
    ),
    ("surrogate pair.json", b'{"1": {"a": "\\ud83d\\ude00", "b": "y"}}', [(1, "a", "\U0001f600"), (1, "b", "y")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "triplets"), READ, ids=[name for name, _, _ in READ])
def test_an_odd_file_is_read_whole(tmp_path: Path, name: str, content: bytes, triplets: list[tuple[Any, ...]]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    a, report = read_annotations_with_report(path)
    names = a.items[a.item].tolist(), a.annotators[a.annotator].tolist(), a.classes[a.label].tolist()
    assert list(zip(*names, strict=True)) == triplets
    assert report.n_rows == len(triplets)


def test_a_moment_out_of_range_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_bytes(
        records(*({"item": 1, "annotator": "a", "label": n, "timestamp": 10 ** (200 * n)} for n in (1, 2)))
    )
    read, report = read_annotations_with_report(path)
    assert (read.n_annotations, read.timestamp) == (2, None)
    assert "'timestamp' is not used as timestamp (rows count from 0): 1 of 2 timestamps" in str(report)


def test_an_earlier_answer_that_is_left_out_is_counted(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_bytes(LONG + b"2,b,x\n")
    _, report = read_annotations_with_report(tmp_path / "labels.csv", repeats="last")
    assert (report.n_rows, report.n_annotations, report.n_skipped) == (3, 2, 1)


def test_arrays_that_do_not_fit_each_other_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "short.npz", item=[1, 2], annotator=[1, 2], label=[0])
    np.savez(tmp_path / "codes.npz", item_start=[0, 2], annotator=[0, 9], label=[0, 1], crowdprism_names=stored_names())
    np.savez(tmp_path / "start.npz", item_start=[2, 0], annotator=[0, 0], label=[0, 1], crowdprism_names=stored_names())
    np.savez(tmp_path / "names.npz", item_start=[0, 2], annotator=[0, 0], label=[0, 1], crowdprism_names=np.arange(9))
    for name in ("short", "codes", "start", "names"):
        with pytest.raises(UnreadableFileError, match=f"{name}.npz"):
            read_annotations_with_report(tmp_path / f"{name}.npz")


def stored_names() -> Any:
    one, two = {"type": "int", "values": [1]}, {"type": "int", "values": [0, 1]}
    return np.frombuffer(json.dumps({"items": one, "annotators": one, "classes": two}).encode(), dtype=np.uint8)

"""Bad input stops with what, how many, where first and what to do; nothing is returned in part."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, UnreadableFileError
from crowdprism.formats import read_annotations, read_annotations_with_report

LONG = "item,annotator,label\n1,a,x\n1,b,y\n2,a,x\n"
RECORDS = [{"item": item, "annotator": "a", "label": "xy"[item % 2]} for item in range(50)]


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


CASES: list[tuple[str, str | bytes, dict[str, Any], type[Exception], str]] = [
    ("empty.csv", "", {}, UnreadableFileError, r"empty\.csv is empty"),
    ("blank.csv", "  \n\n", {}, UnreadableFileError, "is empty"),
    ("header.csv", "item,annotator,label\n", {}, UnreadableFileError, r"has a header \('item'.*but no rows"),
    (
        "column.csv",
        "item,who,label\n1,a,x\n",
        {},
        UnreadableFileError,
        r"columns 'item', 'who', 'label'.*no column for annotator. Name it with annotator=",
    ),
    ("named.csv", LONG, {"label": "lab"}, UnreadableFileError, r"no column 'lab' \(for label\).*'item', 'annotator'"),
    ("text.txt", "hello world\nthis is\n", {}, UnreadableFileError, "no known format.*Known formats are.*label-studio"),
    ("other.json", '{"a": 1, "b": [2]}', {}, UnreadableFileError, "first keys 'a', 'b'"),
    ("form.csv", LONG, {"format": "labelstudio"}, InvalidParameterError, "no format 'labelstudio'.*label-studio"),
    (
        "class.csv",
        LONG,
        {"classes": ["x", "z"]},
        InvalidAnnotationsError,
        "1 of 3 labels are not.*the first is 'y' by annotator 'b' on item 1. Given were 'x', 'z'. Unknown are 'y'. Add "
        "them to classes=",
    ),
    (
        "nan.csv",
        LONG + "3,b,\n3,c,nan\n",
        {},
        UnreadableFileError,
        "2 of 5 labels in column 'label' are missing; the first is at .*nan.csv line 5.*skip_missing=True",
    ),
    ("one.csv", "item,annotator,label\n1,a,x\n2,b,x\n", {}, InvalidAnnotationsError, "only one class: 'x'.*classes="),
    (
        "latin.csv",
        "item,annotator,label\n1,a,caf\xe9\n1,b,y\n".encode("latin-1"),
        {},
        UnreadableFileError,
        r"not utf-8: byte 0xe9 in line 2 \(byte 28 of the file\).*encoding=",
    ),
    (
        "late.csv",
        LONG.encode() + b"4,a,x\n" * 30000 + b"5,b,caf\xe9\n",
        {},
        UnreadableFileError,
        "byte 0xe9 in line 30005",
    ),
    ("utf16.csv", LONG.encode("utf-16"), {}, UnreadableFileError, "utf-16"),
    ("code.csv", LONG, {"encoding": "utf-99"}, InvalidParameterError, "no encoding 'utf-99'"),
    (
        "cut.csv.gz",
        gzip.compress(LONG.encode() * 99)[:-20],
        {},
        UnreadableFileError,
        "truncated gzip.*nothing was read",
    ),
    ("cut.csv.zst", b"\x28\xb5\x2f\xfdabc", {}, UnreadableFileError, "truncated zstd"),
    (
        "cut.json",
        json.dumps(RECORDS)[:-100],
        {},
        UnreadableFileError,
        r"in line 1, column \d+ \(character \d+\).*cut off",
    ),
    ("cut2.json", json.dumps(RECORDS, indent=1)[:-100], {}, UnreadableFileError, r"in line 24\d, column \d+.*cut off"),
    ("cut.jsonl", "\n".join(map(json.dumps, RECORDS))[:-10], {}, UnreadableFileError, "in line 50, column"),
    ("cut.parquet", b"PAR1abc", {}, UnreadableFileError, "truncated Parquet"),
    ("cut.zip", b"PK\x03\x04abc", {}, UnreadableFileError, "truncated zip"),
    ("noise.dat", b"\0\1\2\xff" * 100, {}, UnreadableFileError, "binary file of unknown kind"),
    ("model.pt", b"PK\x03\x04abc", {}, UnreadableFileError, "pickle.*never read"),
    ("wide.csv", LONG + "3,b,x,y\n", {}, UnreadableFileError, "line 5 has 4 cells where the header has 3"),
    (
        "mixed.json",
        '[{"item":1,"annotator":"a","label":"x"},{"item":"1","annotator":"a","label":"y"}]',
        {},
        InvalidAnnotationsError,
        r"mixed types \(1 int, 1 str\); the first that differs is '1' in row 1",
    ),
    (
        "weight.csv",
        "item,annotator,label,weight\n1,a,x,heavy\n2,a,y,1\n",
        {"weight": "weight"},
        UnreadableFileError,
        "1 of 2 values of weight.*'heavy' at .*line 2",
    ),
    (
        "time.csv",
        "item,annotator,label,timestamp\n1,a,x,yesterday\n2,a,y,1\n",
        {"timestamp": "timestamp"},
        InvalidAnnotationsError,
        "1 of 2 timestamps are neither.*'yesterday' in row 0",
    ),
    (
        "gold.csv",
        "item,annotator,label,gold\n1,a,x,x\n1,b,y,y\n",
        {},
        InvalidAnnotationsError,
        "item 1 with 'x' and then 'y'",
    ),
    (
        "draft.csv",
        "item,annotator,label,status\n1,a,x,draft\n",
        {},
        UnreadableFileError,
        "all of its 1 rows were skipped.*status draft: 1.*include_rejected=True",
    ),
    ("who.csv", LONG, {"annotator_from": "author"}, InvalidParameterError, "annotator_from"),
    ("repeat.csv", LONG, {"repeats": "once"}, InvalidParameterError, "repeats"),
    ("ls.json", '[{"id":1,"data":{},"annotations":[]}]', {}, UnreadableFileError, "without any choice"),
]


@pytest.mark.parametrize(("name", "content", "options", "error", "message"), CASES, ids=[case[0] for case in CASES])
def test_bad_files_are_refused_with_a_reason_and_a_remedy(
    tmp_path: Path, name: str, content: str | bytes, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    path = written(tmp_path, name, content)
    with pytest.raises(error, match=f"(?s){message}"):
        read_annotations(path, **options)


def test_a_misspelt_path_names_the_files_that_come_close(tmp_path: Path) -> None:
    written(tmp_path, "labels.csv", LONG)
    with pytest.raises(UnreadableFileError, match=r"There is no file .*labels\.cvs.*Did you mean labels\.csv"):
        read_annotations(tmp_path / "labels.cvs")
    with pytest.raises(UnreadableFileError, match="There is no folder"):
        read_annotations(tmp_path / "nowhere" / "labels.csv")
    with pytest.raises(UnreadableFileError, match="No file matches"):
        read_annotations(str(tmp_path / "*.tsv"))
    with pytest.raises(InvalidParameterError, match="list of paths is empty"):
        read_annotations([])


def test_a_folder_without_readable_files_says_what_it_holds(tmp_path: Path) -> None:
    written(tmp_path, "readme.md", "hello")
    with pytest.raises(UnreadableFileError, match=r"no readable file \(it holds readme\.md\).*\.csv"):
        read_annotations(tmp_path)


def test_files_of_two_formats_are_not_mixed(tmp_path: Path) -> None:
    paths = [written(tmp_path, "a.csv", LONG), written(tmp_path, "b.json", '{"0": {"1": 2}}')]
    with pytest.raises(UnreadableFileError, match=r"different formats.*peerannot.*long"):
        read_annotations(paths)


def test_numpy_files_with_objects_or_fractions_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([["a", None]], dtype=object), allow_pickle=True)
    with pytest.raises(UnreadableFileError, match="holds Python objects"):
        read_annotations(tmp_path / "o.npy")
    np.save(tmp_path / "f.npy", np.array([[0, 1.5]]))
    with pytest.raises(InvalidAnnotationsError, match=r"1 of 2 labels.*first is 1\.5 at row 0, column 1"):
        read_annotations(tmp_path / "f.npy")
    np.savez(tmp_path / "x.npz", features=np.zeros((3, 4)))
    with pytest.raises(UnreadableFileError, match="arrays features"):
        read_annotations(tmp_path / "x.npz")


def test_a_damaged_member_of_an_archive_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr("ann.jsonl", '{"id": 1, "text": "t", "label": ["x"]}\n{"id": 2,')
    with pytest.raises(UnreadableFileError, match=r"d\.zip/ann\.jsonl is not valid JSON lines.*line 2"):
        read_annotations(tmp_path / "d.zip")


@pytest.mark.parametrize(("start", "repeated"), [(b"", b"a,"), (b"[", b"1,")])
def test_a_huge_single_line_is_refused_at_once(tmp_path: Path, start: bytes, repeated: bytes) -> None:
    path = tmp_path / "huge.csv"
    with open(path, "wb") as file:
        file.write(start)
        for _ in range(200):
            file.write(repeated * (1 << 19))
    with pytest.raises(UnreadableFileError, match=r"no line break in its first 4 MB|is cut off"):
        read_annotations(path)
    os.unlink(path)


def test_rows_without_label_can_be_skipped_and_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "n.csv", LONG + "3,b,\n3,c,nan\n")
    a, report = read_annotations_with_report(path, skip_missing=True)
    assert a.n_annotations == 3
    assert report.skipped["no label"].count == 2
    assert report.n_rows == 5


def test_the_right_encoding_is_accepted(tmp_path: Path) -> None:
    text = "item,annotator,label\n1,a,café\n1,b,thé\n"
    for encoding in ("latin-1", "utf-16", "utf-8-sig"):
        path = written(tmp_path, f"{encoding}.csv", text.encode(encoding))
        assert read_annotations(path, encoding=encoding).classes.tolist() == ["café", "thé"]
    path = written(tmp_path, "mark.csv", text.encode("utf-8-sig"))
    assert read_annotations(path).classes.tolist() == ["café", "thé"]

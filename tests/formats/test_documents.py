"""Files are known by content, whatever their name and packing."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import polars as pl
import pytest
from small_files import TRIPLETS, triplets, write_table

from crowdprism.formats import read_annotations
from crowdprism.formats.documents import Document, open_documents
from crowdprism.formats.raw_annotations import ReadingOptions
from crowdprism.formats.text_tables import sample_rows


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


@pytest.mark.parametrize(
    ("content", "container"),
    [
        (b"item,label\n1,x\n", "table"),
        (b'\xef\xbb\xbf{"a": {"b": 1}}', "json"),
        (b'{"a": 1}\n{"a": 2}\n', "json lines"),
        (b'{"a": 1}', "json lines"),  # a single record
        (b'[{"a": 1}]', "json"),
        (b"PAR1....", "parquet"),
        (b"\x93NUMPY....", "npy"),
        (b"PK\x03\x04...x.npy...", "npz"),
        (b"PK\x03\x04...x.csv...", "zip"),
    ],
)
def test_the_container_is_told_by_the_first_bytes(content: bytes, container: str) -> None:
    assert Document("x", data=content).container == container


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [("a,b\n1,2\n", ","), ("a;b\n1,5;2\n", ";"), ("a\tb c\n", "\t"), ("a|b\n", "|"), ("a b\n1 2\n", " "), ("a\n", ",")],
)
def test_the_delimiter_gives_the_same_number_of_cells_in_each_line(text: str, delimiter: str) -> None:
    assert sample_rows(text, "x")[0] == delimiter


def test_cells_of_a_text_table_are_text_and_empty_lines_are_no_rows() -> None:
    frame = Document("x", data=b"a , b\n1,\n\n2,x\n").frame
    assert frame.to_dicts() == [{"a": "1", "b": ""}, {"a": "2", "b": "x"}]


def test_a_packed_document_equals_the_plain_one(tmp_path: Path) -> None:
    plain = b"item,label\n" + b"1,x\n" * 50_000
    (tmp_path / "x.gz").write_bytes(gzip.compress(plain))
    document = Document("x.gz", path=tmp_path / "x.gz")
    assert document.columns == ["item", "label"]
    assert document.data == plain
    assert document.frame.height == 50_000


def test_records_keep_values_of_mixed_types_for_the_checks() -> None:
    document = Document("x", data=b'[{"a": 1, "b": "x"}, {"a": "1"}, {"a": 99999999999999999999}]')
    assert document.frame.columns == ["a", "b"]
    assert document.frame["a"].to_list() == [1, "1", 99999999999999999999]
    assert document.place(2) == "x entry 2"
    assert Document("x", data=b"a,b\n1,2\n").place(0) == "x line 2"


def test_members_of_an_archive_are_documents_in_order_of_their_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("b.csv", "a.csv", "readme.md", "__MACOSX/a.csv"):
            archive.writestr(name, "item,label\n1,x\n")
    names = [Path(document.name).name for document in open_documents(tmp_path / "a.zip", ReadingOptions())]
    assert names == ["a.csv", "b.csv"]

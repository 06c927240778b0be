"""Opening and reading stores."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from crowdprism.annotations import Annotations
from crowdprism.errors import CrowdprismError, ResultFormatError
from crowdprism.results.manifest import entry_of
from crowdprism.shards import Shards
from crowdprism.shards.store import MANIFEST, is_store


@pytest.fixture
def copy(store: Shards, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store.folder, tmp_path / "copy"))


def test_a_store_gives_back_the_annotations(store: Shards, crowd: Annotations) -> None:
    assert len(store.shards) > 4
    assert store.to_annotations() == crowd
    assert store.labels_per_annotator.tolist() == crowd.labels_per_annotator.tolist()


def test_the_item_at_an_annotation_is_that_of_annotations_in_memory(store: Shards, crowd: Annotations) -> None:
    for position in (0, 1, 6999.5, 14000, 22222.2, crowd.n_annotations - 1, crowd.n_annotations):
        assert store.item_at(position) == np.searchsorted(crowd.item_start, position)


def test_a_sample_is_every_nth_item(store: Shards, crowd: Annotations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdprism.shards.store.SAMPLE_ITEMS", 1000)
    assert Shards(store.folder).sample == crowd[np.arange(0, crowd.n_items, 9)]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def change(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "words"), [(Path.unlink, "cannot be read"), (cut, "bytes where"), (change, "was changed")]
)
@pytest.mark.parametrize("name", ["annotations-00002.parquet", "annotators.parquet"])
def test_a_file_that_is_missing_cut_or_changed_is_named(
    copy: Path, name: str, damage: Callable[[Path], None], words: str
) -> None:
    damage(Shards(copy).files_folder / name)
    with pytest.raises(ResultFormatError, match=f"{name} .*{words}"):
        Shards(copy).to_annotations()


def test_a_store_of_another_format_is_refused(copy: Path) -> None:
    record = json.loads((copy / MANIFEST).read_text())
    (copy / MANIFEST).write_text(json.dumps({**record, "crowdprism_shards": 9}))
    with pytest.raises(ResultFormatError, match="format 9"):
        Shards(copy)


def test_a_store_without_manifest_is_unfinished(copy: Path) -> None:
    (copy / MANIFEST).unlink()
    assert is_store(copy)
    with pytest.raises(ResultFormatError, match="not a finished store"):
        Shards(copy)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"crowdprism_shards": 1}', '{"crowdprism_shards": 1, "files": {"../x": 1}}']
)
def test_a_damaged_manifest_is_an_error(copy: Path, text: str) -> None:
    (copy / MANIFEST).write_text(text)
    with pytest.raises(ResultFormatError):
        Shards(copy)


def test_codes_beyond_the_tables_are_refused_even_with_right_digests(copy: Path) -> None:
    record = json.loads((copy / MANIFEST).read_text())
    (copy / MANIFEST).write_text(json.dumps({**record, "n_annotators": 3}))
    opened = Shards(copy)
    with pytest.raises(ResultFormatError, match="annotators that are not in the store"):
        opened.read(opened.shards[0])


@pytest.mark.parametrize(
    "changes",
    [
        {"n_annotators": 10**15},
        {"n_annotators": -1},
        {"n_annotators": 10**30},
        {"shards": [[10**15, 7000]]},
        {"shards": [[1, -5]]},
        {"shards": [[1]]},
        {"shards": [[9000, 45000]]},
        {"gold": [1]},
        {"gold": ["a", "b", "c"]},
        {"files": {}},
        {"files": {"annotators.parquet": 5}},
        {"classes": {}},
        {"classes": {"type": "str", "values": ["a", "a", "b"]}},
        {"part": "../elsewhere"},
        {"part": "files-0123456789abcdef"},
        {"weighted": True},
    ],
    ids=str,
)
def test_a_forged_manifest_is_refused(copy: Path, changes: dict[str, Any]) -> None:
    record = json.loads((copy / MANIFEST).read_text())
    (copy / MANIFEST).write_text(json.dumps({**record, **changes}))
    with pytest.raises(ResultFormatError):
        Shards(copy).to_annotations()


def forge(copy: Path, name: str, data: bytes) -> Shards:
    """The store with another file under this name, and its right size and digest."""
    path = Shards(copy).files_folder / name
    path.write_bytes(data)
    record, entry = json.loads((copy / MANIFEST).read_text()), entry_of(path)
    assert entry is not None
    record["files"][name] = [entry.size, entry.sha256]
    (copy / MANIFEST).write_text(json.dumps(record))
    return Shards(copy)


def parquet(table: pl.DataFrame, folder: Path) -> bytes:
    table.write_parquet(folder / "forged")
    return (folder / "forged").read_bytes()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("annotations-00000.parquet", pl.col("annotator").cast(pl.String)),
        ("annotations-00000.parquet", pl.col("label").cast(pl.Float64)),
        ("annotations-00000.parquet", pl.lit(None, dtype=pl.Int32).alias("item")),
        ("annotations-00000.parquet", (pl.col("label") - 1)),
        ("annotations-00000.parquet", pl.col("item").reverse()),
        ("items-00000.parquet", pl.lit([1]).alias("item")),
        ("annotators.parquet", pl.lit(7).alias("annotator")),
        ("annotators.parquet", pl.lit("many").alias("annotations")),
        ("cells.parquet", (pl.col("label") + 1)),
        ("cells.parquet", (pl.col("annotator") - 1)),
    ],
    ids=str,
)
def test_forged_files_with_right_digests_are_refused(copy: Path, name: str, change: pl.Expr, tmp_path: Path) -> None:
    table = pl.read_parquet(Shards(copy).files_folder / name).with_columns(change)
    opened = forge(copy, name, parquet(table, tmp_path))
    with pytest.raises(ResultFormatError, match=name):
        _ = opened.to_annotations(), opened.cells, opened.labels_per_annotator


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(30) + b"PAR1", b"no table at all"])
def test_files_that_are_no_parquet_are_refused_even_with_right_digests(copy: Path, data: bytes) -> None:
    with pytest.raises(CrowdprismError, match="annotators"):
        _ = forge(copy, "annotators.parquet", data).annotators


def test_a_forged_file_cannot_take_memory(copy: Path, tmp_path: Path) -> None:
    """Forty million equal rows take a few kilobytes."""
    data = parquet(pl.DataFrame({"item": np.zeros(40_000_000, dtype=np.int8)}), tmp_path)
    assert len(data) < 100_000
    opened = forge(copy, "items-00000.parquet", data)
    with pytest.raises(CrowdprismError, match=r"items-00000.* more than"):
        opened.item_names(opened.shards[0])


@pytest.mark.skipif(os.name != "posix", reason="needs FIFOs and links")
def test_a_pipe_or_device_as_manifest_is_no_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / MANIFEST)
    assert not is_store(tmp_path)
    (tmp_path / MANIFEST).unlink()
    (tmp_path / MANIFEST).symlink_to("/dev/zero")
    assert not is_store(tmp_path)

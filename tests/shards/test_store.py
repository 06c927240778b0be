"""Opening and reading stores."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crowdprism.annotations import Annotations
from crowdprism.errors import ResultFormatError
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
    with pytest.raises(ResultFormatError, match="other rows"):
        opened.read(opened.shards[0])

"""Writing stores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from crowdprism.aggregators.sources import cells_of
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError, ResultFormatError
from crowdprism.shards import Shards, write_annotations
from crowdprism.shards.writing import cuts, replacing_store


def test_cells_of_a_store_are_those_of_annotations_in_memory(store: Shards, crowd: Annotations) -> None:
    cells = cells_of(crowd)
    assert store.cells["annotator"].to_list() == cells.annotator_of.tolist()
    assert store.cells["weight"].to_list() == cells.total.tolist()


def test_cuts_cover_all_items_once() -> None:
    start = np.array([0, 0, 5, 5, 9, 20, 20])
    parts = cuts(start, 6)
    assert [item for first, last in parts for item in range(first, last)] == list(range(6))


def test_names_and_weights_are_kept(tmp_path: Path) -> None:
    a = Annotations.from_triplets(["x", "x", "y"], ["ann", "bob", "ann"], ["cat", "dog", "cat"], weight=[1, 0.5, 0])
    assert write_annotations(a, tmp_path / "store").to_annotations() == a


def test_names_of_other_types_are_refused(tmp_path: Path) -> None:
    a = Annotations.from_triplets([("a", 1), ("b", 2)], ["ann", "bob"], [0, 1])
    with pytest.raises(InvalidParameterError, match="texts or by whole numbers"):
        write_annotations(a, tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_store_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    a = Annotations.from_dense([[0, 1]])
    with pytest.raises(InvalidParameterError, match="not empty"):
        write_annotations(a, tmp_path / "mine", force=True)


def test_a_store_is_replaced_only_with_force(tmp_path: Path) -> None:
    write_annotations(Annotations.from_dense([[0, 1]]), tmp_path / "store")
    more = Annotations.from_dense([[0, 1], [1, 1]])
    with pytest.raises(InvalidParameterError, match="force"):
        write_annotations(more, tmp_path / "store")
    assert write_annotations(more, tmp_path / "store", force=True).n_items == 2


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), replacing_store(tmp_path / "store", force=False):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_replacing_a_store_keeps_files_of_others(tmp_path: Path) -> None:
    folder = write_annotations(Annotations.from_dense([[0, 1]]), tmp_path / "store").folder
    (folder / "notes.txt").write_text("mine")
    assert write_annotations(Annotations.from_dense([[0, 1], [1, 1]]), folder, force=True).n_items == 2
    assert (folder / "notes.txt").read_text() == "mine"
    assert len(list(folder.iterdir())) == 3


def test_a_writer_that_fails_leaves_the_old_store(tmp_path: Path) -> None:
    folder = write_annotations(Annotations.from_dense([[0, 1]]), tmp_path / "store").folder
    with pytest.raises(RuntimeError), replacing_store(folder, force=True):
        raise RuntimeError
    assert Shards(folder).n_items == 1
    assert len(list(folder.iterdir())) == 2


def test_a_store_is_written_by_one_program_at_a_time(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidParameterError, match="another program"),
        replacing_store(tmp_path / "store", force=False),
    ):
        write_annotations(Annotations.from_dense([[0, 1]]), tmp_path / "store")


def test_a_manifest_that_leads_out_of_the_store_is_refused(tmp_path: Path) -> None:
    folder = write_annotations(Annotations.from_dense([[0, 1]]), tmp_path / "store").folder
    manifest = folder / "manifest.json"
    record = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**record, "part": ".."}))
    with pytest.raises(ResultFormatError, match="damaged"):
        Shards(folder)

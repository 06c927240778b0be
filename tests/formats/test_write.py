"""What is written is read back as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.formats import read_annotations
from crowdprism.formats.write import WRITERS, write_annotations

ENDINGS = {"csv": "csv", "tsv": "tsv", "parquet": "parquet", "jsonl": "jsonl", "npz": "npz", "peerannot": "json"}


def some_annotations() -> Annotations:
    return Annotations.from_triplets(
        [7, 7, 8, 8, 9], ["bo", "ann", "ann", "zoé", "bo"], ["cat", "dog", "dog", "dog", 'a, "quoted" class']
    )


@pytest.mark.parametrize("format", WRITERS)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_every_format_gives_back_what_was_written(tmp_path: Path, format: str, packed: str) -> None:
    a = some_annotations()
    path = write_annotations(a, tmp_path / f"x.{ENDINGS.get(format, 'csv')}{packed}", format)
    assert read_annotations(path) == a
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS.values())
def test_the_ending_says_the_format(tmp_path: Path, ending: str) -> None:
    a = some_annotations()
    assert read_annotations(write_annotations(a, tmp_path / f"x.{ending}")) == a


@pytest.mark.parametrize("format", ["csv", "parquet", "jsonl", "npz"])
def test_weights_times_and_gold_survive(tmp_path: Path, format: str) -> None:
    a = Annotations.from_triplets(
        [1, 1, 2],
        ["a", "b", "a"],
        [0, 1, 1],
        weight=[0.5, 1, 2],
        duration=[1, np.nan, 3],
        timestamp=[1e9, 1e9 + 0.25, np.nan],
        gold={1: 1},
    )
    assert read_annotations(write_annotations(a, tmp_path / f"x.{format}")) == a


def test_npz_keeps_types_order_and_names_without_annotations(tmp_path: Path) -> None:
    a = Annotations.from_triplets(
        [("b", 2), ("a", 1)],
        [1.5, 2.5],
        ["no", "yes"],
        item_names=[("b", 2), ("a", 1), ("c", 3)],
        classes=["yes", "no", "perhaps"],
        annotator_names=[2.5, 1.5],
    )
    b = read_annotations(write_annotations(a, tmp_path / "x.npz"))
    assert b == a
    assert b.items.tolist() == [("b", 2), ("a", 1), ("c", 3)]


def test_the_same_annotations_give_the_same_bytes(tmp_path: Path) -> None:
    first = write_annotations(some_annotations(), tmp_path / "a.csv.gz").read_bytes()
    assert write_annotations(some_annotations(), tmp_path / "b.csv.gz").read_bytes() == first


@pytest.mark.parametrize("format", ["wide-csv", "peerannot"])
def test_repeats_do_not_fit_a_table_and_nothing_is_left_behind(tmp_path: Path, format: str) -> None:
    a = Annotations.from_triplets([1, 1], ["a", "a"], [0, 1])
    with pytest.raises(InvalidParameterError, match=r"1 annotations repeat.*annotator 'a' on item 1"):
        write_annotations(a, tmp_path / "x.csv", format)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_ending_lists_the_formats(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=r"names no format.*\.csv"):
        write_annotations(some_annotations(), tmp_path / "x.xlsx")
    with pytest.raises(InvalidParameterError, match="no format 'excel'"):
        write_annotations(some_annotations(), tmp_path / "x.xlsx", "excel")

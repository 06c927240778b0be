"""Features come with ids, whole and finite, or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, UnreadableFileError
from crowdprism.formats import item_features
from crowdprism.formats.item_features import read_features

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=np.float32)
IDS = ["b", "a", "c"]


def write(path: Path) -> Path:
    table = pl.DataFrame({"item": IDS, "one": X[:, 0], "two": X[:, 1]})
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix == ".npz":
        np.savez(path, features=X, ids=np.array(IDS))
    elif path.suffix == ".parquet":
        table.write_parquet(path)
    else:
        table.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("ending", ["npz", "csv", "tsv", "parquet"])
def test_ids_and_rows_belong_together(ending: str, tmp_path: Path) -> None:
    features = read_features(write(tmp_path / f"x.{ending}"))
    assert features.ids.tolist() == IDS
    assert np.array_equal(features.values, X)


def test_rows_of_a_bare_array_are_numbered(tmp_path: Path) -> None:
    assert read_features(write(tmp_path / "x.npy")).ids.tolist() == [0, 1, 2]


def test_images_keep_their_shape(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", np.zeros((4, 1, 8, 8), dtype=np.uint8))
    assert read_features(tmp_path / "images.npy").values.shape == (4, 1, 8, 8)


@pytest.mark.parametrize(
    ("content", "error", "told"),
    [
        ("item,one\na,1\na,2\n", InvalidAnnotationsError, "repeated; the first is 'a'"),
        ("item,one\na,1\nb,\n", UnreadableFileError, "item 'b'"),
        ("item,colour\na,red\nb,blue\n", UnreadableFileError, "'colour'"),
        ("picture,one\na,1\n", InvalidParameterError, "'picture', 'one'"),
    ],
)
def test_bad_tables_are_refused_with_the_place(content: str, error: type[Exception], told: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(error, match=told):
        read_features(tmp_path / "x.csv")


def test_an_unnamed_array_among_several_is_asked_for(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", first=X, second=X)
    with pytest.raises(InvalidParameterError, match="first, second"):
        read_features(tmp_path / "x.npz")
    assert np.array_equal(read_features(tmp_path / "x.npz", array="second").values, X)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"code": "runs"}], dtype=object), allow_pickle=True)
    with pytest.raises(UnreadableFileError, match="Python objects"):
        read_features(tmp_path / "x.npy")


@pytest.mark.parametrize("name", ["absent.npy", "x.txt"])
def test_other_files_are_refused(name: str, tmp_path: Path) -> None:
    if name == "x.txt":
        (tmp_path / name).write_text('{"a": 1}')
    with pytest.raises(UnreadableFileError, match=r"\.npy"):
        read_features(tmp_path / name)


def test_a_large_npy_file_stays_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_features, "ON_DISK_FROM", 100)
    monkeypatch.setattr(item_features, "CHECKED_VALUES", 8)
    values = np.arange(40, dtype=np.float32).reshape(10, 4)
    np.save(tmp_path / "x.npy", values)
    found = read_features(tmp_path / "x.npy")
    assert isinstance(found.values, np.memmap)
    np.testing.assert_array_equal(found.values, values)
    values[7, 1] = np.inf
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(UnreadableFileError, match="1 of 10 items have a feature that is missing or infinite"):
        read_features(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:200])
    with pytest.raises(UnreadableFileError, match="damaged or truncated"):
        read_features(tmp_path / "x.npy")

"""Features of items from files of numbers, in memory and beyond it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from crowdprism.errors import CrowdprismError, InvalidAnnotationsError, InvalidParameterError, UnreadableFileError
from crowdprism.formats import feature_files
from crowdprism.formats.feature_files import read_features

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
    monkeypatch.setattr(feature_files, "ON_DISK_FROM", 100)
    monkeypatch.setattr(feature_files, "CHECKED_VALUES", 8)
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


SMALL_MEMORY = {"ON_DISK_FROM": 100, "CHECKED_VALUES": 30}


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL_MEMORY.items():
        monkeypatch.setattr(feature_files, name, value)


@pytest.mark.parametrize("in_group", [3, 7, 100])
@pytest.mark.usefixtures("small_memory")
def test_a_large_parquet_file_is_read_as_a_small_one(in_group: int, tmp_path: Path) -> None:
    columns = {f"x{place}": np.arange(20, dtype=np.float32) + 100 * place for place in range(4)}
    columns |= {"whole": np.arange(20), "flag": np.arange(20) % 3 == 0}
    table = pl.DataFrame({**columns, "text": [f" {place}.5 " for place in range(20)], "id": range(20, 0, -1)})
    table.write_parquet(tmp_path / "x.parquet", row_group_size=in_group)
    found = read_features(tmp_path / "x.parquet")
    assert isinstance(found.values, np.memmap)
    assert found.ids.tolist() == list(range(20, 0, -1))
    np.testing.assert_array_equal(found.values, table.drop("id").cast({"text": pl.String}).select(
        pl.exclude("text").cast(pl.Float32), pl.col("text").str.strip_chars().cast(pl.Float32)
    ).to_numpy())  # fmt: skip
    assert "temporary file" in found.remark


@pytest.mark.usefixtures("small_memory")
def test_a_large_parquet_file_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    pl.DataFrame({"id": range(50), "x": np.arange(50.0)}).write_parquet(tmp_path / "x.parquet")
    assert read_features(tmp_path / "x.parquet").values[7, 0] == 7
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        ({"x": [*range(49), None]}, "1 of 50 items have a feature that is missing or infinite; the first is item 49"),
        ({"x": [*"ab"] * 25}, "1 of 1 feature columns are not numeric: 'x'"),
        ({"id": [0] * 50}, "repeated"),
        ({"id": [None, *range(49)]}, "missing"),
    ],
)
@pytest.mark.usefixtures("small_memory")
def test_a_large_parquet_file_is_checked_as_a_small_one(spoilt: dict, told: str, tmp_path: Path) -> None:
    pl.DataFrame({"id": range(50), "x": np.arange(50.0)} | spoilt).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(CrowdprismError, match=told):
        read_features(tmp_path / "x.parquet")


@pytest.mark.usefixtures("small_memory")
def test_a_large_parquet_file_needs_ids_room_and_all_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.parquet"
    pl.DataFrame({"id": range(50), "x": np.arange(50.0)}).write_parquet(path)
    with pytest.raises(InvalidParameterError, match="has no column of item ids 'name'"):
        read_features(path, id_column="name")
    with pytest.raises(UnreadableFileError, match="unpacks to more than 0 MB"):
        read_features(path, max_size=150)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UnreadableFileError, match="damaged or truncated Parquet"):
        read_features(cut)
    monkeypatch.setattr(feature_files.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 0))
    with pytest.raises(UnreadableFileError, match=r"room for 0\.0 GB\. Set TMPDIR"):
        read_features(path)


MEASURED = """
import sys, threading
from crowdprism.formats import feature_files
def private():
    status = open("/proc/self/status").read()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024
feature_files.ON_DISK_FROM, feature_files.CHECKED_VALUES = 2**24, 2**21
peak, done = [before := private()], threading.Event()
def watch():
    while not done.wait(0.002):
        peak.append(private())
thread = threading.Thread(target=watch)
thread.start()
found = feature_files.read_features(sys.argv[1])
done.set()
thread.join()
print(found.values.nbytes / 2**20, max(peak) - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="private memory is read from /proc")
def test_memory_does_not_grow_with_a_large_parquet_file(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    columns = {f"x{place}": random.integers(0, 200, 2**18).astype(np.float32) for place in range(128)}
    pl.DataFrame({"id": range(2**18), **columns}).write_parquet(tmp_path / "x.parquet", row_group_size=2**18)
    del columns
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "x.parquet")]
    n_values, peak = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert n_values == 128
    assert peak < 90  # MB; the table in memory takes 128, and twice that while it is made

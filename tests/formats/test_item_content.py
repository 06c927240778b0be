"""Features and content of items from files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from crowdprism.annotations.names import name_array
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, UnreadableFileError
from crowdprism.formats import item_content
from crowdprism.formats.item_content import content_of_files, read_content, read_features

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02"
    "0000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)


def test_a_table_is_matched_by_its_ids_whatever_their_type(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("text,id\nfirst,7\nsecond,8.0\n")
    content = read_content(tmp_path / "items.csv", name_array([7, 8]))
    assert content.columns == ("text",)
    assert content.by_item == {7: {"text": "first"}, 8: {"text": "second"}}


def test_tasks_of_label_studio_show_their_data(tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps([{"id": 3, "data": {"text": "hello"}, "annotations": []}]))
    assert read_content(tmp_path / "tasks.json", name_array([3])).by_item == {3: {"text": "hello"}}


def test_columns_of_annotation_files_count_if_they_are_the_same_for_an_item(tmp_path: Path) -> None:
    rows = ["item,annotator,label,text,mood", "x,a,1,hello,glad", "x,b,2,hello,sad", "y,a,1,bye,glad"]
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n")
    used = ["annotator", "label"]
    found = content_of_files([tmp_path / "labels.csv"], ["x", "y"], name_array(["x", "y"]), item="item", used=used)
    assert found.by_item == {"x": {"text": "hello"}, "y": {"text": "bye"}}


def test_a_file_that_cannot_be_read_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("[{")
    found = content_of_files(
        [tmp_path / "broken.json", tmp_path / "none.csv"], ["x"], name_array(["x"]), item="item", used=[]
    )
    assert found.by_item == {}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("hello", "text"),
        ("dot.png", "image"),
        ("missing.png", "text"),
        ("../secret.png", "text"),
        ("https://example.org/a.png", "link"),
        ("https://example.org/a page.png", "text"),
        ("javascript:alert(1)", "text"),
        ("data:text/html,x", "text"),
    ],
)
def test_values_are_text_unless_they_are_addresses_or_images_of_the_folder(
    tmp_path: Path, value: str, kind: str
) -> None:
    (tmp_path / "secret.png").write_bytes(PIXEL)
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "dot.png").write_bytes(PIXEL)
    (folder / "items.csv").write_text(f'item,shown\n1,"{value}"\n')
    (shown,) = read_content(folder / "items.csv", name_array([1])).shown(1, pixels=100)
    assert shown.kind == kind
    assert shown.value.startswith("data:image/") if kind == "image" else shown.value == value


def test_images_at_an_address_are_shown_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item,shown\n1,https://example.org/a.png\n")
    content = read_content(tmp_path / "items.csv", name_array([1]))
    assert content.shown(1, pixels=100, remote=True)[0].kind == "image"


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
    monkeypatch.setattr(item_content, "ON_DISK_FROM", 100)
    monkeypatch.setattr(item_content, "CHECKED_VALUES", 8)
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

"""Tables to stores, in bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from crowdprism.annotations import Annotations
from crowdprism.errors import AlignmentWarning, InvalidAnnotationsError, UnreadableFileError
from crowdprism.formats import read_annotations
from crowdprism.shards import partition, shard_files, writing


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many batches, buckets and shards already for small tables."""
    monkeypatch.setattr(partition, "ROWS_AT_ONCE", 3000)
    monkeypatch.setattr(partition, "ROWS_IN_BUCKET", 6000)
    monkeypatch.setattr(writing, "LEAST_IN_SHARD", 2000)


def shuffled(crowd: Annotations, *, texts: bool) -> pl.DataFrame:
    frame = crowd.to_frame("polars").sample(fraction=1.0, shuffle=True, seed=0)
    if texts:
        frame = frame.with_columns(
            item=pl.format("item {}", "item"),
            annotator=pl.format("né {}", "annotator"),
            label=pl.format("l{}", "label"),
        )
    return frame.select("item", "annotator", "label")


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "jsonl"])
@pytest.mark.parametrize("texts", [True, False])
def test_tables_give_the_annotations_that_the_reader_in_memory_gives(
    ending: str, texts: bool, crowd: Annotations, tmp_path: Path
) -> None:
    frame = shuffled(crowd, texts=texts)
    write: Any = {
        "parquet": pl.DataFrame.write_parquet,
        "csv": pl.DataFrame.write_csv,
        "tsv": lambda table, path: table.write_csv(path, separator="\t"),
        "jsonl": pl.DataFrame.write_ndjson,
    }[ending]
    paths = [tmp_path / f"{part}.{ending}" for part in "ab"]
    write(frame[:10_000], paths[0])
    write(frame[10_000:], paths[1])
    done = shard_files(paths, tmp_path / "store")
    assert len(done.store.shards) > 4
    assert done.store.to_annotations() == read_annotations(paths)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*(path.name for path in paths), "store"])


def table(folder: Path, name: str = "labels.parquet", **columns: list[Any]) -> Path:
    whole = {"item": [1, 1, 2], "annotator": ["a", "b", "a"], "label": ["x", "y", "x"], **columns}
    pl.DataFrame(whole, strict=False).write_parquet(folder / name)
    return folder / name


def test_weights_are_kept_and_rejected_rows_left_out(tmp_path: Path) -> None:
    path = table(tmp_path, weight=[1.0, 0.5, 2.0], status=["ok", "Rejected", "ok"], label=["x", "z", "y"])
    store = shard_files([path], tmp_path / "store").store
    assert store.to_annotations() == Annotations.from_triplets([1, 2], ["a", "a"], ["x", "y"], weight=[1.0, 2.0])


def test_missing_labels_stop_or_are_counted(tmp_path: Path) -> None:
    path = table(tmp_path, label=["x", None, " NaN "], item=[1, 2, 3])
    with pytest.raises(UnreadableFileError, match=r"2 labels are missing; the first is in .*labels.parquet"):
        shard_files([path], tmp_path / "store")
    more = table(tmp_path, "more.parquet")
    done = shard_files([path, more], tmp_path / "store", skip_missing=True)
    assert done.skipped == {"no label": 2}
    assert done.store.n_annotations == 4


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"weight": [1.0, -1.0, 1.0]}, "weights"),
        ({"item": [0.5, 1.0, 2.0]}, "fractions"),
        ({"label": ["x", "x", "x"]}, "class"),
    ],
)
def test_what_annotations_refuse_is_refused_here(columns: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidAnnotationsError, match=words):
        shard_files([table(tmp_path, **columns)], tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_classes_of_two_types_are_refused(tmp_path: Path) -> None:
    paths = [table(tmp_path), table(tmp_path, "other.parquet", label=[1, 2, 1])]
    with pytest.raises(UnreadableFileError, match=r"other.parquet: the column of labels holds numbers"):
        shard_files(paths, tmp_path / "store")


def test_columns_are_found_by_name_or_given(tmp_path: Path) -> None:
    frame = pl.DataFrame({"task": [1, 2], "who": ["a", "b"], "answer": ["x", "y"]})
    frame.write_csv(tmp_path / "t.csv")
    with pytest.raises(UnreadableFileError, match="has no column for annotator"):
        shard_files([tmp_path / "t.csv"], tmp_path / "store")
    assert shard_files([tmp_path / "t.csv"], tmp_path / "store", columns={"annotator": "who"}).store.n_items == 2


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    whole = table(tmp_path).read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    (tmp_path / "empty.parquet").write_bytes(b"")
    (tmp_path / "labels.xlsx").write_bytes(b"x")
    for name in ("cut.parquet", "empty.parquet", "labels.xlsx", "nowhere.csv"):
        with pytest.raises(UnreadableFileError, match=name):
            shard_files([tmp_path / name], tmp_path / "store")


HEADER = "item,annotator,label\n"
ROW = '{"item":1,"annotator":"a","label":"x"}\n'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("more cells.csv", f"{HEADER}1,a,x\n2,b,y,z\n"),
        ("open quote.csv", f'{HEADER}1,"a,x\n2,b,y\n'),
        ("no text.csv", b"item,annotator,label\n1,a,\xff\n2,b,y\n"),
        ("cut.jsonl", f'{ROW}{{"item":1,"annotator":'),
        ("object.jsonl", f'{ROW}{{"item":{{"b":1}},"annotator":"b","label":"y"}}\n'),
        ("late.jsonl", ROW * 2000 + '{"item":"z","annotator":"b","label":[1]}\n'),
        (
            "long number.jsonl",
            f'{{"item":1,"annotator":"a","label":{2**100}}}\n{{"item":2,"annotator":"a","label":2}}\n',
        ),
        ("list.parquet", {"item": [[1], [2]]}),
        ("weight.parquet", {"weight": ["h", "i"]}),
        ("infinite.parquet", {"item": [float("inf")] * 2}),
        ("huge.parquet", {"item": [1e300, 2.0]}),
    ],
    ids=lambda given: given if isinstance(given, str) and "." in given[-8:] else "",
)
def test_odd_content_is_an_error_of_the_file_and_leaves_nothing(name: str, content: Any, tmp_path: Path) -> None:
    if isinstance(content, dict):
        pl.DataFrame({"item": [1, 2], "annotator": ["a", "b"], "label": ["x", "y"], **content}).write_parquet(
            tmp_path / name
        )
    else:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UnreadableFileError, match=name):
        shard_files([tmp_path / name], tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_gold_of_a_column_and_of_a_file_is_that_of_the_reader_in_memory(
    ending: str, crowd: Annotations, tmp_path: Path
) -> None:
    frame = shuffled(crowd, texts=True)
    known = frame.with_columns(gold=pl.when(pl.col("item").str.ends_with("7")).then(pl.lit("l2")))
    path = tmp_path / f"labels.{ending}"
    (known.write_parquet if ending == "parquet" else known.write_csv)(path)
    expected = read_annotations([path])
    store = shard_files([path], tmp_path / "store").store
    assert expected.gold_by_name()
    assert store.to_annotations() == expected
    assert store.to_annotations().gold_by_name() == expected.gold_by_name()
    file = tmp_path / "gold.csv"
    file.write_text("item,label\nitem 0,l0\nitem 8999,l1\nitem 7,l2\n")
    both = shard_files([path], tmp_path / "both", gold_file=file).store.to_annotations()
    assert both.gold_by_name() == expected.with_gold({"item 0": "l0", "item 8999": "l1"}).gold_by_name()


def test_gold_that_cannot_be_meant_is_an_error(tmp_path: Path) -> None:
    twice = table(tmp_path, gold=["x", "y", None])
    with pytest.raises(InvalidAnnotationsError, match="1 items have two gold labels; the first is 1"):
        shard_files([twice], tmp_path / "store")
    words = table(tmp_path, "words.parquet", label=[0, 1, 0], gold=["1", "one", None])
    with pytest.raises(InvalidAnnotationsError, match="some gold is not"):
        shard_files([words], tmp_path / "store")
    file = tmp_path / "gold.csv"
    file.write_text("item,label\n77,x\n")
    with pytest.raises(InvalidAnnotationsError, match="None of the 1 items"):
        shard_files([table(tmp_path, "plain.parquet")], tmp_path / "store", gold_file=file)
    file.write_text("item,label\n1,x\n77,x\n")
    with pytest.warns(AlignmentWarning, match="1 of 2 gold items"):
        found = shard_files([table(tmp_path, "plain.parquet")], tmp_path / "store", gold_file=file)
    assert found.store.to_annotations().gold_by_name() == {1: "x"}


def test_a_class_that_only_gold_names_is_a_class(tmp_path: Path) -> None:
    store = shard_files([table(tmp_path, gold=["z", None, None])], tmp_path / "store").store
    assert store.classes.tolist() == ["x", "y", "z"]

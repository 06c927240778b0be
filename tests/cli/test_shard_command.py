"""`crowdprism shard`, and `aggregate` on stores and on annotations beyond memory."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from crowdprism.annotations import Annotations
from crowdprism.cli.app import run
from crowdprism.results import confusion
from crowdprism.shards import Shards, write_annotations


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    rows = [(item, who, (item + (who == "c" and item % 4 == 0)) % 2) for item in range(40) for who in "abc"]
    path = tmp_path / "labels.csv"
    pl.DataFrame(rows, schema=["item", "annotator", "label"], orient="row").write_csv(path)
    return path


def test_a_store_is_made_and_aggregated(labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["shard", str(labels), "-o", str(tmp_path / "store"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["annotations"] == 120
    assert run(["aggregate", str(tmp_path / "store"), "-o", str(tmp_path / "run"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["items"] == 40
    assert sum(shown["labels"].values()) == 40
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"labels", "annotators.csv", "report.html", "result.json"} <= names
    assert "labels.csv" not in names


def test_a_run_on_a_store_replaces_one_in_memory_and_back(labels: Path, tmp_path: Path) -> None:
    target = ["-o", str(tmp_path / "run"), "--no-report"]
    assert run(["shard", str(labels), "-o", str(tmp_path / "store")]) == 0
    assert run(["aggregate", str(tmp_path / "store"), *target]) == 0
    assert run(["aggregate", str(labels), *target]) == 0
    assert not (tmp_path / "run" / "labels").exists()
    assert (tmp_path / "run" / "labels.csv").exists()
    assert run(["aggregate", str(tmp_path / "store"), *target]) == 0
    assert not (tmp_path / "run" / "labels.csv").exists()


def test_labels_beyond_memory_are_worked_out_of_core(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 8 * 40 * 2 - 1)
    assert run(["aggregate", str(labels), "-m", "one-coin", "-o", str(tmp_path / "run"), "--no-report"]) == 0
    assert "out of core" in capsys.readouterr().err
    assert pl.read_parquet(tmp_path / "run" / "labels" / "*.parquet").height == 40


def test_labels_beyond_memory_are_printed_and_tabled_as_those_in_memory(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["aggregate", str(labels), "-m", "dawid-skene"]
    assert run(command) == 0
    expected = pl.read_csv(capsys.readouterr().out.encode()).drop("confidence")
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 8 * 40 * 2 - 1)
    assert run(command) == 0
    shown = capsys.readouterr()
    assert "out of core" in shown.err
    assert pl.read_csv(shown.out.encode()).equals(expected)
    assert run([*command, "-o", str(tmp_path / "found.csv")]) == 0
    assert pl.read_csv(tmp_path / "found.csv").equals(expected)
    capsys.readouterr()
    assert run([*command, "--json"]) == 0
    assert sum(json.loads(capsys.readouterr().out)["labels"].values()) == 40


def test_subtypes_beyond_memory_are_worked_out_of_core(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 8 * 40 * 2)
    assert run(["aggregate", str(labels), "-m", "ebcc", "-o", str(tmp_path / "run"), "--no-report"]) == 0
    assert "out of core" in capsys.readouterr().err


def test_gold_goes_into_a_store_from_a_column_or_a_file(labels: Path, tmp_path: Path) -> None:
    table = pl.read_csv(labels).with_columns(truth=pl.when(pl.col("item") < 5).then(pl.col("item") % 2))
    table.write_csv(tmp_path / "known.csv")
    (tmp_path / "gold.csv").write_text("item,label\n39,0\n")
    command = ["shard", str(tmp_path / "known.csv"), "--gold", "truth", "--gold-file", str(tmp_path / "gold.csv")]
    assert run([*command, "-o", str(tmp_path / "store")]) == 0
    assert Shards(tmp_path / "store").to_annotations().gold_by_name() == {0: 0, 1: 1, 2: 0, 3: 1, 4: 0, 39: 0}
    assert run(["aggregate", str(tmp_path / "store"), "-o", str(tmp_path / "run"), "--no-report"]) == 0
    found = pl.read_parquet(tmp_path / "run" / "labels" / "*.parquet").sort("item")
    assert found["label"][39] == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["aggregate", "STORE"], "written to a folder"),
        (["aggregate", "STORE", "-o", "RUN", "-m", "kos"], "kos cannot work on a store"),
        (["aggregate", "STORE", "-o", "RUN", "--engine", "dask"], "local or spark"),
        (["aggregate", "STORE", "-o", "RUN", "--one-voice", "0,1"], "does not work on a store"),
        (["aggregate", "LABELS", "--resume"], "need a store"),
        (["aggregate", "BROKEN", "-o", "RUN"], "not a finished store"),
        (["info", "BROKEN"], "is a run or store that crowdprism wrote"),
        (["info", "STORE"], "only `aggregate` takes stores"),
        (["aggregate", "STORE", "STORE", "-o", "RUN"], "only `aggregate` takes stores"),
        (
            ["aggregate", "STORE", "-o", "RUN", "--engine", "spark", "--master", "spark://127.0.0.1:1"],
            "does not answer",
        ),
    ],
)
def test_bad_input_is_an_error_with_a_way_out(
    words: list[str], problem: str, labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "spark" in words:
        pytest.importorskip("pyspark", reason="PySpark is not installed")
    store = write_annotations(Annotations.from_dense([[0, 1], [1, 1]]), tmp_path / "store")
    broken = write_annotations(Annotations.from_dense([[0, 1], [1, 1]]), tmp_path / "broken")
    (broken.folder / "manifest.json").unlink()
    places = {"STORE": store.folder, "LABELS": labels, "BROKEN": broken.folder, "RUN": tmp_path / "run"}
    assert run([str(places.get(word, word)) for word in words]) == 2
    assert problem in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()

"""Stores give the bits of memory, block by block, and runs on them go on where they were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest

from crowdprism.aggregators import AGGREGATORS, blocks, make_aggregator
from crowdprism.aggregators.em import Sums, group_bounds
from crowdprism.aggregators.expectation import ConfusionPass
from crowdprism.annotations import Annotations
from crowdprism.errors import CheckpointMismatchError, UnsuitableDataError
from crowdprism.results import FitResult
from crowdprism.shards import Shards, aggregate_shards, store_runs, write_annotations
from crowdprism.shards.store_runs import LabelFiles, StoredAnnotations

METHODS: dict[str, dict[str, Any]] = {
    "majority-vote": {},
    "majority-vote random": {"voting": "hard", "ties": "random", "random_state": 2},
    "majority-vote lowest": {"voting": "hard", "ties": "lowest"},
    "weighted-vote": {"iterations": 3},
    "dawid-skene": {},
    "dawid-skene crowd": {"prior": "crowd", "max_iter": 4, "tolerance": 0},
    "dawid-skene hybrid": {"e_step": "hybrid", "prior": "crowd"},
    "fast-dawid-skene": {},
    "one-coin": {},
    "zencrowd": {},
    "glad": {"max_iter": 3, "tolerance": 0},
    "mace": {"n_restarts": 2, "max_iter": 6, "tolerance": 0},
    "ibcc": {"max_iter": 6, "tolerance": 0},
    "ebcc": {"n_subtypes": 2, "n_restarts": 2, "max_iter": 4, "tolerance": 0},
}
ROUNDING = 0 if blocks.COMPILED else 1e-10  # in SciPy the sums of a block start anew
LEARNED = ("confusions", "skills", "class_prior", "confusion_posterior", "labels_per_annotator", "class_probabilities")


def require_same(found: FitResult, expected: FitResult) -> None:
    for name in LEARNED:
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=0, atol=ROUNDING, err_msg=name)
    assert found.history.keys() == expected.history.keys()
    for name, values in expected.history.items():
        np.testing.assert_allclose(found.history[name], values, rtol=ROUNDING, atol=ROUNDING, err_msg=name)


@pytest.mark.parametrize(
    ("name", "threads"),
    [*((name, 2) for name in METHODS), ("dawid-skene", 4), ("one-coin", 1), ("glad", 1), ("mace", 4)],
)
def test_a_store_gives_the_bits_of_memory(
    name: str, threads: int, store: Shards, crowd: Annotations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROWDPRISM_THREADS", str(threads))
    method = make_aggregator(name.split()[0], **METHODS[name])
    expected = method.fit(crowd).result_
    found = aggregate_shards(method, store, tmp_path / "run")
    require_same(found, expected)
    labels = pl.read_parquet(tmp_path / "run" / "labels" / "*.parquet")
    assert labels["item"].to_list() == crowd.items.tolist()
    assert labels["label"].to_list() == expected.labels().tolist()
    assert labels["probability"].to_numpy() == pytest.approx(
        expected.class_probabilities.max(axis=1), rel=0, abs=ROUNDING
    )
    assert labels["annotations"].to_list() == crowd.labels_per_item.tolist()
    assert not (tmp_path / "run.unfinished").exists()
    require_same(FitResult.load(tmp_path / "run"), found)


def test_a_result_of_a_store_says_that_it_holds_a_sample(
    store: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crowdprism.shards.store.SAMPLE_ITEMS", 900)
    result = aggregate_shards("one-coin", store.folder, tmp_path / "run")
    assert result.n_items == 900
    assert "holds 900" in result.warnings[-1]
    assert pl.read_parquet(tmp_path / "run" / "labels" / "*.parquet").height == store.n_items


@pytest.mark.parametrize("name", sorted(set(AGGREGATORS) - {one.split()[0] for one in METHODS}))
def test_other_methods_say_why_not_and_name_one_that_does(name: str, store: Shards, tmp_path: Path) -> None:
    with pytest.raises(UnsuitableDataError, match=f"{name} cannot work on a store: .*dawid-skene"):
        aggregate_shards(name, store, tmp_path / "run")


def test_shards_stay_in_memory_between_passes_as_far_as_there_is_room(
    store: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.shards[0]
    results, n_reads = [], []
    for room in (0, 20 * (first.n_annotations + first.n_items), 2**30):
        monkeypatch.setattr(store_runs, "MOST_KEPT", room)
        opened = Shards(store.folder)
        opened.read_file = Mock(wraps=opened.read_file)  # type: ignore[method-assign]
        results.append(aggregate_shards("dawid-skene", opened, tmp_path / f"run-{room}"))
        n_reads.append(opened.read_file.call_count)
    assert n_reads[0] > n_reads[1] > n_reads[2]
    for result in results[1:]:
        require_same(result, results[0])


def test_a_run_of_another_method_is_not_resumed(store: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, after=2)
    with pytest.raises(KeyboardInterrupt):
        aggregate_shards("one-coin", store, tmp_path / "run")
    with pytest.raises(CheckpointMismatchError, match="method, parameters differ"):
        aggregate_shards("mace", store, tmp_path / "run", resume=True)


@pytest.mark.parametrize("name", ["run.json", "climb-001.npz"])
@pytest.mark.parametrize("damage", ["cut", "other shapes", "no content"])
def test_a_damaged_state_is_not_resumed(
    name: str, damage: str, store: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, after=2)
    with pytest.raises(KeyboardInterrupt):
        aggregate_shards("dawid-skene", store, tmp_path / "run")
    monkeypatch.undo()
    path = tmp_path / "run.unfinished" / "journal" / name
    if damage == "other shapes" and path.suffix == ".npz":
        with np.load(path) as stored:
            np.savez(path, **{one: values if values.ndim == 0 else values[:1] for one, values in stored.items()})
    else:
        path.write_bytes({"cut": path.read_bytes()[:-3], "no content": b""}.get(damage, b"[1, 2]"))
    with pytest.raises(CheckpointMismatchError, match="without --resume"):
        aggregate_shards("dawid-skene", store, tmp_path / "run", resume=True)


@pytest.mark.parametrize("name", ["dawid-skene", "mace", "glad"])
def test_an_interrupted_run_goes_on_to_the_same_bits(
    name: str, store: Shards, crowd: Annotations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = make_aggregator(name, **METHODS[name])
    expected = method.fit(crowd).result_
    interrupt(monkeypatch, after=3)
    with pytest.raises(KeyboardInterrupt):
        aggregate_shards(method, store, tmp_path / "run")
    monkeypatch.undo()
    steps: list[int] = []
    keep = store_runs.DiskJournal.keep
    monkeypatch.setattr(store_runs.DiskJournal, "keep", lambda self, *state: (steps.append(1), keep(self, *state))[1])
    require_same(aggregate_shards(method, store, tmp_path / "run", resume=True), expected)
    assert len(steps) < len(expected.history["objective"]) * METHODS[name].get("n_restarts", 1)


def interrupt(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """Ctrl-C after so many iterations were kept."""
    kept: list[int] = []
    keep = store_runs.DiskJournal.keep

    def keep_some(self: Any, *state: Any) -> None:
        keep(self, *state)
        kept.append(1)
        if len(kept) == after:
            raise KeyboardInterrupt

    monkeypatch.setattr(store_runs.DiskJournal, "keep", keep_some)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
def test_a_killed_command_goes_on_to_the_same_bytes(store: Shards, crowd: Annotations, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "crowdprism", "aggregate", str(store.folder), "-o", str(tmp_path / "run")]
    command += ["--no-report", "-m", "dawid-skene"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        journal = tmp_path / "run.unfinished" / "journal"
        limit = time.monotonic() + 60
        while not list(journal.glob("climb-*")) and time.monotonic() < limit and process.poll() is None:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    require_same(FitResult.load(tmp_path / "run"), make_aggregator("dawid-skene").fit(crowd).result_)


@pytest.mark.parametrize("name", METHODS)
def test_gold_in_a_store_is_used_as_in_memory(name: str, crowd: Annotations, tmp_path: Path) -> None:
    known = crowd.with_gold({item: item % 3 for item in range(0, 900, 7)})
    store = write_annotations(known, tmp_path / "store")
    assert store.to_annotations().gold_by_name() == known.gold_by_name()
    method = make_aggregator(name.split()[0], **METHODS[name])
    expected = method.fit(known).result_
    found = aggregate_shards(method, store, tmp_path / "run")
    require_same(found, expected)
    assert found.n_known == expected.n_known
    labels = pl.read_parquet(tmp_path / "run" / "labels" / "*.parquet")
    assert labels["label"].to_list() == expected.labels().tolist()
    assert labels["probability"].to_numpy() == pytest.approx(
        expected.class_probabilities.max(axis=1), rel=0, abs=ROUNDING
    )


def test_gold_in_a_store_can_be_left_out(store: Shards, crowd: Annotations, tmp_path: Path) -> None:
    known = write_annotations(crowd.with_gold({0: 2, 5: 1}), tmp_path / "store")
    found = aggregate_shards(make_aggregator("one-coin", use_gold=False), known, tmp_path / "run")
    require_same(found, make_aggregator("one-coin").fit(crowd).result_)
    assert found.n_known == 0


@pytest.fixture
def data(store: Shards, tmp_path: Path) -> StoredAnnotations:
    nothing: Any = None
    return StoredAnnotations(store, labels=LabelFiles(tmp_path, store), journal=nothing)


@pytest.mark.parametrize("n_rows", [1, 4000, 10**6])
def test_groups_are_those_of_annotations_in_memory(n_rows: int, data: StoredAnnotations, crowd: Annotations) -> None:
    assert data.bounds(n_rows) == group_bounds(crowd.item_start, n_rows)


def test_every_item_is_visited_once_and_in_order(data: StoredAnnotations, crowd: Annotations) -> None:
    def visit(block: Annotations, first: int, last: int, sums: Sums, place: int) -> None:
        sums.pieces.append(np.arange(place + first, place + last, dtype=float))

    found = data.sum_blocks(data.bounds(1), visit, counts_shape=(1,))
    assert found.kept.tolist() == list(range(crowd.n_items))


def test_counts_of_votes_are_those_of_memory(data: StoredAnnotations, crowd: Annotations) -> None:
    found, expected = ConfusionPass(data).count_votes(), ConfusionPass(crowd).count_votes()
    np.testing.assert_allclose(found.counts, expected.counts, rtol=ROUNDING)
    np.testing.assert_allclose(found.class_totals, expected.class_totals, rtol=ROUNDING)


def test_weighted_annotations_have_the_weights_of_memory(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weight = random.random(60).astype(np.float32)
    a = Annotations.from_triplets(np.arange(60) // 3, np.arange(60) % 7, random.integers(0, 2, 60), weight=weight)
    nothing: Any = None
    store = write_annotations(a, tmp_path / "store")
    data = StoredAnnotations(store, labels=nothing, journal=nothing)
    found, expected = ConfusionPass(data), ConfusionPass(a)
    assert found.total_weight == expected.total_weight
    np.testing.assert_allclose(found.count_votes().counts, expected.count_votes().counts, rtol=ROUNDING)

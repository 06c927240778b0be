"""The Spark engine, on real executor processes of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdprism.aggregators import blocks, make_aggregator
from crowdprism.aggregators.em import Expectation
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError, MissingDependencyError
from crowdprism.shards import Shards, aggregate_shards, spark_engine, store_runs
from crowdprism.shards.spark_engine import expectations_of, require_answer, require_in_time, require_spark, rows_of

LEARNED = ("confusions", "skills", "class_prior", "confusion_posterior", "class_probabilities")
METHODS: dict[str, dict[str, Any]] = {
    "dawid-skene": {"max_iter": 2, "tolerance": 0},
    "one-coin": {"max_iter": 2, "tolerance": 0},
    "glad": {"max_iter": 1, "n_sweeps": 2, "tolerance": 0},
    "mace": {"max_iter": 2, "n_restarts": 1, "tolerance": 0},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two executors of one core each; skipped with the reason where they cannot be had."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java")
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").config(map=spark_engine.SETTINGS)
        session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


def require_same(found: Any, expected: Any) -> None:
    rounding = 0 if blocks.COMPILED else 1e-10  # in SciPy the sums of a block start anew
    for name in LEARNED:
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=0, atol=rounding, err_msg=name)
    for name, values in expected.history.items():
        np.testing.assert_allclose(found.history[name], values, rtol=rounding, atol=rounding, err_msg=name)


@pytest.mark.parametrize("name", METHODS)
def test_spark_gives_the_bits_of_memory(
    name: str, cluster: Any, store: Shards, crowd: Annotations, tmp_path: Path
) -> None:
    method = make_aggregator(name, **METHODS[name])
    expected = method.fit(crowd).result_
    require_same(aggregate_shards(method, store, tmp_path / "run", engine="spark"), expected)


def test_an_executor_that_is_killed_changes_no_bit(
    cluster: Any, store: Shards, crowd: Annotations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow

    def parent(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            with open(
                f"/proc/{os.getppid()}/status"
            ) as file:  # the worker's parent is a daemon, whose parent is the JVM
                above = next(line.split()[1] for line in file if line.startswith("PPid:"))
            yield pyarrow.RecordBatch.from_pydict({"pid": [int(above)]})

    executors = {row["pid"] for row in cluster.range(0, 4, 1, 4).mapInArrow(parent, "pid long").collect()}
    executors = {
        pid for pid in executors if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }
    assert executors
    keep = store_runs.DiskJournal.keep
    victims = [executors.pop()]

    def keep_and_kill(self: Any, *state: Any) -> None:
        keep(self, *state)
        if victims:
            threading.Timer(0.1, os.kill, (victims.pop(), signal.SIGKILL)).start()

    monkeypatch.setattr(store_runs.DiskJournal, "keep", keep_and_kill)
    method = make_aggregator("one-coin", max_iter=6, tolerance=0)
    expected = method.fit(crowd).result_
    require_same(aggregate_shards(method, store, tmp_path / "run", engine="spark"), expected)
    assert not victims


@pytest.mark.parametrize("limit", [2**24, 64])
def test_sums_survive_the_way_in_rows(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_engine, "PART_BYTES", limit)
    random = np.random.default_rng(0)
    sent = [Expectation(random.normal(), random.normal(size=(7, 3)), random.normal(size=3)) for _ in range(3)]
    sent.append(Expectation(0.5, np.zeros((0,)), np.zeros(1), random.normal(size=5)))
    rows = [{"part": part, "data": data} for one in sent for part, data in rows_of(one)]
    for one, other in zip(expectations_of(iter(rows), len(sent)), sent, strict=True):
        assert one.log_likelihood == other.log_likelihood
        assert np.array_equal(one.counts, other.counts)
        assert np.array_equal(one.class_totals, other.class_totals)
        assert other.class_probabilities is None or np.array_equal(one.kept, other.kept)


def test_a_master_that_does_not_listen_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening, so nobody else can listen there
        port = taken.getsockname()[1]
        with pytest.raises(InvalidParameterError, match=f"127.0.0.1:{port} does not answer"):
            require_answer(f"spark://127.0.0.1:{port}")


def test_a_master_without_workers_is_named() -> None:
    waiting = threading.Event()
    with pytest.raises(InvalidParameterError, match=r"spark://somewhere:7077 does not answer: no task ran within 0.05"):
        require_in_time(waiting.wait, "spark://somewhere:7077", 0.05)
    waiting.set()


def test_what_spark_raises_while_it_starts_is_an_error_of_the_master() -> None:
    def fail() -> None:
        raise RuntimeError("no such cluster\n at java.lang")

    with pytest.raises(InvalidParameterError, match=r"local does not answer: RuntimeError no such cluster. Check"):
        require_in_time(fail, "local", None)


@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_a_master_that_listens_but_never_answers_ends_in_an_error_within_a_minute(
    store: Shards, tmp_path: Path
) -> None:
    """In a process of its own: Spark holds a lock of all sessions while it waits."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        words = ["aggregate", str(store.folder), "-o", "run", "--engine", "spark"]
        master = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        soon = "from crowdprism.shards import spark_engine; spark_engine.ANSWER_SECONDS = 8"
        done = subprocess.run(
            [sys.executable, "-c", f"{soon}; from crowdprism.cli import main; main()", *words, "--master", master],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            timeout=60,
        )
    assert done.returncode == 2
    assert f"{master} does not answer: no task ran within 8 seconds" in " ".join(done.stderr.split())
    assert not (tmp_path / "run").exists()


def test_a_missing_java_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingDependencyError, match="Java 17"):
        require_spark()


def test_a_missing_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingDependencyError, match=r"crowdprism\[spark\]"):
        require_spark()

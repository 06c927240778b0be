"""Work on the groups of a store on the machines of a Spark cluster.

Each group is one task: it reads its shards, runs our pass over them and returns its sums. Tables go out as a
broadcast; nothing is joined or shuffled. The driver adds up the groups in order, so that the sums are those of one
machine. Tasks of an executor that dies are run again by Spark, with the same outcome.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np

from crowdprism.aggregators.em import Expectation, add_in_order
from crowdprism.errors import InvalidParameterError, MissingDependencyError

SCHEMA = "part string, data binary"
PART_BYTES = 2**24  # of counts in one row
MOST_COLLECTED = 2**26  # bytes of all groups' counts that the driver takes at once; else group by group
CONNECT_SECONDS, ANSWER_SECONDS = 10, 45
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.maxResultSize": "0",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",  # a task is one thread; Spark decides how many run
    "spark.executorEnv.OMP_NUM_THREADS": "1",
}


class SparkEngine:
    """Runs the work of groups as tasks of a Spark session."""

    def __init__(self, session: Any) -> None:
        self.session = session

    @classmethod
    @contextmanager
    def start(cls, master: str | None) -> Iterator[Self]:
        """A session that ends with the block; an active one is used, and stays."""
        pyspark = require_spark()
        active = pyspark.sql.SparkSession.getActiveSession()
        if active is not None:
            yield cls(active)
            return
        is_standalone = master is not None and master.startswith("spark://")  # other clusters may answer later
        if is_standalone:
            require_answer(str(master))
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = pyspark.sql.SparkSession.builder.appName("crowdprism").config(map=SETTINGS)
        sessions: list[Any] = []

        def connect() -> None:
            sessions.append((builder if master is None else builder.master(master)).getOrCreate())
            sessions[0].sparkContext.setLogLevel("OFF")
            if is_standalone:
                sessions[0].range(1).count()

        try:
            require_in_time(connect, str(master), ANSWER_SECONDS if is_standalone else None)
            yield cls(sessions[0])
        finally:
            for session in sessions:
                session.stop()
            if not sessions:
                end_java(pyspark.SparkContext)

    def __call__(self, work: Any, groups: list[tuple[int, int]], table_bytes: int) -> Expectation:
        from pyspark import StorageLevel

        tasks = self.session.range(0, len(groups), 1, len(groups))  # a partition for each group
        rows = tasks.mapInArrow(GroupTask(work, groups), SCHEMA)  # Spark makes a broadcast of what is large in it
        try:
            if table_bytes * len(groups) <= MOST_COLLECTED:
                return add_in_order(expectations_of(iter(rows.collect()), len(groups)))
            rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
            rows.count()  # all groups at the same time; then the driver takes one after the other
            return add_in_order(expectations_of(rows.toLocalIterator(), len(groups)))
        finally:
            rows.unpersist()


class GroupTask:
    """What an executor does with the numbers of groups."""

    def __init__(self, work: Any, groups: list[tuple[int, int]]) -> None:
        self.work, self.groups = work, groups

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            for group in batch.column(0).to_pylist():
                for part, data in rows_of(self.work(*self.groups[group])):
                    yield pyarrow.RecordBatch.from_pydict({"part": [part], "data": [data]})


def rows_of(found: Expectation) -> Iterator[tuple[str, bytes]]:
    """The parts of an expectation as bytes; the row that ends it says its shape."""
    counts = np.ascontiguousarray(found.counts, dtype="<f8").reshape(-1).view(np.uint8)
    for first in range(0, len(counts), PART_BYTES):
        yield "counts", counts[first : first + PART_BYTES].tobytes()
    if found.class_probabilities is not None:
        yield "kept", found.class_probabilities.astype("<f8").tobytes()
    yield "totals", found.class_totals.astype("<f8").tobytes()
    yield "log likelihood", np.array([found.log_likelihood], dtype="<f8").tobytes()
    yield "shape", np.array(found.counts.shape, dtype="<i8").tobytes()


def expectations_of(rows: Iterator[Any], n_groups: int) -> Iterator[Expectation]:
    """The expectations of groups from their rows, which come in order."""
    for _ in range(n_groups):
        parts: dict[str, list[bytes]] = {"counts": []}
        while "shape" not in parts:
            row = next(rows)
            parts.setdefault(row["part"], []).append(bytes(row["data"]))
        shape = np.frombuffer(parts["shape"][0], dtype="<i8")
        counts = np.frombuffer(b"".join(parts["counts"]), dtype="<f8").reshape(shape).copy()
        totals = np.frombuffer(parts["totals"][0], dtype="<f8")
        kept = np.frombuffer(parts["kept"][0], dtype="<f8") if "kept" in parts else None
        yield Expectation(float(np.frombuffer(parts["log likelihood"][0], dtype="<f8")[0]), counts, totals, kept)


def require_spark() -> Any:
    """Import PySpark; say what is missing if that or Java is."""
    try:
        import pyspark.sql
    except ImportError as error:
        raise MissingDependencyError(
            "The Spark engine needs PySpark. Install it with: pip install 'crowdprism[spark]'"
        ) from error
    java = os.environ.get("JAVA_HOME")
    if not (java and os.path.exists(os.path.join(java, "bin", "java"))) and shutil.which("java") is None:
        raise MissingDependencyError("Spark needs Java 17 or newer. Install it, or set JAVA_HOME to where it is.")
    return pyspark


def require_answer(master: str) -> None:
    """Raise if nothing listens at the address of a cluster."""
    place = urlsplit(master)
    try:
        socket.create_connection((place.hostname or "", place.port or 7077), timeout=CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise no_answer(master, str(error)) from error


def end_java(context: Any) -> None:
    """End the Java process of a session that did not come about: it would go on trying for minutes."""
    process = getattr(context._gateway, "proc", None)
    if process is not None:
        process.kill()
    context._gateway = context._jvm = None


def require_in_time(connect: Callable[[], None], master: str, seconds: float | None) -> None:
    """Raise if what connects to a cluster fails, or takes longer."""
    outcome: list[str] = []

    def run() -> None:
        try:
            connect()
            outcome.append("")
        except Exception as error:  # of py4j and PySpark
            outcome.append(f"{type(error).__name__} {error}".splitlines()[0])

    waiting = threading.Thread(target=run, daemon=True)  # so that it does not hold the program at its end
    waiting.start()
    waiting.join(seconds)
    if reason := outcome[0] if outcome else f"no task ran within {seconds} seconds":
        raise no_answer(master, reason)


def no_answer(master: str, reason: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"The Spark master {master} does not answer: {reason}. Check its address and that it has free workers.",
        parameter="master",
    )

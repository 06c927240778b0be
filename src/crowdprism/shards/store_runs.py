"""Fit a method to a store, on this machine or on Spark, and keep the result as a run folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

from crowdprism.aggregators import Aggregator, make_aggregator
from crowdprism.aggregators.em import sum_groups
from crowdprism.errors import InvalidParameterError, UnsuitableDataError
from crowdprism.results import FitResult
from crowdprism.results.fit_result import json_ready
from crowdprism.results.manifest import LABELS
from crowdprism.results.replacing import replacing_run
from crowdprism.shards.journal import DiskJournal
from crowdprism.shards.label_files import LabelFiles
from crowdprism.shards.passes import StoredAnnotations
from crowdprism.shards.store import Shards

EngineName = Literal["local", "spark"]
OUT_OF_CORE = frozenset(
    {
        *("majority-vote", "weighted-vote", "dawid-skene", "fast-dawid-skene", "one-coin", "zencrowd", "glad", "mace"),
        *("ibcc", "ebcc"),
    }
)
"""Methods that visit items one after the other. Others compare annotators by pairs, or keep a number per annotation."""


def aggregate_shards(
    method: str | Aggregator,
    store: Shards | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    engine: EngineName = "local",
    master: str | None = None,
    resume: bool = False,
    force: bool = False,
) -> FitResult:
    """Fit a method to a store and write the run folder: the result, and the labels of all items in `labels/`.

    Parameters
    ----------
    method
        A method or its name.
    engine
        `"local"`: this machine, a few shards in memory at a time; `"spark"`: the machines of a Spark cluster, which
        must all see the folders of the store and of the run.
    master
        Address of the cluster, as Spark takes it; by default what Spark is configured for.
    resume
        Go on with a run that was killed; the model is kept after each iteration.
    force
        As in `FitResult.save`.

    Returns
    -------
    FitResult
        What was learned of the annotators, and of a sample of the items.
    """
    aggregator = make_aggregator(method) if isinstance(method, str) else method
    opened = store if isinstance(store, Shards) else Shards(store)
    with (
        replacing_run(folder, kind="result", force=force, inputs=[opened.folder]) as fresh,
        working_folder(folder, resume=resume) as working,
    ):
        result = fit_store(aggregator, opened, working, engine=engine, master=master)
        result.write_into(fresh)
        move_labels(working, fresh)
    return result


@contextmanager
def working_folder(folder: str | os.PathLike[str], *, resume: bool) -> Iterator[Path]:
    """The folder beside a run in which its state is kept until the run is complete."""
    target = Path(folder)
    working = target.parent / f"{target.name}.unfinished"
    if not resume and working.exists():
        if not (working / "journal").exists():
            raise InvalidParameterError(f"{working} is needed for work and is something else. Move it.")
        shutil.rmtree(working)
    working.mkdir(exist_ok=True)
    yield working
    shutil.rmtree(working, ignore_errors=True)  # only after success: a failed run can be resumed


def fit_store(
    aggregator: Aggregator, store: Shards, working: Path, *, engine: str = "local", master: str | None = None
) -> FitResult:
    """Fit a method; labels are then in the folder `labels` of `working`."""
    require_out_of_core(aggregator)
    if engine not in ("local", "spark"):
        raise InvalidParameterError(f"engine must be local or spark, not {engine!r}.", parameter="engine")
    labels = working / LABELS
    shutil.rmtree(labels, ignore_errors=True)
    journal = DiskJournal(working / "journal", run_of(aggregator, store))
    labels.mkdir()
    with spark_engine(master) if engine == "spark" else nullcontext(sum_groups) as run:
        files = LabelFiles(labels, store)
        used = store if aggregator.use_gold else Shards(store.folder, use_gold=False)
        data = StoredAnnotations(used, labels=files, journal=journal, engine=run)
        return aggregator.fit_out_of_core(data).result_


def spark_engine(master: str | None) -> Any:
    from crowdprism.shards.spark_engine import SparkEngine

    return SparkEngine.start(master)


def run_of(aggregator: Aggregator, store: Shards) -> dict[str, Any]:
    from crowdprism import __version__

    parameters = json_ready(aggregator.get_params())
    return {"store": store.identity, "method": aggregator.name, "parameters": parameters, "version": __version__}


def move_labels(working: Path, fresh: Path) -> None:
    os.replace(working / LABELS, fresh / LABELS)


def require_out_of_core(aggregator: Aggregator) -> None:
    """Refuse methods that need all annotations in memory."""
    if aggregator.name not in OUT_OF_CORE:
        raise UnsuitableDataError(
            f"{aggregator.name} cannot work on a store: it needs all annotations in memory at once. Use dawid-skene or "
            "one-coin, or read the store into memory with Shards(folder).to_annotations()."
        )

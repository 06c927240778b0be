"""Fit a method to a store, on this machine or on Spark, and keep the result as a run folder.

A fit is a fixed sequence of climbs. The state of each is kept on disk after every iteration, so that a run that was
killed goes on; what a fit does between climbs is done again.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np

from crowdprism.aggregators import Aggregator, make_aggregator
from crowdprism.aggregators.em import sum_groups
from crowdprism.errors import CheckpointMismatchError, InvalidParameterError, UnsuitableDataError
from crowdprism.files import replacing_file
from crowdprism.results import FitResult
from crowdprism.results.fit_result import json_ready
from crowdprism.results.manifest import LABELS
from crowdprism.results.replacing import replacing_run
from crowdprism.shards.passes import LabelFiles, StoredAnnotations
from crowdprism.shards.store import Shards

RUN_FILE = "run.json"


class DiskJournal:
    """Keeps climbs in a folder. `run` says store, method and parameters; a folder of another run is refused."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        self.folder = folder
        self.n_climbs = 0
        folder.mkdir(parents=True, exist_ok=True)
        path, wanted = folder / RUN_FILE, json.loads(json.dumps(run))
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            differing = [name for name in wanted if found.get(name) != wanted[name]]
            if differing:
                raise CheckpointMismatchError(
                    f"{folder} is of another run: {', '.join(differing)} differ. Start anew without --resume."
                )
        with replacing_file(path) as fresh:
            fresh.write_text(json.dumps(wanted), encoding="utf-8")

    @property
    def _path(self) -> Path:
        return self.folder / f"climb-{self.n_climbs:03}.npz"

    def begin(self, start: Any) -> tuple[Any, list[float], bool | None]:
        """The state of the climb that begins: as it was left, else at its start."""
        self.n_climbs += 1
        if not self._path.exists():
            return start, [], None
        with np.load(self._path, allow_pickle=False) as stored:
            objective, settled = stored["objective"].tolist(), int(stored["settled"])
            kept = {name: stored[f"model_{name}"] for name in kept_fields(start)}
        model = dataclasses.replace(start, **{name: value[()] for name, value in kept.items()})
        return model, objective, None if settled < 0 else bool(settled)

    def keep(self, model: Any, objective: list[float], settled: bool | None) -> None:
        values = {f"model_{name}": getattr(model, name) for name in kept_fields(model)}
        with replacing_file(self._path, suffix=".npz") as fresh:
            np.savez(fresh, objective=objective, settled=-1 if settled is None else int(settled), **values)


def kept_fields(model: Any) -> list[str]:
    """The fields of a model that are arrays or numbers; others follow from the data."""
    fields = dataclasses.fields(model)
    return [one.name for one in fields if isinstance(getattr(model, one.name), np.ndarray | float)]


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
    from crowdprism import __version__

    if aggregator.name not in OUT_OF_CORE:
        raise UnsuitableDataError(
            f"{aggregator.name} cannot work on a store: it needs all annotations in memory at once. Use dawid-skene or "
            "one-coin, or read the store into memory with Shards(folder).to_annotations()."
        )
    if engine not in ("local", "spark"):
        raise InvalidParameterError(f"engine must be local or spark, not {engine!r}.", parameter="engine")
    labels = working / LABELS
    shutil.rmtree(labels, ignore_errors=True)
    parameters = json_ready(aggregator.get_params())
    run = {"store": store.identity, "method": aggregator.name, "parameters": parameters, "version": __version__}
    journal = DiskJournal(working / "journal", run)
    labels.mkdir()
    with spark_engine(master) if engine == "spark" else nullcontext(sum_groups) as chosen:
        files = LabelFiles(labels, store)
        used = store if aggregator.use_gold else Shards(store.folder, use_gold=False)
        data = StoredAnnotations(used, labels=files, journal=journal, engine=chosen)
        return aggregator.fit_out_of_core(data).result_


def move_labels(working: Path, fresh: Path) -> None:
    os.replace(working / LABELS, fresh / LABELS)


def spark_engine(master: str | None) -> Any:
    from crowdprism.shards.spark_engine import SparkEngine

    return SparkEngine.start(master)

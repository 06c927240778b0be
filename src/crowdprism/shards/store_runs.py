"""Fit a method to a store, on this machine or on Spark, and keep the result as a run folder.

Methods see the store block by block. A block is the part of a shard that belongs to one group of items. It goes on with
the group's running sums, so that the sums are those of annotations in memory, bit for bit. A fit is a fixed sequence of
climbs. The state of each is kept on disk after every iteration, so that a run that was killed goes on; what a fit does
between climbs is done again.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.aggregators import Aggregator, make_aggregator
from crowdprism.aggregators.blocks import rows_of
from crowdprism.aggregators.em import Expectation, FloatArray, Journal, Sums, n_groups, sum_groups
from crowdprism.aggregators.sources import MAX_KEYS_COUNTED, AddBlock, Cells, OutOfCore
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import NameArray
from crowdprism.errors import CheckpointMismatchError, InvalidParameterError, UnsuitableDataError
from crowdprism.files import new_token, replacing_file
from crowdprism.formats.unpacking import default_limit
from crowdprism.results import FitResult
from crowdprism.results.fit_result import json_ready
from crowdprism.results.manifest import LABELS
from crowdprism.results.replacing import replacing_run
from crowdprism.shards.spark_engine import SparkEngine
from crowdprism.shards.store import Shards
from crowdprism.shards.writing import column_of_names


@dataclass(frozen=True, eq=False)
class LabelFiles:
    """A folder of files named by the position of their first item, so that their order is that of items."""

    folder: Path
    store: Shards

    def write(self, block: Annotations, first: int, last: int, class_probabilities: NDArray[Any]) -> None:
        """Write item, label, probability, number of annotations and share of them that agree, of items of a shard."""
        shards = self.store.shards
        shard = shards[bisect_right(shards, int(block.items[0]), key=lambda one: one.first_item) - 1]
        best = class_probabilities.argmax(axis=1)
        rows = rows_of(block, first, last)
        counts = np.bincount(rows.item, minlength=last - first)
        agreeing = np.bincount(rows.item, rows.label == best[rows.item], last - first)
        table = pl.DataFrame(
            {
                "item": column_of_names(self.store.item_names(shard)[first:last]),
                "label": column_of_names(self.store.classes[best]),
                "probability": class_probabilities.max(axis=1),
                "annotations": counts.astype(np.int32),
                "agreement": np.divide(agreeing, counts, out=np.full(last - first, np.nan), where=counts > 0),
            }
        )
        name = f"part-{shard.first_item + first:012}.parquet"
        fresh = self.folder / f".{name}.{new_token()}"
        table.write_parquet(fresh)
        os.replace(fresh, self.folder / name)  # tasks of a cluster may write the same file twice


def count_labels(run: Path, classes: NameArray) -> list[int]:
    found = pl.scan_parquet(run / LABELS / "*.parquet").group_by("label").len().collect()
    counts = dict(zip(found["label"].to_list(), found["len"].to_list(), strict=True))
    return [int(counts.get(name, 0)) for name in column_of_names(classes).to_list()]


Engine = Callable[[Callable[[int, int], Expectation], list[tuple[int, int]], int], Expectation]
"""Runs the work of all groups somewhere and adds up in order; the last argument is the size of a group's counts."""


class StoredAnnotations(OutOfCore):
    """A store as methods see it: the journal keeps the model after each iteration, the engine works on the groups."""

    def __init__(self, store: Shards, *, labels: LabelFiles, journal: Journal, engine: Engine = sum_groups) -> None:
        self.store, self.labels, self.journal, self.engine = store, labels, journal, engine
        self.n_items, self.n_annotations = store.n_items, store.n_annotations
        self.n_annotators, self.n_classes = store.n_annotators, store.n_classes
        self.annotators, self.classes = store.annotators, store.classes
        self.labels_per_annotator, self.weighted = store.labels_per_annotator, store.weighted
        self.gold_counts = store.gold_counts
        self.sample = store.sample
        self.note = (
            f"The store has {store.n_items:,} items; of these the result holds {self.sample.n_items:,}, evenly spread. "
            "The folder labels has all."
        )

    @property
    def weight_per_annotator(self) -> FloatArray:
        return self.store.weight_per_annotator

    def bounds(self, n_rows: int) -> list[tuple[int, int]]:
        positions = np.linspace(0, self.n_annotations, n_groups(self.n_annotations, n_rows) + 1)
        cuts = [0, *(self.store.item_at(position) for position in positions[1:-1].tolist()), self.n_items]
        return list(pairwise(cuts))

    def sum_blocks(
        self, groups: list[tuple[int, int]], add: AddBlock, *, counts_shape: tuple[int, ...], columns: int = 1
    ) -> Expectation:
        work = partial(sum_group, self.store, add, counts_shape, columns)
        return self.engine(work, groups, 8 * math.prod(counts_shape))

    def cells(self, *, columns: int = 1, method: str | None = None) -> Cells:
        """The cells of the store; complete under the same rule as `cells_of` has for annotations in memory."""
        table, n_keys = self.store.cells, self.n_annotators * self.n_classes
        annotator, label, weight = (table[name].to_numpy() for name in ("annotator", "label", "weight"))
        if 2 * len(table) > n_keys and n_keys <= MAX_KEYS_COUNTED:
            total = np.zeros(n_keys)
            total[annotator * self.n_classes + label] = weight
            annotator, label, weight = *np.divmod(np.arange(n_keys), self.n_classes), total
        return Cells(annotator, label, weight, self.n_annotators, self.n_classes)


def sum_group(
    store: Shards, add: AddBlock, counts_shape: tuple[int, ...], columns: int, first: int, last: int
) -> Expectation:
    sums = Sums.zeros(counts_shape, columns)
    for shard, begin, end in store.within(first, last):
        add(store.read(shard), begin, end, sums, shard.first_item)
    return sums.expectation()


RUN_FILE = "run.json"


class DiskJournal:
    """Keeps climbs in a folder. `run` says store, method and parameters; a folder of another run is refused."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        self.folder = folder
        self.n_climbs = 0
        folder.mkdir(parents=True, exist_ok=True)
        path, wanted = folder / RUN_FILE, json.loads(json.dumps(run))
        if path.exists():
            found: dict[str, Any] = {}
            with suppress(ValueError, TypeError, RecursionError):  # a damaged record is that of another run
                found = dict(json.loads(path.read_bytes()))
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
        try:
            with np.load(self._path, allow_pickle=False) as stored:
                objective, settled = stored["objective"].tolist(), int(stored["settled"])
                kept = {name: stored[f"model_{name}"][()] for name in kept_fields(start)}
            if any(np.shape(value) != np.shape(getattr(start, name)) for name, value in kept.items()):
                raise ValueError("tables of other shapes")
        except Exception as error:  # a damaged file can make NumPy raise anything
            raise CheckpointMismatchError(f"{self._path} is damaged ({error}). Start anew without --resume.") from error
        return dataclasses.replace(start, **kept), objective, None if settled < 0 else bool(settled)

    def keep(self, model: Any, objective: list[float], settled: bool | None) -> None:
        values = {f"model_{name}": getattr(model, name) for name in kept_fields(model)}
        with replacing_file(self._path, suffix=".npz") as fresh:
            np.savez(fresh, objective=objective, settled=-1 if settled is None else int(settled), **values)


def kept_fields(model: Any) -> list[str]:
    """The fields of a model that are arrays or numbers; others follow from the data."""
    fields = dataclasses.fields(model)
    return [one.name for one in fields if isinstance(getattr(model, one.name), np.ndarray | float)]


EngineName = Literal["local", "spark"]
MOST_KEPT = 2**30  # bytes of shards that are read once and not in every pass
OUT_OF_CORE = {"majority-vote", "weighted-vote", "dawid-skene", "fast-dawid-skene", "one-coin", "zencrowd", "glad"}
OUT_OF_CORE |= {"mace", "ibcc", "ebcc"}
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
        `"local"`: this machine, at most 1 GiB of shards in memory; `"spark"`: the machines of a Spark cluster, which
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
        result = fit_store(aggregator, opened, working, fresh, engine=engine, master=master)
        result.write_into(fresh)
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
    aggregator: Aggregator, store: Shards, working: Path, fresh: Path, *, engine: str, master: str | None
) -> FitResult:
    """Fit a method, with its state in `working`; the labels of all items are then in the folder `labels` of `fresh`."""
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
    runs: AbstractContextManager[Engine]
    runs = SparkEngine.start(master) if engine == "spark" else nullcontext(sum_groups)
    with runs as chosen:
        files = LabelFiles(labels, store)
        used = store if aggregator.use_gold else Shards(store.folder, use_gold=False)
        if engine == "local":
            used.room = min(MOST_KEPT, default_limit())
        data = StoredAnnotations(used, labels=files, journal=journal, engine=chosen)
        result = aggregator.fit_out_of_core(data).result_
    os.replace(labels, fresh / LABELS)
    return result

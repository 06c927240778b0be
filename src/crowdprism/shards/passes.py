"""A store as methods see it: sums over all items, block by block, and the labels of all items in files.

A block is the part of a shard that belongs to one group of items. It goes on with the group's running sums, so that the
sums are those of annotations in memory, bit for bit.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.aggregators.blocks import rows_of
from crowdprism.aggregators.em import Expectation, FloatArray, Journal, Sums, n_groups, sum_groups
from crowdprism.aggregators.sources import MAX_KEYS_COUNTED, AddBlock, Cells, OutOfCore
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import NameArray
from crowdprism.files import new_token
from crowdprism.results.manifest import LABELS
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

"""Labels of a store's items as Parquet files, written block by block."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.aggregators.blocks import rows_of
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

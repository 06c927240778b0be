"""Annotations as flat arrays, and the slice of them that belongs to a batch, without any per-item Python."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crowdprism.annotations import Annotations
from crowdprism.networks import step_kernels
from crowdprism.networks.annotation_batch import Batch

IntArray = NDArray[np.int64]
GATHERED_BATCHES = 64  # batches whose annotations are gathered by one call


@dataclass(frozen=True)
class FlatAnnotations:
    """The annotations of the training items, sorted by item; `extra_items` more items have none.

    Attributes
    ----------
    start
        (n_items + 1,) annotations of item i stand at `start[i]:start[i + 1]`.
    """

    start: IntArray
    annotator: IntArray
    label: IntArray
    weight: NDArray[np.float32] | None
    n_annotators: int
    n_classes: int

    @classmethod
    def of(cls, annotations: Annotations, *, extra_items: int = 0) -> FlatAnnotations:
        """Copy what training needs; unlabelled items are appended as items without annotations."""
        start = annotations.item_start.astype(np.int64)
        return cls(
            np.concatenate([start, np.full(extra_items, start[-1])]),
            annotations.annotator.astype(np.int64),
            annotations.label.astype(np.int64),
            annotations.weight,
            annotations.n_annotators,
            annotations.n_classes,
        )

    @property
    def n_items(self) -> int:
        """Number of items, those without annotations included."""
        return len(self.start) - 1

    @property
    def n_annotations(self) -> int:
        """Number of annotations."""
        return len(self.label)

    @property
    def item(self) -> IntArray:
        """(n_annotations,) item of each annotation."""
        return np.repeat(np.arange(self.n_items), np.diff(self.start))

    def touch_rate(self, batch_size: int) -> NDArray[np.float64]:
        """(n_annotators,) probability that a random batch contains an annotation by each annotator.

        Each of an annotator's items is in the batch with probability batch size over items; the small dependence
        between them is left out. Annotators without annotations get 1: they are never touched.
        """
        pairs = np.unique(self.annotator * self.n_items + self.item) // self.n_items
        n_labelled = np.bincount(pairs, minlength=self.n_annotators)
        share = min(1.0, batch_size / max(self.n_items, 1))
        return np.where(n_labelled > 0, 1.0 - (1.0 - share) ** n_labelled, 1.0)

    def checksum(self) -> str:
        """A short sum that differs where annotations differ."""
        parts = [self.start, self.annotator, self.label, *([] if self.weight is None else [self.weight])]
        total = 0
        for part in parts:
            total = zlib.crc32(np.ascontiguousarray(part).tobytes(), total)
        return f"{total:08x}"

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the compiled loop reads, and its scratch."""
        arrays = (self.start, self.annotator, self.label, np.full(self.n_annotators, -1))
        start, annotator, label, seen = (torch.from_numpy(array) for array in arrays)
        return start, annotator, label, seen

    def compiled_batches(self, order: Sequence[IntArray]) -> Iterator[Callable[[Tensor], Batch]]:
        """What `batch` does, on the CPU, for many batches at once; each item of the result takes its features."""
        for first in range(0, len(order), GATHERED_BATCHES):
            yield from self._gathered(order[first : first + GATHERED_BATCHES])

    def _gathered(self, order: Sequence[IntArray]) -> Iterator[Callable[[Tensor], Batch]]:
        index = np.concatenate(order)
        cuts = np.cumsum([0, *map(len, order)])
        counts = self.start[index + 1] - self.start[index]
        ends = np.concatenate([[0], np.cumsum(counts)])[cuts].tolist()
        labelled = np.add.reduceat(counts > 0, cuts[:-1], dtype=np.int64).tolist()
        start, annotator, label, seen = self._tensors
        whole = torch.from_numpy(index)
        found, n_touched = step_kernels.gather(
            start, annotator, label, whole, torch.from_numpy(cuts), n=ends[-1], seen=seen
        )
        sizes = np.diff(ends).tolist()
        *rows, touched = (torch.split(row, sizes) for row in found)
        distinct = [some.narrow(0, 0, size) for some, size in zip(touched, n_touched.tolist(), strict=True)]
        weights = (
            [None] * len(order) if self.weight is None else torch.split(torch.from_numpy(self.weight[found[0]]), sizes)
        )
        columns: list[Sequence[Any]] = [*rows, weights, torch.split(whole, list(map(len, order))), labelled, distinct]
        for parts in zip(*columns, strict=True):
            yield partial(_batch, *parts)

    def batch(self, index: IntArray, features: Tensor) -> Batch:
        """Gather the annotations of the items at `index` as flat tensors on the device of `features`."""
        first = self.start[index]
        counts = self.start[index + 1] - first
        ends = np.cumsum(counts)
        rows = np.arange(ends[-1]) + np.repeat(first - (ends - counts), counts)
        item = np.repeat(np.arange(len(index)), counts)
        annotator = self.annotator[rows]
        weight = None if self.weight is None else self.weight[rows]
        count = float(len(rows) if weight is None else weight.sum())
        device = features.device

        def on_device(array: NDArray[np.generic]) -> Tensor:
            tensor = torch.from_numpy(array)
            return tensor if device.type == "cpu" else tensor.to(device, non_blocking=True)

        return Batch(
            features=features,
            index=on_device(index),
            item=on_device(item),
            annotator=on_device(annotator),
            label=on_device(self.label[rows]),
            weight=None if weight is None else on_device(weight),
            count=count if count > 0 else 1.0,  # a batch without annotations has a sum of 0 and a mean of 0
            n_labelled=max(1, int(np.count_nonzero(counts))),
            annotation=on_device(rows),
        )


def epoch_order(n_items: int, batch_size: int, rng: np.random.Generator, *, even: bool = True) -> list[IntArray]:
    """Shuffle items into batches.

    `even` makes batches of sizes that differ by at most one, so that no epoch ends with a batch of one or two
    items, which batch norm and volume terms handle badly. Otherwise batches are full and the last is shorter; a last
    batch of a single item is then joined to the one before.
    """
    order = rng.permutation(n_items)
    n_batches = max(1, -(-n_items // batch_size))
    if even:
        return list(np.array_split(order, n_batches))
    cuts = list(range(batch_size, n_items, batch_size))
    if cuts and n_items - cuts[-1] == 1:
        cuts.pop()
    return np.split(order, cuts)


def _batch(
    annotation: Tensor,
    item: Tensor,
    annotator: Tensor,
    label: Tensor,
    place: Tensor,
    weight: Tensor | None,
    index: Tensor,
    n_labelled: int,
    touched: Tensor,
    features: Tensor,
) -> Batch:
    count = float(len(label) if weight is None else weight.sum())
    return Batch(
        features=features,
        index=index,
        item=item,
        annotator=annotator,
        label=label,
        weight=weight,
        count=count if count > 0 else 1.0,
        n_labelled=max(1, n_labelled),
        annotation=annotation,
        distinct=(touched, place),
    )

"""Annotations as flat arrays, the slice of them that belongs to a batch, and changes to it: noise, shifts, mixup."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.networks.losses import Batch
from crowdprism.parameters import FLAG, Real, Whole

IntArray = NDArray[np.int64]
GATHERED_BATCHES = 64  # batches whose annotations are gathered at once


@dataclass(frozen=True)
class FlatAnnotations:
    """The annotations of the training items, sorted by item."""

    start: IntArray  # (n_items + 1,) annotations of item i stand at `start[i]:start[i + 1]`
    annotator: IntArray  # (annotation,)
    label: IntArray  # (annotation,)
    weight: NDArray[np.float32] | None  # (annotation,) or None where all count 1
    n_annotators: int
    n_classes: int
    gold: IntArray | None = None  # (n_items,) true class to train on, -1 where unknown
    share: NDArray[np.float64] | None = None  # (n_items,) of the epochs that visit an item, or None where all do

    @classmethod
    def of(cls, annotations: Annotations, *, extra_items: int = 0) -> FlatAnnotations:
        """Copy what training needs; unlabelled items are appended as items without annotations."""
        start = annotations.item_start.astype(np.int64)
        known = known_classes(annotations)
        return cls(
            np.concatenate([start, np.full(extra_items, start[-1])]),
            annotations.annotator.astype(np.int64),
            annotations.label.astype(np.int64),
            annotations.weight,
            annotations.n_annotators,
            annotations.n_classes,
            None if known is None else np.concatenate([known.astype(np.int64), np.full(extra_items, -1)]),
        )

    @property
    def n_items(self) -> int:
        return len(self.start) - 1

    @property
    def n_annotations(self) -> int:
        return len(self.label)

    @property
    def item(self) -> IntArray:
        return np.repeat(np.arange(self.n_items), np.diff(self.start))

    def tensors(self, device: torch.device | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Item, annotator, label and weight of all annotations."""
        item, annotator, label = (
            torch.from_numpy(codes).to(device) for codes in (self.item, self.annotator, self.label)
        )
        return item, annotator, label, None if self.weight is None else torch.from_numpy(self.weight.copy()).to(device)

    def touch_rate(self, batch_size: int) -> NDArray[np.float64]:
        """(n_annotators,) probability that a random batch contains an annotation by each annotator.

        Each of an annotator's items is in the batch with probability batch size over items; the small dependence
        between them is left out. Annotators without annotations get 1: they are never touched.
        """
        pair = self.item * self.n_annotators + self.annotator  # sorted, so that repeats follow each other
        n_labelled = np.bincount(self.annotator[np.diff(pair, prepend=-1) > 0], minlength=self.n_annotators)
        share = min(1.0, batch_size / max(self.n_items, 1))
        return np.where(n_labelled > 0, 1.0 - (1.0 - share) ** n_labelled, 1.0)

    def checksum(self) -> str:
        parts = (self.start, self.annotator, self.label, self.weight, self.gold, self.share)
        total = 0
        for part in (one for one in parts if one is not None):
            total = zlib.crc32(np.ascontiguousarray(part).tobytes(), total)
        return f"{total:08x}"

    def batch(self, index: IntArray, features: Tensor) -> Batch:
        """Gather the annotations of the items at `index` as flat tensors on the device of `features`."""
        return next(self.batches([index], [features], features.device))

    def batches(self, order: Sequence[IntArray], features: Iterable[Tensor], device: torch.device) -> Iterator[Batch]:
        """Yield a batch for each part of `order`: the items there, their features and their annotations.

        Annotations are gathered for many batches at once, which takes a quarter of the time of one by one.
        """
        supply = iter(features)
        for first in range(0, len(order), GATHERED_BATCHES):
            yield from self._gathered(order[first : first + GATHERED_BATCHES], supply, device)

    def _gathered(self, order: Sequence[IntArray], supply: Iterator[Tensor], device: torch.device) -> Iterator[Batch]:
        index, sizes = np.concatenate(order), np.array([len(part) for part in order])
        counts = self.start[index + 1] - self.start[index]
        ends = np.cumsum(counts)
        rows = np.arange(ends[-1]) + np.repeat(self.start[index + 1] - ends, counts)
        item = np.repeat(np.arange(len(index)) - np.repeat(np.cumsum(sizes) - sizes, sizes), counts)
        n_labelled = np.add.reduceat(counts > 0, np.cumsum(sizes) - sizes, dtype=np.int64).tolist()
        n_annotations = np.diff(ends[np.cumsum(sizes) - 1], prepend=0).tolist()

        def parts(array: NDArray[np.generic], lengths: list[int]) -> tuple[Tensor, ...]:
            return torch.split(torch.from_numpy(array).to(device), lengths)

        flat = (parts(array, n_annotations) for array in (rows, item, self.annotator[rows], self.label[rows]))
        weights = [None] * len(order) if self.weight is None else parts(self.weight[rows], n_annotations)
        golds = [None] * len(order) if self.gold is None else parts(self.gold[index], sizes.tolist())
        for own, annotation, place, annotator, label, weight, labelled, gold in zip(
            parts(index, sizes.tolist()), *flat, weights, n_labelled, golds, strict=True
        ):
            count = float(len(label) if weight is None else weight.sum())
            yield Batch(
                features=next(supply),
                index=own,
                item=place,
                annotator=annotator,
                label=label,
                weight=weight,
                count=count if count > 0 else 1.0,  # a batch without annotations has a sum of 0 and a mean of 0
                n_labelled=max(1, labelled),
                annotation=annotation,
                gold=gold,
            )


def drawn_visits(share: NDArray[np.float64], rng: np.random.Generator) -> IntArray:
    """Positions that an epoch visits, each with the probability of its share; as many in every epoch."""
    ends = np.cumsum(share)
    n_visits = max(1, round(ends[-1]))
    places = (np.arange(n_visits) + rng.random()) * (ends[-1] / n_visits)  # one draw, even steps
    return np.asarray(np.searchsorted(ends, places, side="right").clip(max=len(share) - 1))


def epoch_order(n_items: int, batch_size: int, rng: np.random.Generator, *, even: bool = True) -> list[IntArray]:
    """Shuffle items into batches.

    `even` makes batches of sizes that differ by at most one, so that no epoch ends with a batch of one or two
    items, which batch norm and volume terms handle badly. Otherwise batches are full, and the items left over are
    dropped from the epoch; where there are fewer items than a batch holds, they are one batch.
    """
    order = rng.permutation(n_items)
    n_batches = max(1, -(-n_items // batch_size))
    if even:
        return list(np.array_split(order, n_batches))
    if n_items < batch_size:
        return [order]
    n_full = n_items // batch_size
    return np.split(order[: n_full * batch_size], n_full)


@dataclass(frozen=True)
class Augmentation:
    """Which changes, and how strong; all off by default."""

    noise: float = 0.0  # standard deviation of Gaussian noise added to the scaled features
    shift: int = 0  # images move by up to this many pixels each way; what comes in is zero
    flip: bool = False  # images are mirrored left to right half of the time
    mixup: float = 0.0  # parameter of the Beta distribution by which pairs of items are mixed (Zhang et al. 2018)

    allowed: ClassVar[Mapping[str, Any]] = {"noise": Real(0), "shift": Whole(0), "flip": FLAG, "mixup": Real(0)}

    @property
    def any(self) -> bool:
        return bool(self.noise or self.shift or self.flip or self.mixup)

    def apply(self, batch: Batch, generator: torch.Generator, rng: np.random.Generator) -> Batch:
        features = batch.features
        if self.shift:
            features = shifted(features, self.shift, generator)
        if self.flip:
            mirrored = torch.rand(len(features), generator=generator, device=features.device) < 0.5
            features = torch.where(mirrored.view(-1, 1, 1, 1), features.flip(-1), features)
        if self.noise:
            features = features + self.noise * torch.randn(features.shape, generator=generator, device=features.device)
        batch = batch if features is batch.features else replace(batch, features=features)
        return mixed(batch, self.mixup, rng) if self.mixup else batch


def shifted(images: Tensor, reach: int, generator: torch.Generator) -> Tensor:
    """Move each image (batch, channel, height, width) by its own whole number of pixels in -reach..reach."""
    n, _, height, width = images.shape
    corner = torch.randint(0, 2 * reach + 1, (2, n), generator=generator, device=images.device)
    padded = functional.pad(images, (reach, reach, reach, reach))
    rows = corner[0].view(n, 1, 1) + torch.arange(height, device=images.device).view(1, -1, 1)
    columns = corner[1].view(n, 1, 1) + torch.arange(width, device=images.device).view(1, 1, -1)
    picked = torch.arange(n, device=images.device).view(n, 1, 1)
    return padded[picked, :, rows, columns].permute(0, 3, 1, 2)


def mixed(batch: Batch, alpha: float, rng: np.random.Generator) -> Batch:
    """Mix each item with another; both items' annotations then count for the mixture, by their shares.

    An annotation keeps its item's share as weight. For the joint loss the annotations of the two items stay two
    groups, so that evidence about different items is never multiplied.
    """
    n = len(batch.features)
    device = batch.features.device
    share = float(rng.beta(alpha, alpha))
    partner = rng.permutation(n)
    features = share * batch.features + (1 - share) * batch.features[torch.from_numpy(partner).to(device)]
    mixes_into = torch.from_numpy(np.argsort(partner)).to(device)  # the row in which an item is the second part
    weight = torch.ones_like(batch.item, dtype=torch.float32) if batch.weight is None else batch.weight
    rows = torch.arange(n, device=device)
    return replace(
        batch,
        features=features,
        item=torch.cat([batch.item, mixes_into[batch.item]]),
        annotator=batch.annotator.repeat(2),
        label=batch.label.repeat(2),
        weight=torch.cat([share * weight, (1 - share) * weight]),
        evidence_weight=None if batch.weight is None else batch.weight.repeat(2),
        group=torch.cat([batch.item, n + batch.item]),
        group_row=torch.cat([rows, mixes_into]),
        group_weight=torch.cat([torch.full((n,), share), torch.full((n,), 1 - share)]).to(device),
    )

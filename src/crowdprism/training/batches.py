"""Where features come from, annotations as flat arrays, the slice of both that is a batch, and changes to it."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Subset

from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.networks.losses import Batch
from crowdprism.parameters import FLAG, Real, Whole

BYTE_RANGE = 255.0
# Features of different units have standard deviations far apart; the root mean square of those of one unit is at most
# 1.8 times their median in the sets that we know, and 34 times for measurements in different units.
UNITS_APART = 4.0
SMALLEST_DEVIATION = 1e-7  # of a feature that counts for that
CHECKSUM_VALUES = 2**22  # numbers of a large X that enter its checksum
CHECKSUM_ROWS = 2**10  # items of an X on disk that enter its checksum


class InputScaling(nn.Module):
    """(x - shift) / scale, after bytes were brought to 0..1; part of the exported module."""

    def __init__(self, shift: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.shift, self.scale = nn.Buffer(shift.float()), nn.Buffer(scale.float())

    @classmethod
    def identity(cls) -> InputScaling:
        return cls(torch.zeros(()), torch.ones(()))

    @classmethod
    def of(cls, features: Tensor, *, one_unit: bool | None = False) -> InputScaling:
        """Mean and standard deviation per feature (n, d), or per channel of images.

        With `one_unit` all features are divided by one number; None does so unless their deviations are far apart.
        """
        axes = [axis for axis in range(features.ndim) if axis != 1]
        wide = features.double() / (BYTE_RANGE if features.dtype == torch.uint8 else 1.0)
        keep = features.ndim > 2
        shift = wide.mean(dim=axes, keepdim=keep)
        scale = wide.std(dim=axes, correction=0, keepdim=keep)
        # A column of equal large numbers has a deviation of rounding errors only.
        rounding = 1e-6 * shift.abs().clamp_min(torch.finfo(torch.float32).tiny)
        varies = scale > rounding
        spread = scale[varies & (scale > SMALLEST_DEVIATION)]
        if one_unit is not False and not keep and len(spread):
            common = spread.square().mean().sqrt()
            if one_unit or common <= UNITS_APART * spread.median():
                return cls(shift, common.expand_as(scale))
        scale = torch.where(varies, scale, 1.0)
        return cls(shift[0] if keep else shift, scale[0] if keep else scale)

    def forward(self, features: Tensor) -> Tensor:
        """(batch, ...) raw features -> float32 of the same shape."""
        values = features.float() / BYTE_RANGE if features.dtype == torch.uint8 else features.float()
        return (values - self.shift) / self.scale


class TensorItems:
    """Features held in memory; float features are scaled once, bytes batch by batch."""

    def __init__(self, features: Tensor, scaling: InputScaling, device: torch.device) -> None:
        self._scaling = None if features.dtype != torch.uint8 else scaling.to(device)
        self._features = (features if self._scaling else scaling.to(features.device)(features)).to(device)

    def __len__(self) -> int:
        return len(self._features)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._features.shape[1:])

    def batches(self, order: Sequence[NDArray[np.int64]], generator: torch.Generator | None = None) -> Iterator[Tensor]:
        for index in order:
            chosen = self._features.index_select(0, torch.from_numpy(index).to(self._features.device))
            yield chosen if self._scaling is None else self._scaling(chosen)

    def part(self, index: NDArray[np.int64]) -> Self:
        chosen = copy.copy(self)
        chosen._features = self._features.index_select(0, torch.from_numpy(index).to(self._features.device))
        return chosen

    def checksum(self) -> str:
        flat = self._features.detach().reshape(-1)
        step = max(1, flat.numel() // CHECKSUM_VALUES)
        return f"{zlib.crc32(flat[::step].cpu().contiguous().numpy().tobytes()):08x}"


class MappedFeatures(Dataset[Tensor]):
    """Rows of an array that stays on disk, `numpy.load(path, mmap_mode="r")`; only rows that are asked for are read."""

    def __init__(self, array: NDArray[Any], index: NDArray[np.int64] | None = None) -> None:
        self.array, self.index = array, np.arange(len(array)) if index is None else index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, place: Any) -> Tensor:
        """The row at a position, or the rows at several."""
        rows = np.array(self.array[self.index[place]])
        return torch.from_numpy(rows if rows.dtype == np.uint8 else rows.astype(np.float32))

    def part(self, index: NDArray[np.int64]) -> MappedFeatures:
        return MappedFeatures(self.array, self.index[index])


class DatasetItems:
    """Features read through a torch Dataset of `x` or `(x, ...)`; a user's DataLoader lends dataset and workers."""

    def __init__(
        self, source: Dataset[Any] | DataLoader[Any], scaling: InputScaling, device: torch.device, n_workers: int = 0
    ) -> None:
        self._options: dict[str, Any] = {"num_workers": n_workers}
        if isinstance(source, DataLoader):
            self._options = {name: getattr(source, name) for name in ("num_workers", "collate_fn", "pin_memory")}
            source = source.dataset
        self._dataset, self._device, self._scaling = source, device, scaling.to(device)
        first = source[0]
        self.shape = tuple((first[0] if isinstance(first, (tuple, list)) else torch.as_tensor(first)).shape)

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def batches(self, order: Sequence[NDArray[np.int64]], generator: torch.Generator | None = None) -> Iterator[Tensor]:
        if isinstance(self._dataset, MappedFeatures):
            for index in order:
                yield self._scaling(self._dataset[index].to(self._device))
            return
        # A DataLoader draws a base seed even where it does not shuffle: let it draw from ours.
        generator = torch.Generator() if generator is None else generator
        sampler = [index.tolist() for index in order]
        loader: DataLoader[Any] = DataLoader(self._dataset, batch_sampler=sampler, generator=generator, **self._options)
        for loaded in loader:
            features = loaded[0] if isinstance(loaded, (tuple, list)) else loaded
            yield self._scaling(features.to(self._device, non_blocking=True))

    def part(self, index: NDArray[np.int64]) -> Self:
        chosen = copy.copy(self)
        mapped = isinstance(self._dataset, MappedFeatures)
        chosen._dataset = self._dataset.part(index) if mapped else Subset(self._dataset, index.tolist())  # type: ignore[attr-defined]
        return chosen

    def checksum(self) -> str:
        if not isinstance(self._dataset, MappedFeatures):
            return f"dataset of {len(self)} items"
        some = self._dataset[np.linspace(0, len(self) - 1, min(len(self), CHECKSUM_ROWS)).astype(np.int64)]
        return f"{zlib.crc32(some.numpy().tobytes()):08x} of {len(self)} items"


Items = TensorItems | DatasetItems
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
        """(n_annotators,) probability that a random batch contains each annotator; 1 for those without annotations."""
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
        """Yield a batch for each part of `order`; annotations are gathered for many at once, to save time."""
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
    """Shuffle items into batches: `even` sizes that differ by at most one, else full ones, the rest dropped."""
    order = rng.permutation(n_items)
    if even:
        return list(np.array_split(order, max(1, -(-n_items // batch_size))))
    n_full = max(1, n_items // batch_size)
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
    """Mix each item with another; both items' annotations count by their shares, as two groups of evidence."""
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

"""Where features come from: a tensor in memory, or a torch Dataset for what does not fit."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

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
        self.shift: Tensor
        self.scale: Tensor
        self.register_buffer("shift", shift.float())
        self.register_buffer("scale", scale.float())

    @classmethod
    def identity(cls) -> InputScaling:
        return cls(torch.zeros(()), torch.ones(()))

    @classmethod
    def of(cls, features: Tensor, *, one_unit: bool | None = False) -> InputScaling:
        """Mean and standard deviation per feature of (n, d), or per channel of (n, channels, height, width).

        A standard deviation of 0 becomes 1. With `one_unit` all features are divided by the same number, the root mean
        square of their deviations; None does so unless the deviations are far apart. It is ignored for images.
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
        is_bytes = features.dtype == torch.uint8
        features = features.float()
        if is_bytes:
            features = features / BYTE_RANGE
        return (features - self.shift) / self.scale


class TensorItems:
    """Features held in memory; float features are scaled once, bytes batch by batch.

    `batches` yields the features of each batch of positions, ready for the network, on the device; `checksum` differs
    where features differ.
    """

    def __init__(self, features: Tensor, scaling: InputScaling, device: torch.device) -> None:
        self._scaling = None if features.dtype != torch.uint8 else scaling.to(device)
        ready = features if self._scaling is not None else scaling.to(features.device)(features)
        self._features = ready.to(device)

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
    """Features read through a torch Dataset of `x` or `(x, ...)`, by a DataLoader with workers.

    A DataLoader given by the user lends its dataset, workers, collate function and memory pinning; order and batch
    size are the training loop's.
    """

    def __init__(
        self, source: Dataset[Any] | DataLoader[Any], scaling: InputScaling, device: torch.device, n_workers: int = 0
    ) -> None:
        self._options: dict[str, Any] = {"num_workers": n_workers}
        if isinstance(source, DataLoader):
            self._options = {
                "num_workers": source.num_workers,
                "collate_fn": source.collate_fn,
                "pin_memory": source.pin_memory,
            }
            source = source.dataset
        self._dataset = source
        self._device = device
        self._scaling = scaling.to(device)
        first = source[0]
        self._shape = tuple((first[0] if isinstance(first, (tuple, list)) else torch.as_tensor(first)).shape)

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

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

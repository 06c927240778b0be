"""Changes to a batch before the network sees it: input noise, image shifts and flips, mixup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from crowdprism.networks.losses import Batch
from crowdprism.parameters import OneOf, Real, Whole, check_parameters
from crowdprism.seeding import stream, torch_stream


@dataclass(frozen=True)
class Augmentation:
    """Which changes, and how strong; all off by default."""

    noise: float = 0.0  # standard deviation of Gaussian noise added to the scaled features
    shift: int = 0  # images move by up to this many pixels each way; what comes in is zero
    flip: bool = False  # images are mirrored left to right half of the time
    mixup: float = 0.0  # parameter of the Beta distribution by which pairs of items are mixed (Zhang et al. 2018)

    allowed: ClassVar[Mapping[str, Any]] = {
        "noise": Real(0),
        "shift": Whole(0),
        "flip": OneOf(True, False),
        "mixup": Real(0),
    }

    def check(self) -> None:
        check_parameters(vars(self), self.allowed)

    @property
    def any(self) -> bool:
        return bool(self.noise or self.shift or self.flip or self.mixup)


class Augmenter:
    """Applies an `Augmentation` with streams of its own, which depend on seed, member and epoch alone."""

    def __init__(self, settings: Augmentation, seed: int, member: int, epoch: int, device: torch.device) -> None:
        self.settings = settings
        self._generator = torch_stream(seed, "augmentation", member, epoch, device=str(device))
        self._rng = stream(seed, "mixup", member, epoch)

    def __call__(self, batch: Batch) -> Batch:
        settings = self.settings
        features = batch.features
        if settings.shift:
            features = shifted(features, settings.shift, self._generator)
        if settings.flip:
            mirrored = torch.rand(len(features), generator=self._generator, device=features.device) < 0.5
            features = torch.where(mirrored.view(-1, 1, 1, 1), features.flip(-1), features)
        if settings.noise:
            drawn = torch.randn(features.shape, generator=self._generator, device=features.device)
            features = features + settings.noise * drawn
        batch = batch if features is batch.features else replace(batch, features=features)
        return mixed(batch, settings.mixup, self._rng) if settings.mixup else batch


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

"""Dropout that draws from its own stream instead of torch's global one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Zero a share of the inputs while training, by draws from `generator`.

    `generator` is set by the training loop (`set_generator`). Without one, training uses torch's global stream like
    `torch.nn.Dropout` does; copies and saved files never carry a generator.
    """

    def __init__(self, share: float = 0.5) -> None:
        super().__init__()
        self.share = share
        self.generator: torch.Generator | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """(any shape) -> the same shape."""
        if not self.training or self.share == 0:
            return inputs
        # Four 16-bit draws from each random integer: a third of the time of uniform floats, and dropout is among the
        # dearest parts of a small network's step. The share is rounded to 1/65536.
        words = torch.randint(
            -(2**63), 2**63 - 1, (-(-inputs.numel() // 4),), generator=self.generator, device=inputs.device
        )
        draws = words.view(torch.int16)[: inputs.numel()].view(inputs.shape)
        kept = draws >= round(self.share * 2**16) - 2**15
        return inputs * kept * (1.0 / (1.0 - self.share))

    def extra_repr(self) -> str:
        return f"share={self.share}"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"generator": None}


def set_generator(module: nn.Module, generator: torch.Generator | None) -> None:
    """Let every `Dropout` inside draw from this generator."""
    for part in module.modules():
        if isinstance(part, Dropout):
            part.generator = generator

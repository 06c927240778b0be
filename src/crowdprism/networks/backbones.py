"""Networks from features to class logits, with the layers of the published experiments.

Every network ends in logits; log-softmax is applied by the loss. Layer sizes follow Ibrahim, Nguyen and Fu
(ICLR 2023) and their reference code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Dropout(nn.Module):
    """Zero a share of the inputs while training, by draws from `generator`.

    `generator` is set by the training loop (`set_generator`). Without one, training uses torch's global stream like
    `torch.nn.Dropout` does; copies and saved files never carry a generator.
    """

    def __init__(self, share: float = 0.5) -> None:
        super().__init__()
        self.share = share
        self.generator: torch.Generator | None = None
        self.share_of: tuple[int, int] | None = None  # first row and number of all, where processes share a batch

    def forward(self, inputs: Tensor) -> Tensor:
        """(any shape) -> the same shape."""
        if not self.training or self.share == 0:
            return inputs
        # Four 16-bit draws from each random integer: a third of the time of uniform floats, and dropout is among the
        # dearest parts of a small network's step. The share is rounded to 1/65536.
        first, n_rows = (0, len(inputs)) if self.share_of is None else self.share_of
        n_draws = n_rows * inputs.shape[1:].numel()
        words = torch.randint(-(2**63), 2**63 - 1, (-(-n_draws // 4),), generator=self.generator, device=inputs.device)
        draws = words.view(torch.int16)[:n_draws].view(n_rows, *inputs.shape[1:])[first : first + len(inputs)]
        kept = draws >= round(self.share * 2**16) - 2**15
        return inputs * kept * (1.0 / (1.0 - self.share))

    def extra_repr(self) -> str:
        return f"share={self.share}"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"generator": None}


def set_generator(module: nn.Module, generator: torch.Generator | None) -> None:
    for part in module.modules():
        if isinstance(part, Dropout):
            part.generator = generator


class Linear(nn.Sequential):
    """Logistic regression: one linear layer on flattened features."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(n_features, n_classes))


class MLP(nn.Sequential):
    """Fully connected layers with ReLU and dropout; by default the published head on VGG-16 features of LabelMe.

    Examples
    --------
    >>> import torch
    >>> MLP(20, 3, hidden=(16,))(torch.zeros(2, 20)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        hidden: Sequence[int] = (128,),
        dropout: float = 0.5,
        batch_norm: bool = False,
    ) -> None:
        layers: list[nn.Module] = [nn.Flatten()]
        width = n_features
        for size in hidden:
            layers.append(nn.Linear(width, size))
            if batch_norm:
                layers.append(nn.BatchNorm1d(size))
            layers += [nn.ReLU(), Dropout(dropout)]
            width = size
        super().__init__(*layers, nn.Linear(width, n_classes))


class MusicHead(nn.Sequential):
    """Batch norm, 128 ReLU units, dropout 0.5, batch norm, logits: the published network on music features."""

    def __init__(self, n_features: int = 124, n_classes: int = 10) -> None:
        super().__init__(
            nn.Flatten(),
            nn.BatchNorm1d(n_features, affine=False),
            nn.Linear(n_features, 128),
            nn.ReLU(),
            Dropout(0.5),
            nn.BatchNorm1d(128, affine=False),
            nn.Linear(128, n_classes),
        )


class LeNet5(nn.Sequential):
    """LeNet-5 for 28 x 28 images: 61 706 parameters with one channel and ten classes.

    Examples
    --------
    >>> sum(p.numel() for p in LeNet5(1, 10).parameters())
    61706
    """

    def __init__(self, n_channels: int = 1, n_classes: int = 10, *, dropout: float = 0.0) -> None:
        super().__init__(
            nn.Conv2d(n_channels, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            Dropout(dropout),
            nn.Linear(120, 84),
            nn.ReLU(),
            Dropout(dropout),
            nn.Linear(84, n_classes),
        )


class _Residual(nn.Module):
    """x + branch(x), nothing after the sum."""

    def __init__(self, *branch: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = inputs + self.branch(inputs)
        return outputs


def _conv_block(n_in: int, n_out: int, *, pool: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(n_in, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU()]
    if pool:
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


class ResNet9(nn.Sequential):
    """ResNet-9 for 32 x 32 images, as used for CIFAR-10."""

    def __init__(self, n_channels: int = 3, n_classes: int = 10) -> None:
        super().__init__(
            _conv_block(n_channels, 64),
            _conv_block(64, 128, pool=True),
            _Residual(_conv_block(128, 128), _conv_block(128, 128)),
            _conv_block(128, 256, pool=True),
            _conv_block(256, 512, pool=True),
            _Residual(_conv_block(512, 512), _conv_block(512, 512)),
            nn.MaxPool2d(4),
            nn.Flatten(),
            nn.Linear(512, n_classes),
        )


class _BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with a shortcut, projected by a 1 x 1 convolution where the shape changes."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False), nn.BatchNorm2d(n_out))

    def forward(self, inputs: Tensor) -> Tensor:
        return functional.relu(self.branch(inputs) + self.shortcut(inputs))


class ResNet18(nn.Sequential):
    """ResNet-18 with the reference's small-image stem: 3 x 3, stride 1, no padding, no pooling."""

    def __init__(self, n_channels: int = 3, n_classes: int = 10) -> None:
        blocks: list[nn.Module] = []
        width = 64
        for size, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [_BasicBlock(width, size, stride), _BasicBlock(size, size, 1)]
            width = size
        super().__init__(
            nn.Conv2d(n_channels, 64, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(512, n_classes),
        )

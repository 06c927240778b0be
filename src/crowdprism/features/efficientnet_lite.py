"""EfficientNet-Lite0 (Tan and Le, 2019, without squeeze-and-excitation, ReLU6): images to 1280 numbers.

Layers carry the names of the published weights, so that these load as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

SIDE = 224  # pixels, as trained
MEAN, DEVIATION = 127.0, 128.0  # as trained: pixels are scaled to -1 .. 1
STEM, LAST, N_IMAGENET = 32, 1280, 1000
# (blocks, kernel, stride of the first, expansion, channels out)
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class SameConv(nn.Conv2d):
    """A convolution padded as TensorFlow pads: the odd pixel goes to the right and the bottom."""

    def forward(self, images: Tensor) -> Tensor:
        """Pad, then convolve."""
        needed = [self._padding(images.shape[axis], axis - 2) for axis in (3, 2)]
        padded = functional.pad(images, [side for total in needed for side in (total // 2, total - total // 2)])
        return functional.conv2d(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)

    def _padding(self, size: int, axis: int) -> int:
        stride, kernel = self.stride[axis], self.kernel_size[axis]
        return int(max((-(-size // stride) - 1) * stride + kernel - size, 0))


def conv(n_in: int, n_out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> SameConv:
    """A convolution without bias."""
    return SameConv(n_in, n_out, kernel, stride=stride, groups=groups, bias=False)


def norm(n_channels: int) -> nn.BatchNorm2d:
    """Batch normalisation as trained."""
    return nn.BatchNorm2d(n_channels, eps=1e-3)


class Block(nn.Module):
    """An inverted bottleneck: widen, convolve each channel, narrow; added to the input where shapes agree."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = n_in * expansion
        if expansion != 1:
            self._expand_conv = conv(n_in, wide)
            self._bn0 = norm(wide)
        self._depthwise_conv = conv(wide, wide, kernel, stride, groups=wide)
        self._bn1 = norm(wide)
        self._project_conv = conv(wide, n_out)
        self._bn2 = norm(n_out)
        self.expands, self.adds = expansion != 1, stride == 1 and n_in == n_out

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels in, height, width) to (batch, channels out, height, width)."""
        found: Tensor = images
        if self.expands:
            found = functional.relu6(self._bn0(self._expand_conv(found)))
        found = functional.relu6(self._bn1(self._depthwise_conv(found)))
        found = self._bn2(self._project_conv(found))
        return found + images if self.adds else found


class EfficientNetLite0(nn.Module):
    """Images (batch, 3, 224, 224) of pixel values 0 to 255 in, 1280 numbers an image out."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = conv(3, STEM, 3, 2)
        self._bn0 = norm(STEM)
        blocks, width = [], STEM
        for count, kernel, stride, expansion, n_out in STAGES:
            for place in range(count):
                blocks.append(Block(width, n_out, kernel, stride if place == 0 else 1, expansion))
                width = n_out
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = conv(width, LAST)
        self._bn1 = norm(LAST)
        self._fc = nn.Linear(LAST, N_IMAGENET)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, 1280), the mean over positions of the last layer before the classes of ImageNet."""
        found = functional.relu6(self._bn0(self._conv_stem((images - MEAN) / DEVIATION)))
        for block in self._blocks:
            found = block(found)
        return functional.relu6(self._bn1(self._conv_head(found))).mean(dim=(2, 3))

    def classify(self, images: Tensor) -> Tensor:
        """(batch, 1000) logits of the classes of ImageNet, in their usual order."""
        return self._fc(self(images))  # type: ignore[no-any-return]


def with_weights(weights: Mapping[str, NDArray[Any]]) -> EfficientNetLite0:
    """The network with published weights, ready to be used."""
    with torch.device("meta"):  # no draws from torch's global stream
        network = EfficientNetLite0()
    network.to_empty(device="cpu")
    network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})
    return network.eval()


def embed(network: EfficientNetLite0, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(batch, 224, 224, 3) pixels to (batch, 1280)."""
    with torch.inference_mode():
        batch = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2).float()
        return np.asarray(network(batch).numpy())

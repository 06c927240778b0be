"""From a network's name, factory or module to a module with seeded weights; the embedding of a network."""

from __future__ import annotations

import copy
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional, init

from crowdprism.errors import InvalidParameterError


class Dropout(nn.Module):
    """Zero a share of the inputs while training, by draws from `generator`, set by the loop, or torch's own."""

    def __init__(self, share: float = 0.5) -> None:
        super().__init__()
        self.share = share
        self.generator: torch.Generator | None = None
        self.share_of: tuple[int, int] | None = None  # first row and number of all, where processes share a batch

    def forward(self, inputs: Tensor) -> Tensor:
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
    """Fully connected layers with ReLU and dropout; by default the published head on VGG-16 features of LabelMe."""

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
    """LeNet-5 for 28 x 28 images: 61 706 parameters with one channel and ten classes."""

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


Factories = dict[str, Callable[..., nn.Module]]
FEATURE_NETWORKS: Factories = {"linear": Linear, "mlp": MLP, "labelme": MLP, "music": MusicHead}
IMAGE_NETWORKS: Factories = {"lenet5": LeNet5, "resnet9": ResNet9, "resnet18": ResNet18}
NETWORKS = (*FEATURE_NETWORKS, *IMAGE_NETWORKS)
IMAGE_SIDES = {"lenet5": 28, "resnet9": 32}  # others take any
_LENDING = threading.RLock()  # torch's global stream is one for all threads of a process
os.register_at_fork(before=_LENDING.acquire, after_in_parent=_LENDING.release, after_in_child=_LENDING.release)


@contextmanager
def global_stream(generator: torch.Generator, device: torch.device | None = None) -> Iterator[None]:
    """Let modules that we did not write draw from `generator` (of the CPU); other threads wait here."""
    cuda = device if device is not None and device.type == "cuda" else None
    with _LENDING:
        outside = torch.get_rng_state()
        outside_cuda = None
        if cuda is not None:
            outside_cuda = torch.cuda.get_rng_state(cuda)
            seed = int(torch.randint(2**62, (), generator=generator))
            torch.cuda.set_rng_state(torch.Generator(cuda).manual_seed(seed).get_state(), cuda)
        torch.set_rng_state(generator.get_state())
        try:
            yield
        finally:
            generator.set_state(torch.get_rng_state())
            torch.set_rng_state(outside)
            if cuda is not None and outside_cuda is not None:
                torch.cuda.set_rng_state(outside_cuda, cuda)


def resolve_network(network: Any, input_shape: Sequence[int]) -> Any:
    """Turn "auto" into the name that fits the shape of one item; check other names."""
    if network == "auto":
        made_for = {side: name for name, side in IMAGE_SIDES.items()}
        return made_for.get(input_shape[-1], "resnet18") if len(input_shape) == 3 else "mlp"
    if isinstance(network, str) and network not in NETWORKS:
        raise InvalidParameterError(f"There is no network {network!r}; there are auto, {', '.join(NETWORKS)}.")
    if not isinstance(network, (str, nn.Module)) and not callable(network):
        raise InvalidParameterError(
            f"network must be a name ({', '.join(NETWORKS)}), a torch.nn.Module or a function that returns one, "
            f"not {type(network).__name__}."
        )
    return network


def build_network(
    network: Any,  # name from `NETWORKS`, function `(input_shape, n_classes) -> Module`, or module
    input_shape: Sequence[int],  # of one item
    n_classes: int,
    *,
    options: Mapping[str, Any] | None = None,  # further arguments of a named network, such as `hidden=(64, 64)`
    generator: torch.Generator,
) -> nn.Module:
    """Return a network with weights drawn from `generator`; a module is copied and keeps the weights it has.

    Examples
    --------
    >>> build_network("mlp", (20,), 3, generator=torch.Generator())(torch.zeros(2, 20)).shape
    torch.Size([2, 3])
    """
    if isinstance(network, nn.Module):
        return copy.deepcopy(network)
    if not isinstance(network, str):
        with global_stream(generator):
            built = network(tuple(input_shape), n_classes)
        if not isinstance(built, nn.Module):
            raise InvalidParameterError(
                f"The network function returned {type(built).__name__}; it must return a torch.nn.Module."
            )
        return built
    check_image(network, input_shape)
    is_image = network in IMAGE_NETWORKS
    first = input_shape[0] if is_image else math.prod(input_shape)
    factory = (IMAGE_NETWORKS if is_image else FEATURE_NETWORKS)[network]
    try:
        return seeded(lambda: factory(first, n_classes, **(options or {})), generator)
    except TypeError as error:
        raise InvalidParameterError(f"network_options do not fit network {network!r}: {error}.") from error


def seeded(make: Callable[[], nn.Module], generator: torch.Generator) -> nn.Module:
    """Return the module that `make` builds, its weights drawn from `generator` and not from torch's global stream."""
    with torch.device("meta"):  # no storage, so no draws from the global stream
        built = make()
    if torch.get_default_device().type == "meta":  # the caller wants shapes only
        return built
    built.to_empty(device="cpu")
    initialize(built, generator)
    return built


def check_image(network: str, input_shape: Sequence[int]) -> None:
    if network not in IMAGE_NETWORKS:
        return
    if len(input_shape) != 3:
        raise InvalidParameterError(
            f"Network {network!r} takes images (channels, height, width), but one item has shape {tuple(input_shape)}.",
            parameter="network",
            remedy="Reshape X to (n_items, channels, height, width) or use {network:'mlp'}.",
        )
    n_channels, height, width = input_shape
    if n_channels not in (1, 3):
        raise InvalidParameterError(
            f"Network {network!r} takes 1 or 3 channels, but items have {n_channels} (shape {tuple(input_shape)}). "
            "Channels come first: X is (n_items, channels, height, width)."
        )
    side = IMAGE_SIDES.get(network)
    if side is not None and (height, width) != (side, side):
        raise InvalidParameterError(
            f"Network {network!r} takes {side} x {side} images, not {height} x {width}.",
            parameter="network",
            remedy="Resize them or use {network:'resnet18'}.",
        )


def initialize(module: nn.Module, generator: torch.Generator) -> None:
    """Draw all weights afresh as torch's defaults do, but from `generator`; a layer of another kind is an error."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Conv2d)):
            init.kaiming_uniform_(part.weight, a=math.sqrt(5), generator=generator)
            if part.bias is not None:
                bound = 1 / math.sqrt(part.weight[0].numel())
                init.uniform_(part.bias, -bound, bound, generator=generator)
        elif isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.reset_running_stats()
            if part.affine:
                init.ones_(part.weight)
                init.zeros_(part.bias)
        elif held := [name for name, _ in (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False))]:
            raise NotImplementedError(
                f"initialize does not know how a {type(part).__name__} starts, and its {', '.join(held)} would hold "
                "whatever was in memory. Add the layer to crowdprism.networks.build.initialize."
            )


def last_linear(network: nn.Module) -> tuple[str, nn.Linear]:
    """Return the name and module of the network's last linear layer."""
    found = [(name, part) for name, part in network.named_modules() if isinstance(part, nn.Linear)]
    if not found or not found[-1][0]:
        raise InvalidParameterError(
            "This method builds on the embedding before the network's last linear layer, but the network has no "
            "torch.nn.Linear inside. Use a named network, or put the last layer into a torch.nn.Sequential."
        )
    return found[-1]


def remove_last_linear(network: nn.Module) -> int:
    """Replace the network's last linear layer by nothing, in place; return the width of the embedding."""
    name, layer = last_linear(network)
    parent, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(parent), leaf, nn.Identity())
    return layer.in_features


class EmbeddingTap:
    """Keeps the embedding of the network's latest forward pass, by a hook, until `remove` is called."""

    def __init__(self, network: nn.Module) -> None:
        _, layer = last_linear(network)
        self.width = layer.in_features
        self.value: Tensor | None = None
        self._hook = layer.register_forward_pre_hook(self._keep)

    def _keep(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.value = inputs[0]

    def remove(self) -> None:
        self._hook.remove()
        self.value = None

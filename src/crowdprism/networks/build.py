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
from torch.nn import init

from crowdprism.errors import InvalidParameterError
from crowdprism.networks.backbones import MLP, LeNet5, Linear, MusicHead, ResNet9, ResNet18

FEATURE_NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "linear": Linear,
    "mlp": MLP,
    "labelme": MLP,
    "music": MusicHead,
}
IMAGE_NETWORKS: dict[str, Callable[..., nn.Module]] = {"lenet5": LeNet5, "resnet9": ResNet9, "resnet18": ResNet18}
NETWORKS = (*FEATURE_NETWORKS, *IMAGE_NETWORKS)
IMAGE_SIDES = {"lenet5": 28, "resnet9": 32}  # others take any
_LENDING = threading.RLock()  # torch's global stream is one for all threads of a process
os.register_at_fork(before=_LENDING.acquire, after_in_parent=_LENDING.release, after_in_child=_LENDING.release)


@contextmanager
def global_stream(generator: torch.Generator, device: torch.device | None = None) -> Iterator[None]:
    """Let code that draws from torch's global streams draw from `generator`, and put the global streams back.

    For modules that we did not write. The generator (of the CPU) moves on by what was drawn; on cuda, the device's
    own stream is seeded from one draw of it. One thread at a time: fits in other threads wait here.
    """
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
        if len(input_shape) == 1:
            return "mlp"
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


def check_output(outputs: Tensor, n_items: int, n_classes: int) -> None:
    """Raise where a network does not return one logit per class and item."""
    if tuple(outputs.shape) == (n_items, n_classes):
        return
    raise InvalidParameterError(
        f"The network returns shape {tuple(outputs.shape)} for {n_items} items, but {n_classes} classes need "
        f"({n_items}, {n_classes}): one logit per class (no softmax)."
    )


def last_linear(network: nn.Module) -> tuple[str, nn.Linear]:
    """Return the name and module of the network's last linear layer.

    Examples
    --------
    >>> name, layer = last_linear(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    >>> name, layer.in_features
    ('2', 3)
    """
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
        """Leave the network as it was."""
        self._hook.remove()
        self.value = None

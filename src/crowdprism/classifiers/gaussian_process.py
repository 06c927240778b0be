"""A Gaussian process classifier for several annotators: smooth latent functions, and a confusion matrix per annotator.

Rodrigues, Pereira and Ribeiro, "Gaussian process classification and active learning with multiple annotators", ICML
2014; here for several classes, variational and sparse (Hensman, Matthews and Ghahramani 2015), so that the cost of a
step follows the batch and not the cube of the items.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import Batch, CrowdHead, Dropout, FreeConfusions, GeometricHead, diagonal_confusions
from crowdprism.networks.build import last_linear
from crowdprism.parameters import PROBABILITY, Whole
from crowdprism.seeding import stream

JITTER = 1e-4  # on the diagonal of the kernel of the inducing points, in units of its variance


class SparseProcess(nn.Module):
    """One latent function per class at inducing points, with a normal distribution over its whitened values."""

    def __init__(self, n_features: int, n_classes: int, n_inducing: int) -> None:
        super().__init__()
        self.inducing = nn.Buffer(torch.zeros(n_inducing, n_features))
        self.log_length, self.log_amplitude = nn.Parameter(torch.zeros(())), nn.Parameter(torch.tensor(math.log(2.0)))
        self.mean = nn.Parameter(torch.zeros(n_inducing, n_classes))
        self.log_std = nn.Parameter(torch.zeros(n_inducing, n_classes))
        self.coin = Dropout(0.5)

    def place(self, points: Tensor) -> None:
        """Put the inducing points at these items, and the length of the kernel at their median distance."""
        with torch.no_grad():
            self.inducing.copy_(points)
            self.log_length.copy_(torch.pdist(self.inducing).median().clamp_min(JITTER).log())

    def kernel(self, first: Tensor, second: Tensor) -> Tensor:
        """Squared-exponential kernel of unit variance: (n_first, n_second)."""
        squares = (first.unsqueeze(1) - second.unsqueeze(0)).square().sum(dim=2)
        return torch.exp(-squares / (2 * torch.exp(2 * self.log_length)))

    def moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent functions at items: (batch, n_classes) each."""
        among = self.kernel(self.inducing, self.inducing)
        factor = torch.linalg.cholesky(among + JITTER * torch.eye(len(among), device=among.device))
        weights = torch.linalg.solve_triangular(factor, self.kernel(self.inducing, features), upper=False).T
        left = (1 - weights.square().sum(dim=1, keepdim=True)).clamp_min(0)
        variance = left + weights.square() @ torch.exp(2 * self.log_std)
        return self.log_amplitude.exp() * (weights @ self.mean), torch.exp(2 * self.log_amplitude) * variance

    def forward(self, features: Tensor) -> Tensor:
        """(batch, ...) -> (batch, n_classes) logits: one standard deviation to either side while training.

        That is a draw with the right mean and variance; at use the logits are moderated by the variance.
        """
        mean, variance = self.moments(features.flatten(1))
        if self.training:
            side: Tensor = self.coin(torch.ones_like(mean)) - 1  # 1 or -1
            return mean + (variance + JITTER).sqrt() * side
        return mean / (1 + math.pi / 8 * variance).sqrt()

    def divergence(self) -> Tensor:
        """Of the whitened values' distribution from their prior, the standard normal."""
        return (torch.exp(2 * self.log_std) + self.mean.square() - 1 - 2 * self.log_std).sum() / 2


class ProcessHead(GeometricHead):
    """The joint likelihood of an item's labels, and the divergence from the prior per labelled item."""

    needs_only_outputs = False

    def __init__(self, process: SparseProcess, start: Tensor, *, n_labelled: int) -> None:
        super().__init__(FreeConfusions(start), loss="joint", shrinkage=1.0, n_annotations=n_labelled)
        self._process, self.n_labelled = [process], n_labelled  # in a list: its parameters are not the head's

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        divergence = self._process[0].divergence() / self.n_labelled
        return {**super().penalties(log_class_probs, batch), "divergence": divergence}


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianProcess(CrowdClassifier):
    """Classify by a sparse variational Gaussian process, with a confusion matrix for every annotator.

    For few items with few features, and where doubt far from all items matters.

    Parameters
    ----------
    n_inducing
        Items, drawn at random, at which the latent functions are kept; more are finer and slower.
    start_diagonal
        Probability of a right label at the start.
    """

    name: ClassVar[str] = "gaussian-process"
    rate_ratio: ClassVar[float] = 3.0
    _allowed: ClassVar = {"n_inducing": Whole(2), "start_diagonal": PROBABILITY}

    n_inducing: int = 50
    start_diagonal: float = 0.7
    network: Any = "linear"
    learning_rate: float = 3e-2
    weight_decay: float = 0.0
    warm_start: float = 0.0

    def _check_parameters(self, problem: Problem) -> None:
        if self.network != "linear":
            raise InvalidParameterError(
                "The process takes the place of the network: leave network='linear'.", parameter="network"
            )

    def _extend_network(
        self, network: nn.Module, *, n_annotators: int, n_classes: int, generator: torch.Generator
    ) -> nn.Module:
        return SparseProcess(last_linear(network)[1].in_features, n_classes, self.n_inducing)

    def _make_head_for(self, network: nn.Module, problem: Problem) -> CrowdHead:
        assert isinstance(network, SparseProcess)
        drawn = stream(problem.seed, "inducing", problem.member).permutation(len(problem.items))
        index = drawn[torch.arange(self.n_inducing).numpy() % len(drawn)]
        network.place(next(iter(problem.items.batches([index], None))).flatten(1).float())
        start = diagonal_confusions(problem.n_annotators, problem.n_classes, self.start_diagonal)
        n_labelled = int((problem.annotations.labels_per_item > 0).sum())
        return ProcessHead(network, start, n_labelled=n_labelled)

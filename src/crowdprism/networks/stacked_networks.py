"""Many small networks of the same layers as one program, so that a step of thirty costs little more than one of ten.

Small networks leave a processor idle: most of a step is overhead. `torch.func` turns thirty matrix products into one
batched product. Each model keeps its own parameters; they are stacked for each step. A batch holds the same number of
items for each model, model by model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from crowdprism.networks.annotator_layer import LogitConfusions
from crowdprism.networks.backbones import Dropout
from crowdprism.networks.heads import CrowdHead, GeometricHead
from crowdprism.networks.losses import Batch, coupled_cross_entropy, joint_cross_entropy, log_columns
from crowdprism.networks.volume import confusion_gram, log_volume, prediction_gram, reference_log_volume
from crowdprism.seeding import torch_stream

STACKABLE = (nn.Flatten, nn.Linear, nn.ReLU, nn.BatchNorm1d, Dropout)


def can_stack(networks: Sequence[nn.Module], heads: Sequence[CrowdHead]) -> bool:
    """Tell whether models are alike enough: equal chains of plain layers, and GeoCrowdNet's heads with small tables."""
    chains = [
        repr(network)  # every layer with its sizes
        for network in networks
        if isinstance(network, nn.Sequential)
        and all(isinstance(layer, STACKABLE) and getattr(layer, "momentum", 0.0) is not None for layer in network)
    ]
    kinds = [
        (head.layer.form, head.kind, head.temper, head.regularizer, head.reference)
        for head in heads
        if type(head) is GeometricHead
        and isinstance(head.layer, LogitConfusions)
        and not head.layer.table.touched_only
        and head.class_shares is None
    ]
    return len(chains) == len(networks) and len(kinds) == len(heads) and len(set(chains)) == len(set(kinds)) == 1


class StackedNetwork(nn.Module):
    """Networks of the same layers as one module; trains their own parameters.

    Running statistics (batch norm) are kept stacked while training; `write_back` gives them to the networks.

    Examples
    --------
    >>> from crowdprism.networks.backbones import MLP
    >>> stack = StackedNetwork([MLP(4, 3), MLP(4, 3)])
    >>> stack(torch.zeros(2 * 5, 4)).shape  # five items for each of two models
    torch.Size([10, 3])
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        names = [name for name, _ in networks[0].named_parameters()]
        self._same = dict(zip(names, zip(*(network.parameters() for network in networks), strict=True), strict=True))

    @cached_property
    def _statistics(self) -> dict[str, Tensor]:  # made with the first step, when the networks are on their device
        return stack_module_state(list(self.networks))[1]

    def forward(self, features: Tensor) -> Tensor:
        """(model * batch, ...) -> (model * batch, n_classes)."""
        parameters = {name: torch.stack(same) for name, same in self._same.items()}
        by_model = features.view(len(self.networks), -1, *features.shape[1:])
        outputs: Tensor = vmap(self._one, randomness="different")(parameters, self._statistics, by_model)
        return outputs.flatten(0, 1)

    def _one(self, parameters: dict[str, Tensor], statistics: dict[str, Tensor], features: Tensor) -> Tensor:
        outputs: Tensor = functional_call(self.networks[0], (parameters, statistics), (features,))
        return outputs

    @torch.no_grad()
    def write_back(self) -> None:
        """Give each network its running statistics."""
        for place, network in enumerate(self.networks):
            for name, buffer in network.named_buffers():
                buffer.copy_(self._statistics[name][place])


class StackedHead(CrowdHead):
    """GeoCrowdNet's loss and volume terms for many models in one batch; trains the heads' own parameters.

    Annotators of model s have codes from `s * n_annotators` on. Each model's loss is divided by its own count, so
    that one model's gradient does not depend on the others.
    """

    def __init__(
        self,
        heads: Sequence[GeometricHead],
        *,
        noise: Sequence[float],  # (n_models,) standard deviation of what is added to each model's scaled features
        seed: int,  # of the noise
    ) -> None:
        super().__init__()
        self.heads, self.n_models = nn.ModuleList(heads), len(heads)
        self.layers = [head.layer for head in heads if isinstance(head.layer, LogitConfusions)]
        first = heads[0]
        self.kind, self.temper = first.kind, first.temper
        self.regularizer, self.reference = first.regularizer, first.reference
        self.strength: Tensor
        self.shrinkage: Tensor
        self.noise: Tensor
        self.register_buffer("strength", torch.tensor([head.strength for head in heads]), persistent=False)
        self.register_buffer("shrinkage", torch.tensor([head.shrinkage for head in heads]), persistent=False)
        self.register_buffer("noise", torch.tensor(list(noise)).view(-1, 1, 1), persistent=False)
        self._noisy, self._shrunk = any(noise), bool(self.shrinkage.any())
        self._seed = seed
        self._generator: torch.Generator | None = None

    def start_epoch(self, epoch: int) -> None:
        """Give the epoch a noise stream of its own."""
        self._generator = torch_stream(self._seed, "stacked noise", epoch, device=str(self.noise.device))

    def transform(self, batch: Batch, random: np.random.Generator) -> Batch:
        """Add each model's noise to its features."""
        if not self._noisy:
            return batch
        features = batch.features.view(len(self.layers), -1, *batch.features.shape[1:]).flatten(2)
        drawn = torch.randn(features.shape, generator=self._generator, device=features.device)
        return replace(batch, features=torch.addcmul(features, drawn, self.noise).view_as(batch.features))

    def _rows(self) -> Tensor:
        """(model, annotator, true class, given label) of the tables."""
        return torch.stack([layer.table.values for layer in self.layers])

    def _log_confusions(self) -> Tensor:
        """(model, annotator, true class, given label)."""
        common: list[Tensor] = [layer.common for layer in self.layers if layer.common is not None]
        rows = self._rows()
        return torch.log_softmax(rows + torch.stack(common).unsqueeze(1) if common else rows, dim=-1)

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        """Sum over models of each model's mean loss."""
        columns = log_columns(self._log_confusions().flatten(0, 1), batch.annotator, batch.label)
        n_models = len(self.layers)
        per_model = len(log_class_probs) // n_models
        if self.kind == "ccem":
            weight = torch.ones_like(columns[:, 0]) if batch.weight is None else batch.weight
            model = batch.item // per_model
            count = weight.new_zeros(n_models).index_add_(0, model, weight).clamp_min_(torch.finfo(weight.dtype).tiny)
            return coupled_cross_entropy(log_class_probs, columns, batch.item, weight / count.index_select(0, model))
        labelled = columns.new_zeros(len(log_class_probs)).index_fill_(0, batch.item, 1.0)
        share = 1 / labelled.view(n_models, per_model).sum(dim=1, keepdim=True).clamp_min(1.0)
        each = share.expand(-1, per_model).flatten()
        return joint_cross_entropy(
            log_class_probs, columns, batch.item, batch.weight, temper=self.temper, group_weight=each
        )

    def count(self, batch: Batch) -> float:
        """1: the loss is already a sum of means."""
        return 1.0

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        terms: dict[str, Tensor] = {}
        if self.regularizer is not None:
            if self.regularizer == "F":
                grams = prediction_gram(log_class_probs.exp().view(len(self.layers), -1, log_class_probs.shape[-1]))
            else:
                grams = confusion_gram(self._log_confusions().exp())
            volume = reference_log_volume(grams.float())[0] if self.reference else log_volume(grams)
            terms["volume"] = -(self.strength * volume).sum()
        if self._shrunk:
            centres = [layer.centre for layer in self.layers if layer.centre is not None]
            rows = self._rows() - torch.stack(centres).unsqueeze(1) if centres else self._rows()
            terms["shrinkage"] = 0.5 * (self.shrinkage * rows.square().sum(dim=(1, 2, 3))).sum()
        return terms

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """(model, annotator, true class, given label)."""
        return self._log_confusions().exp()

"""The crowd heads of many models as one; see `crowdprism.networks.stacked`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from crowdprism.networks.annotation_batch import Batch
from crowdprism.networks.annotator_layer import FreeConfusions, PooledConfusions
from crowdprism.networks.crowd_head import CrowdHead
from crowdprism.networks.geometric_head import GeometricHead
from crowdprism.networks.losses import joint_log_likelihood, log_columns
from crowdprism.networks.volume import REFERENCE_LIMIT, log_volume
from crowdprism.seeding import torch_stream


def can_stack_heads(heads: Sequence[CrowdHead]) -> bool:
    """Tell whether heads are alike enough: GeoCrowdNet's, with small confusion tables and the same kind of terms."""
    if not all(type(head) is GeometricHead for head in heads):
        return False
    alike = {
        (head.layer.form, head.layer.table.touched_only, head.kind, head.temper, head.regularizer, head.reference)
        for head in heads
        if isinstance(head, GeometricHead)
    }
    form, touched_only, *_ = next(iter(alike))
    return len(alike) == 1 and form in ("free", "pooled") and not touched_only


class StackedHead(CrowdHead):
    """GeoCrowdNet's loss and volume terms for many models in one batch.

    Annotators of model s have codes from `s * n_annotators` on. Each model's loss is divided by its own count, so
    that one model's gradient does not depend on the others.

    Parameters
    ----------
    heads
        The models' heads.
    noise
        (n_models,) standard deviation of the noise added to each model's scaled features.
    seed
        Of the noise.
    """

    def __init__(self, heads: Sequence[GeometricHead], *, noise: Sequence[float], seed: int) -> None:
        super().__init__()
        first = heads[0]
        self.n_models, self.n_annotators = len(heads), first.layer.n_annotators
        self.n_classes = first.layer.n_classes
        self.kind, self.temper = first.kind, first.temper
        self.regularizer, self.reference = first.regularizer, first.reference
        self.rows = nn.Parameter(torch.stack([head.layer.table.values.detach() for head in heads]))
        pooled = [head.layer.common.detach() for head in heads if isinstance(head.layer, PooledConfusions)]
        self.common = nn.Parameter(torch.stack(pooled).unsqueeze(1)) if pooled else None
        self.start: Tensor
        self.strength: Tensor
        self.shrinkage: Tensor
        self.noise: Tensor
        # What rows are shrunk to: the mean start of free logits, no residual of pooled ones.
        centres = [head.layer.start if isinstance(head.layer, FreeConfusions) else torch.zeros(1, 1) for head in heads]
        self.register_buffer("start", torch.stack(centres).unsqueeze(1), persistent=False)
        self.register_buffer("strength", torch.tensor([head.strength for head in heads]), persistent=False)
        self.register_buffer("shrinkage", torch.tensor([head.shrinkage for head in heads]), persistent=False)
        self.register_buffer("noise", torch.tensor(list(noise)).view(-1, 1, 1), persistent=False)
        self._noisy = any(noise)
        self._seed = seed
        self._generator: torch.Generator | None = None

    def start_epoch(self, epoch: int) -> None:
        """Give the epoch a noise stream of its own."""
        self._generator = torch_stream(self._seed, "stacked noise", epoch, device=str(self.noise.device))

    def transform(self, batch: Batch, random: np.random.Generator) -> Batch:
        """Add each model's noise to its features."""
        if not self._noisy:
            return batch
        features = batch.features.view(self.n_models, -1, *batch.features.shape[1:]).flatten(2)
        drawn = torch.randn(features.shape, generator=self._generator, device=features.device)
        return replace(batch, features=torch.addcmul(features, drawn, self.noise).view_as(batch.features))

    def _logits(self) -> Tensor:
        """(model, annotator, true class, given label)."""
        return self.rows if self.common is None else self.rows + self.common

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        """Sum over models of each model's mean loss."""
        columns = log_columns(torch.log_softmax(self._logits(), dim=-1).flatten(0, 1), batch.annotator, batch.label)
        rows_per_model = len(log_class_probs) // self.n_models
        if self.kind == "ccem":
            likelihood = torch.logsumexp(log_class_probs.index_select(0, batch.item) + columns, dim=1)
            weight = torch.ones_like(likelihood) if batch.weight is None else batch.weight
            model = batch.item // rows_per_model
            sums = likelihood.new_zeros(2, self.n_models).index_add(
                1, model, torch.stack([likelihood * weight, weight])
            )
            return -(sums[0] / sums[1].clamp_min(1.0)).sum()
        likelihood = joint_log_likelihood(log_class_probs, columns, batch.item, batch.weight, temper=self.temper)
        labelled = likelihood.new_zeros(len(likelihood)).index_fill(0, batch.item, 1.0)
        counts = labelled.view(self.n_models, -1).sum(dim=1).clamp_min(1.0)
        return -(likelihood.view(self.n_models, -1).sum(dim=1) / counts).sum()

    def count(self, batch: Batch) -> float:
        """1: the loss is already a sum of means."""
        return 1.0

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        terms: dict[str, Tensor] = {}
        if self.regularizer is not None:
            terms["volume"] = -(self.strength * self._volume(self._gram(log_class_probs))).sum()
        if bool(self.shrinkage.any()):
            distance = (self.rows - self.start).square()
            terms["shrinkage"] = 0.5 * (self.shrinkage * distance.sum(dim=(1, 2, 3))).sum()
        return terms

    def _gram(self, log_class_probs: Tensor) -> Tensor:
        """(model, n_classes, n_classes) Gram of the predictions or of the stacked confusions."""
        if self.regularizer == "F":
            wide = log_class_probs.exp().double().view(self.n_models, -1, self.n_classes)
            return wide.transpose(1, 2) @ wide
        stacked = torch.softmax(self._logits().double(), dim=-1).transpose(1, 2).flatten(2)
        return stacked @ stacked.transpose(1, 2)

    def _volume(self, grams: Tensor) -> Tensor:
        if not self.reference:
            return log_volume(grams)
        with torch.no_grad():
            value = torch.log(torch.det(grams.float()))
            used = torch.isfinite(value) & (-value <= REFERENCE_LIMIT)
        even = torch.eye(self.n_classes, device=grams.device)  # log det 0, and no gradient
        return torch.log(torch.det(torch.where(used[:, None, None], grams.float(), even)))

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """(model * annotator, true class, given label)."""
        return torch.softmax(self._logits(), dim=-1).flatten(0, 1)

    @torch.no_grad()
    def write_back(self, heads: Sequence[GeometricHead]) -> None:
        """Give each head its trained logits."""
        for place, head in enumerate(heads):
            head.layer.table.values.copy_(self.rows[place])
            if isinstance(head.layer, PooledConfusions) and self.common is not None:
                head.layer.common.copy_(self.common[place, 0])

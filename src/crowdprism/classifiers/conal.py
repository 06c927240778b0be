"""CoNAL: part of the noise is common to all annotators, part is individual; a gate decides per item and annotator.

Chu, Ma and Wang, "Learning from crowds by modeling common confusions", AAAI 2021.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks import Batch, CrowdHead, RowTable
from crowdprism.networks.build import seeded
from crowdprism.networks.losses import label_cross_entropy
from crowdprism.parameters import FLAG, Real, Whole
from crowdprism.seeding import torch_stream
from crowdprism.training import TrainingSettings

GATE_WIDTH = 128  # of the layer between an item's features and its embedding, as in the paper
GATE_MEMORY = 0.95  # share of the old value in the running mean of an annotator's gate
SMALLEST_NORM = 1e-12


class CommonNoiseHead(CrowdHead):
    """Logits of an annotator's label: ω (Wᵀ f) + (1 - ω) (W_mᵀ f), with the gate ω = sigmoid(<v_item, u_annotator>)."""

    reads_features = True

    def __init__(
        self, method: CoNAL, sizes: tuple[int, int, int], *, touch_rate: Tensor, generator: torch.Generator
    ) -> None:
        super().__init__()
        n_annotators, n_classes, n_features = sizes
        self.strength, embedding = method.strength, method.embedding
        start = method.start_scale * torch.eye(n_classes)
        self.common = nn.Parameter(start.clone())  # (true class, given label)
        self.individual = RowTable(start.expand(n_annotators, -1, -1))
        self.item_gate = seeded(
            lambda: nn.Sequential(nn.Linear(n_features, GATE_WIDTH), nn.Linear(GATE_WIDTH, embedding)), generator
        )
        bound = 1 / math.sqrt(n_annotators)  # a linear layer on one-hot annotators, as torch starts it
        self.annotator_gate = RowTable(
            torch.empty(n_annotators, embedding).uniform_(-bound, bound, generator=generator)
        )
        self.touch_rate: Tensor
        self.mean_gate: Tensor
        self.register_buffer("touch_rate", touch_rate.float(), persistent=False)
        self.register_buffer("mean_gate", torch.full((n_annotators,), 0.5))

    def gates(self, batch: Batch) -> Tensor:
        """(annotation,) share of the common noise; both embeddings have length one, so it lies in 0.27 .. 0.73."""
        of_items = functional.normalize(self.item_gate(batch.features.flatten(1)), dim=1)
        table = self.annotator_gate
        of_annotators = functional.normalize(table.rows(batch), dim=1).index_select(0, table.place(batch))
        return torch.sigmoid((of_items.index_select(0, batch.item) * of_annotators).sum(dim=1))

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        gate = self.gates(batch)
        probs = log_class_probs.exp().index_select(0, batch.item)
        own = self.individual.rows(batch).index_select(0, self.individual.place(batch))
        individual = torch.bmm(probs.unsqueeze(1), own).squeeze(1)
        logits = gate.unsqueeze(1) * (probs @ self.common) + (1 - gate).unsqueeze(1) * individual
        self._remember(gate.detach(), batch)
        return label_cross_entropy(torch.log_softmax(logits, dim=1), batch.label, batch.weight)

    @torch.no_grad()
    def _remember(self, gate: Tensor, batch: Batch) -> None:
        """Keep a running mean of each annotator's gate, for `confusions`."""
        weight = torch.ones_like(gate) if batch.weight is None else batch.weight
        sums = gate.new_zeros(len(batch.touched)).index_add_(0, batch.place, gate * weight)
        totals = gate.new_zeros(len(batch.touched)).index_add_(0, batch.place, weight)
        old = self.mean_gate.index_select(0, batch.touched)
        means = torch.where(totals > 0, sums / totals, old)
        self.mean_gate.index_copy_(0, batch.touched, torch.lerp(means, old, GATE_MEMORY))

    def penalties(self, log_class_probs: Tensor, batch: Batch) -> Mapping[str, Tensor]:
        """-strength Σ_m ||W_m - W||: individual noise is pushed away from the common one."""
        if not self.strength:
            return {}
        apart = (self.individual.rows(batch) - self.common).square().sum(dim=(1, 2))
        # The norm has no gradient at zero, where training starts.
        norms = torch.where(apart > 0, apart.clamp_min(SMALLEST_NORM).sqrt(), 0.0)
        if self.individual.touched_only:
            norms = norms / self.touch_rate.index_select(0, batch.touched)
        return {"distance": -self.strength * norms.sum()}

    @torch.no_grad()
    def confusions(self) -> Tensor:
        """What each annotator says of an item whose class is certain, at the annotator's mean gate."""
        gate = self.mean_gate.view(-1, 1, 1)
        return torch.softmax(gate * self.common + (1 - gate) * self.individual.values, dim=-1)


@dataclass(kw_only=True, eq=False, repr=False)
class CoNAL(CrowdClassifier):
    """Model noise that all annotators share beside each annotator's own, and train a classifier through both.

    Parameters
    ----------
    strength
        Weight of the distance between common and individual noise, which is maximised; the paper has 1e-5.
    embedding
        Length of the embeddings of items and annotators in the gate; 20 in the paper (80 for Music).
    start_scale
        Both kinds of noise start at this times the identity; the paper has 2.
    one_step_per_epoch
        Take a single step per epoch, as an earlier port did whose published numbers are low for that reason.
    **training
        Parameters of `CrowdClassifier`. The paper (LabelMe): Adam at 0.01, batches of 1024, 100 epochs.

    Notes
    -----
    `confusions_` are what the model answers for an item whose class is certain, at the mean gate of each annotator.
    """

    name: ClassVar[str] = "conal"
    _allowed: ClassVar = {
        "strength": Real(0),
        "embedding": Whole(1),
        "start_scale": Real(0),
        "one_step_per_epoch": FLAG,
    }

    strength: float = 1e-5
    embedding: int = 20
    start_scale: float = 2.0
    one_step_per_epoch: bool = False

    def _settings(self, problem: Problem) -> TrainingSettings:
        return replace(super()._settings(problem), max_batches=1 if self.one_step_per_epoch else None)

    def _make_head(self, problem: Problem) -> CrowdHead:
        sizes = (problem.n_annotators, problem.n_classes, math.prod(problem.items.shape))
        touch_rate = torch.from_numpy(problem.flat.touch_rate(problem.batch_size))
        generator = torch_stream(problem.seed, "gate", problem.member)
        return CommonNoiseHead(self, sizes, touch_rate=touch_rate, generator=generator)

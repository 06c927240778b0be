"""DoctorNet: one output per annotator on a shared network; the prediction is their (weighted) average.

Guan, Gulshan, Dai and Hinton, "Who said what: modeling individual labelers improves classification", AAAI 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import NetworkPlan, Problem
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import Batch, CrowdHead, RowTable
from crowdprism.networks.build import last_linear, remove_last_linear, seeded
from crowdprism.networks.losses import label_cross_entropy
from crowdprism.parameters import FLAG, Whole
from crowdprism.training import TrainingSettings

SMALLEST_WEIGHT = 1e-6  # weights of annotators stay above this


class DoctorNetwork(nn.Module):
    """A shared trunk with a linear output per annotator; the average is formed at use only, not while training."""

    embedding: Tensor  # of the latest batch in training

    def __init__(
        self,
        network: nn.Module,
        n_annotators: int,
        n_classes: int,
        *,
        by_item: bool = False,
        squeeze: nn.Module | None = None,  # from the embedding to what the weights of an item depend on
    ) -> None:
        super().__init__()
        layer = last_linear(network)[1]
        self.squeeze = nn.Identity() if squeeze is None else squeeze
        width = squeeze.out_features if isinstance(squeeze, nn.Linear) else layer.in_features
        self.sight = RowTable(torch.zeros(n_annotators, width), touched_only=True) if by_item else None
        bias = torch.zeros(n_classes) if layer.bias is None else layer.bias
        # All annotators start as the network's own output: one who labels little stays near it.
        start = torch.cat([layer.weight, bias.unsqueeze(1)], dim=1).detach()  # bias in the last column
        self.outputs = RowTable(start.expand(n_annotators, -1, -1), touched_only=True)
        self.influence = RowTable(torch.zeros(n_annotators), touched_only=True)  # of the weight above 1
        remove_last_linear(network)
        self.trunk, self.n_classes = network, n_classes
        self.counted = nn.Buffer(torch.ones(n_annotators))  # 0 for annotators without labels

    def forward(self, features: Tensor) -> Tensor:
        """(batch, ...) features -> (batch, n_classes) log of the annotators' weighted average probabilities."""
        embedding: Tensor = self.trunk(features)
        if self.training:
            self.embedding = embedding
            return embedding.new_zeros(len(embedding), self.n_classes)
        return self.log_average(embedding)

    def log_average(self, embedding: Tensor) -> Tensor:
        """(batch, n_classes) log of the annotators' weighted average probabilities."""
        weight = (1 + self.influence.values).expand(len(embedding), -1)
        if self.sight is not None:
            weight = weight + self.squeeze(embedding) @ self.sight.values.T
        weight = self.counted * weight.clamp_min(SMALLEST_WEIGHT)  # (batch, annotator)
        total = embedding.new_zeros(len(embedding), self.n_classes)
        rows = max(1, 2**22 // max(1, len(embedding) * self.n_classes))  # annotators at a time
        for first in range(0, weight.shape[1], rows):
            outputs = self.outputs.values[first : first + rows]
            logits = torch.einsum("bd,mkd->bmk", embedding, outputs[..., :-1]) + outputs[..., -1]
            total = total + torch.einsum("bm,bmk->bk", weight[:, first : first + rows], torch.softmax(logits, dim=-1))
        return (total / weight.sum(dim=1, keepdim=True)).clamp_min(torch.finfo(total.dtype).tiny).log()


class DoctorHead(CrowdHead):
    """Cross-entropy of each annotator's own output; with `weighted`, each one's worth is learned beside it."""

    needs_only_outputs = False

    def __init__(self, network: DoctorNetwork, *, weighted: bool) -> None:
        super().__init__()
        self.outputs, self.influence, self.weighted = network.outputs, network.influence, weighted
        self.sight = network.sight
        self._network = [network]  # in a list: the network's parameters are not the head's

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        embedding = self._network[0].embedding
        rows = self.outputs.rows(batch).index_select(0, batch.place)
        logits = torch.bmm(rows[..., :-1], embedding.index_select(0, batch.item).unsqueeze(2)).squeeze(2)
        log_probs = torch.log_softmax(logits + rows[..., -1], dim=1)
        loss = label_cross_entropy(log_probs, batch.label, batch.weight)
        if self.weighted and len(batch.label):
            loss = loss + self._weighting_loss(log_probs.detach().exp(), batch, embedding.detach())
        return loss

    def known_loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        """Teaches the trunk: annotators' outputs follow their own labels."""
        network = self._network[0]
        return super().known_loss(network.log_average(network.embedding), batch)

    def _weighting_loss(self, probs: Tensor, batch: Batch, embedding: Tensor) -> Tensor:
        """-Σ log of the weighted average of the item's annotators at each label that the item got."""
        n_rows, weight = len(embedding), 1 + self.influence.rows(batch).index_select(0, batch.place)
        if self.sight is not None:
            seen = self._network[0].squeeze(embedding).index_select(0, batch.item)
            weight = weight + (seen * self.sight.rows(batch).index_select(0, batch.place)).sum(dim=1)
        weight = weight.clamp_min(SMALLEST_WEIGHT)
        total = probs.new_zeros(n_rows).index_add(0, batch.item, weight)
        mixed = probs.new_zeros(n_rows, probs.shape[1]).index_add(0, batch.item, weight.unsqueeze(1) * probs)
        average = mixed.index_select(0, batch.item) / total.index_select(0, batch.item).unsqueeze(1)
        return label_cross_entropy(average.clamp_min(torch.finfo(average.dtype).tiny).log(), batch.label, batch.weight)


@dataclass(kw_only=True, eq=False, repr=False)
class DoctorNet(CrowdClassifier):
    """Learn to imitate every annotator on a shared network, and predict by the average of the imitations.

    `confusions_` is None: the method models what annotators say of an item, not what is true.

    Parameters
    ----------
    weighted
        Learn a weight per annotator such that the weighted average of an item's annotators fits the item's labels
        (the paper's WDN); `"item"` lets the weights depend on the item (IWDN); False averages all alike (DN).
    bottleneck
        Width of a linear layer between the embedding and the item's weights (BIWDN); None for no such layer.
    **training
        Parameters of `CrowdClassifier`. The comparison of Ibrahim et al.: Adam at 1e-3, weights at 0.03.
    """

    name: ClassVar[str] = "doctornet"
    _allowed: ClassVar = {"weighted": (FLAG, "item"), "bottleneck": (Whole(1), None)}
    rate_ratio: ClassVar[float] = 1.0  # annotators' outputs are layers of the network, and learn as it does
    no_confusions: ClassVar[str] = (
        " It models what each annotator says of an item, not how that depends on the truth; geocrowdnet does."
    )

    weighted: bool | Literal["item"] = False
    bottleneck: int | None = None

    def _method_name(self, problem: Problem) -> str:
        if self.weighted == "item":
            return f"{self.name}-item" if self.bottleneck is None else f"{self.name}-bottleneck"
        return f"{self.name}-weighted" if self.weighted else self.name

    def _check_parameters(self, problem: Problem) -> None:
        if self.bottleneck is not None and self.weighted != "item":
            raise InvalidParameterError(
                "A bottleneck narrows what the weights of an item depend on: use weighted='item' with it.",
                parameter="bottleneck",
            )

    def _settings(self, problem: Problem) -> TrainingSettings:
        settings = super()._settings(problem)
        return replace(settings, annotator_weight_decay=settings.annotator_weight_decay or settings.weight_decay)

    def _extend_network(self, network: nn.Module, plan: NetworkPlan, generator: torch.Generator) -> nn.Module:
        width, squeeze = last_linear(network)[1].in_features, None
        if self.bottleneck is not None:
            squeeze = seeded(lambda: nn.Linear(width, int(self.bottleneck or 1)), generator)
        sizes, by_item = (plan.n_annotators, plan.n_classes), self.weighted == "item"
        return DoctorNetwork(network, *sizes, by_item=by_item, squeeze=squeeze)

    def _make_head_for(self, network: nn.Module, problem: Problem) -> CrowdHead:
        assert isinstance(network, DoctorNetwork)
        network.counted.copy_(torch.from_numpy(problem.annotations.labels_per_annotator > 0))
        return DoctorHead(network, weighted=bool(self.weighted))

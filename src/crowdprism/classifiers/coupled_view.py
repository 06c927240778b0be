"""Coupled-view learning: labels and features are two views of the class, and each teaches the other what it is sure of.

Li, Zhang, Zeng, Xu, Xie and Ding, "Coupled-view deep classifier learning from multiple noisy annotators", AAAI 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crowdprism.classifiers.aggnet import AggNet
from crowdprism.classifiers.fitting import Problem
from crowdprism.networks import EpochView
from crowdprism.networks.heads import TargetHead
from crowdprism.networks.losses import counted_confusions, expected_counts, log_posterior
from crowdprism.parameters import PROBABILITY


class CoupledViewHead(TargetHead):
    """Targets come from the labels alone; confusions from the network's predictions; both on items of small loss."""

    def __init__(self, method: CoupledView, votes: Tensor, used: Tensor, confusions: Tensor) -> None:
        super().__init__(votes, used=used, confusions=confusions)
        self.method = method
        self.labelled: Tensor
        self.register_buffer("labelled", used.clone(), persistent=False)

    def end_epoch(self, view: EpochView) -> None:
        """Take over from each view what the other finds easy."""
        if (view.epoch + 1) % self.method.epochs_per_round:
            return
        assert self.known_confusions is not None
        given = view.item, view.annotator, view.label, view.weight
        even = torch.zeros_like(view.log_class_probs)
        by_labels = log_posterior(even, self.known_confusions, *given, smallest=self.method.smallest)
        share = self.method.first_share + (1 - self.method.first_share) * (view.epoch + 1) / self.method.epochs
        easy = small_loss(view.log_class_probs, by_labels.argmax(dim=1), self.labelled, share)
        self.targets.copy_(by_labels.exp() * easy.unsqueeze(1))
        sure = view.log_class_probs.exp() * easy.unsqueeze(1)
        counts = expected_counts(sure, *given, len(self.known_confusions))
        self.known_confusions.copy_(counted_confusions(counts, self.method.smoothing))


def small_loss(log_class_probs: Tensor, label: Tensor, among: Tensor, share: float) -> Tensor:
    """(n_items,) 1 for this share of the items of each label, those that the network finds most probable; else 0."""
    fit = log_class_probs.gather(1, label.unsqueeze(1)).sum(dim=1)
    chosen = torch.zeros_like(fit)
    for wanted in range(log_class_probs.shape[1]):
        own = torch.nonzero(among & (label == wanted))[:, 0]
        best = fit[own].argsort(descending=True, stable=True)[: round(share * len(own))]
        chosen[own[best]] = 1.0
    return chosen


@dataclass(kw_only=True, eq=False, repr=False)
class CoupledView(AggNet):
    """Train a network on what annotators agree on, judge annotators by the network, and widen both step by step.

    Unlike `AggNet`, features do not enter the targets: the two views stay apart and correct each other on items of
    small loss, whose share grows from `first_share` to all.

    Parameters
    ----------
    first_share
        Share of the items of each class that are used at first.
    epochs_per_round, smoothing, smallest
        As in `AggNet`.
    """

    name: ClassVar[str] = "coupled-view"
    _allowed: ClassVar = {"first_share": PROBABILITY}

    first_share: float = 0.5

    def _make_head(self, problem: Problem) -> TargetHead:
        start = super()._make_head(problem)
        assert start.known_confusions is not None
        assert start.used is not None
        return CoupledViewHead(self, start.targets, torch.from_numpy(start.used), start.known_confusions)

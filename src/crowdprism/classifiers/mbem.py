"""MBEM: train on weighted votes, use the trained network to learn about the annotators, and train again.

Khetan, Lipton and Anandkumar, "Learning from noisy singly-labeled data", ICLR 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.classifiers.starting_values import vote_targets
from crowdprism.networks import Batch, EpochView
from crowdprism.networks.heads import TargetHead
from crowdprism.networks.losses import counted_confusions, expected_counts, log_posterior
from crowdprism.parameters import FLAG, Whole
from crowdprism.seeding import torch_stream
from crowdprism.training import TrainingSettings

SMALLEST = 1e-10  # of a confusion entry, as in the authors' code


class BootstrapHead(TargetHead):
    """Targets are votes in the first round, then the posterior given confusions counted from hard predictions."""

    def __init__(
        self,
        votes: Tensor,
        used: Tensor,
        *,
        n_annotators: int,
        ends: list[int],
        misaligned: torch.Generator | None = None,
        softmax_twice: bool = False,
    ) -> None:
        n_classes = votes.shape[1]
        super().__init__(votes, used=used, confusions=torch.full((n_annotators, n_classes, n_classes), 1 / n_classes))
        self.ends = ends  # the last epoch of each round
        self.misaligned, self.softmax_twice = misaligned, softmax_twice

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        if self.softmax_twice:
            log_class_probs = torch.log_softmax(log_class_probs.exp(), dim=1)
        return super().loss(log_class_probs, batch)

    def end_epoch(self, view: EpochView) -> None:
        """Learn about the annotators after each epoch; give new targets only where a round ends."""
        predicted = functional.one_hot(view.log_class_probs.argmax(dim=1), self.targets.shape[1]).float()
        if self.misaligned is not None:
            predicted = predicted[torch.randperm(len(predicted), generator=self.misaligned)]
        confusions, prior = self._m_step(predicted, view)
        assert self.known_confusions is not None
        self.known_confusions.copy_(confusions)
        if view.epoch in self.ends[:-1]:
            self.targets.copy_(self._e_step(confusions, prior, view))

    def _m_step(self, predicted: Tensor, view: EpochView) -> tuple[Tensor, Tensor]:
        """Count annotators' labels against the network's hard predictions; class shares of the annotated items."""
        assert self.known_confusions is not None
        given = view.item, view.annotator, view.label, view.weight
        counts = expected_counts(predicted, *given, len(self.known_confusions))
        prior = predicted.index_select(0, torch.unique(view.item)).mean(dim=0)
        return counted_confusions(counts, 0.0), prior

    def _e_step(self, confusions: Tensor, prior: Tensor, view: EpochView) -> Tensor:
        """q_n[k] ∝ π_k Π_m C_m[k, label]: the features speak only through what they taught about annotators."""
        log_prior = prior.clamp_min(SMALLEST).log().expand_as(self.targets)
        given = view.item, view.annotator, view.label, view.weight
        return log_posterior(log_prior, confusions, *given, smallest=SMALLEST).exp()


@dataclass(kw_only=True, eq=False, repr=False)
class MBEM(CrowdClassifier):
    """Train on votes, estimate annotators from the network's predictions, re-weight the labels, and train anew.

    Parameters
    ----------
    rounds
        How often the network is trained from the start, each time with an even share of the epochs and a new schedule;
        the first time on votes. The paper finds 2 enough.
    continue_training
        Go on from the last round's network instead of starting anew; the paper starts anew, an earlier port goes on.
    misaligned_predictions
        Estimate annotators from predictions of the wrong items, as the port with low published numbers does.
    softmax_twice
        Take class probabilities for logits in the loss, as that port does. The loss of an item is then bounded: on
        Music, chosen by clean labels, 67.3 instead of 65.5 % (five seeds; published 69.0 with a spread of 2.2).
    **training
        Parameters of `CrowdClassifier`. The paper (CIFAR-10): momentum 0.9 at 0.5, batches of 500, 60 epochs a round.
    """

    name: ClassVar[str] = "mbem"
    _allowed: ClassVar = {
        "rounds": Whole(1),
        **dict.fromkeys(("continue_training", "misaligned_predictions", "softmax_twice"), FLAG),
    }

    rounds: int = 2
    continue_training: bool = False
    misaligned_predictions: bool = False
    softmax_twice: bool = False

    def _settings(self, problem: Problem) -> TrainingSettings:
        rounds = int(min(self.rounds, self.epochs))
        return replace(super()._settings(problem), rounds=rounds, fresh_network=not self.continue_training)

    def _make_head(self, problem: Problem) -> BootstrapHead:
        settings = self._settings(problem)
        ends = [epoch for epoch in range(self.epochs) if epoch + 1 == sum(settings.round_of(epoch))]
        votes, used = vote_targets(problem)
        generator = torch_stream(problem.seed, "misaligned", problem.member) if self.misaligned_predictions else None
        n_annotators, twice = problem.n_annotators, self.softmax_twice
        return BootstrapHead(
            votes, used, n_annotators=n_annotators, ends=ends, misaligned=generator, softmax_twice=twice
        )

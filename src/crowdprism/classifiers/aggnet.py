"""EM with a network as the prior of the true classes: AggNet, Raykar's EM before it, coupled-view learning, and MBEM.

Albarqouni, Baur, Achilles, Belagiannis, Demirci and Navab, "AggNet: deep learning from crowds for mitosis detection
in breast cancer histology images", IEEE TMI 2016; for several classes as in Rodrigues and Pereira (AAAI 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem, vote_targets
from crowdprism.networks import Batch, EpochView
from crowdprism.networks.heads import TargetHead
from crowdprism.networks.losses import counted_confusions, expected_counts, log_posterior
from crowdprism.parameters import FLAG, PROBABILITY, Real, Whole
from crowdprism.seeding import torch_stream
from crowdprism.training import TrainingSettings

SMALLEST = 1e-10  # of a confusion entry of MBEM, as in the authors' code


class EMHead(TargetHead):
    """Targets and confusions that take turns; what belongs to a method is when, and from what."""

    known_confusions: Tensor

    def posterior(self, log_prior: Tensor, view: EpochView, smallest: float) -> Tensor:
        """(n_items, true class) prior times the evidence of the labels."""
        return log_posterior(log_prior, self.known_confusions, *view.given, smallest=smallest).exp()

    def learn_confusions(self, class_probs: Tensor, view: EpochView, smoothing: float) -> None:
        """C_m[k, l] = (smoothing + Σ_n q_n[k] 1[label l]) / (the same, summed over l)."""
        counts = expected_counts(class_probs, *view.given, len(self.known_confusions))
        self.known_confusions.copy_(counted_confusions(counts, smoothing))


class ExpectationHead(EMHead):
    """Targets are the posterior of the true class given features and labels, renewed every few epochs."""

    def __init__(self, method: AggNet, votes: Tensor, used: Tensor, confusions: Tensor) -> None:
        super().__init__(votes, used=used, confusions=confusions)
        self.method = method

    def end_epoch(self, view: EpochView) -> None:
        """q_n[k] ∝ f_k(x_n) Π_m C_m[k, label], with f kept above `smallest` so that labels are always heard."""
        if (view.epoch + 1) % self.method.epochs_per_round:
            return
        smallest = self.method.smallest
        self.targets.copy_(self.posterior(view.log_class_probs.clamp_min(math.log(smallest)), view, smallest))
        self.learn_confusions(self.targets, view, self.method.smoothing)


@dataclass(kw_only=True, eq=False, repr=False)
class AggNet(CrowdClassifier):
    """Alternate between guessing the true classes from network and labels, and training the network on the guesses.

    Parameters
    ----------
    epochs_per_round
        Epochs between two guesses. The paper updates while it trains; 1 is the nearest.
    smoothing
        Added to each count of an annotator's confusion; the comparison of Rodrigues and Pereira has 1.
    smallest
        Class probabilities are at least this when combined with labels, so that annotators are heard; 1e-3 in the
        authors' code.
    """

    name: ClassVar[str] = "aggnet"
    _head: ClassVar[type[ExpectationHead]] = ExpectationHead
    _allowed: ClassVar = {
        "epochs_per_round": Whole(1),
        "smoothing": Real(0),
        "smallest": Real(0, 1, above=True, below=True),
    }

    epochs_per_round: int = 1
    smoothing: float = 1.0
    smallest: float = 1e-3

    def _make_head(self, problem: Problem) -> TargetHead:
        votes, used = vote_targets(problem)
        counts = expected_counts(votes, *problem.flat.tensors(), problem.n_annotators)
        return self._head(self, votes, used, counted_confusions(counts, self.smoothing))


@dataclass(kw_only=True, eq=False, repr=False)
class Raykar(AggNet):
    """EM of a logistic regression (softmax for several classes) and the annotators' sensitivity and specificity.

    Raykar, Yu, Zhao, Valadez, Florin, Bogoni and Moy, "Learning from crowds", JMLR 11, 2010.
    For two classes row 1 of an annotator's confusion matrix holds the sensitivity and row 0 the specificity.

    Parameters
    ----------
    epochs_per_round
        Passes over the items between two E-steps (generalised EM); the paper takes Newton steps to the end.
    smoothing
        Pseudo-count of each confusion entry, the Beta prior of the paper; which has 0 where no prior is stated.
    smallest
        As in `AggNet`; the paper has no such limit, so it is small here.
    **training
        Parameters of `CrowdClassifier`. `network` is linear by default, with a larger rate; `weight_decay` plays the
        Gaussian prior on the weights, without which separable data send them to infinity.
    """

    name: ClassVar[str] = "raykar"

    epochs_per_round: int = 2
    smoothing: float = 0.01
    smallest: float = 1e-6
    network: Any = "linear"
    learning_rate: float = 3e-2
    weight_decay: float | Literal["auto"] = 1e-2


class CoupledViewHead(ExpectationHead):
    """Targets come from the labels alone; confusions from the network's predictions; both on items of small loss."""

    method: CoupledView

    def end_epoch(self, view: EpochView) -> None:
        """Take over from each view what the other finds easy."""
        method = self.method
        if (view.epoch + 1) % method.epochs_per_round:
            return
        by_labels = self.posterior(torch.zeros_like(view.log_class_probs), view, method.smallest)
        share = method.first_share + (1 - method.first_share) * (view.epoch + 1) / method.epochs
        labelled = torch.as_tensor(self.used, device=by_labels.device)
        easy = small_loss(view.log_class_probs, by_labels.argmax(dim=1), labelled, share).unsqueeze(1)
        self.targets.copy_(by_labels * easy)
        self.learn_confusions(view.log_class_probs.exp() * easy, view, method.smoothing)


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

    Li, Zhang, Zeng, Xu, Xie and Ding, "Coupled-view deep classifier learning from multiple noisy annotators", AAAI
    2020, without its second network and class weights. Unlike in `AggNet`, features do not enter the targets: the two
    views stay apart and correct each other on items of small loss, whose share grows from `first_share` to all.

    Parameters
    ----------
    first_share
        Share of the items of each class that are used at first.
    epochs_per_round, smoothing, smallest
        As in `AggNet`.
    """

    name: ClassVar[str] = "coupled-view"
    _head: ClassVar = CoupledViewHead
    _allowed: ClassVar = {"first_share": PROBABILITY}

    first_share: float = 0.5


class BootstrapHead(EMHead):
    """Targets are votes in the first round, then the posterior given confusions counted from hard predictions."""

    def __init__(
        self, votes: Tensor, used: Tensor, n_annotators: int, ends: list[int], misaligned: Any, *, softmax_twice: bool
    ) -> None:
        n_classes = votes.shape[1]
        super().__init__(votes, used=used, confusions=torch.full((n_annotators, n_classes, n_classes), 1 / n_classes))
        self.ends = ends  # the last epoch of each round
        self.misaligned, self.softmax_twice = misaligned, softmax_twice  # the first is a generator, or None

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        if self.softmax_twice:
            log_class_probs = torch.log_softmax(log_class_probs.exp(), dim=1)
        return super().loss(log_class_probs, batch)

    def end_epoch(self, view: EpochView) -> None:
        """Count labels against hard predictions; where a round ends, new targets q_n[k] ∝ π_k Π_m C_m[k, label]."""
        predicted = functional.one_hot(view.log_class_probs.argmax(dim=1), self.targets.shape[1]).float()
        if self.misaligned is not None:
            predicted = predicted[torch.randperm(len(predicted), generator=self.misaligned)]
        self.learn_confusions(predicted, view, 0.0)
        if view.epoch in self.ends[:-1]:
            prior = predicted.index_select(0, torch.unique(view.item)).mean(dim=0)  # of the annotated items
            log_prior = prior.clamp_min(SMALLEST).log().expand_as(self.targets)
            self.targets.copy_(self.posterior(log_prior, view, SMALLEST))


@dataclass(kw_only=True, eq=False, repr=False)
class MBEM(CrowdClassifier):
    """Train on votes, estimate annotators from the network's predictions, re-weight the labels, and train anew.

    Khetan, Lipton and Anandkumar, "Learning from noisy singly-labeled data", ICLR 2018.

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
        return BootstrapHead(votes, used, problem.n_annotators, ends, generator, softmax_twice=self.softmax_twice)

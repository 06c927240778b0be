"""EM with a network as the prior of the true classes: AggNet, Raykar's EM before it, coupled-view learning, and MBEM.

Albarqouni, Baur, Achilles, Belagiannis, Demirci and Navab, "AggNet: deep learning from crowds for mitosis detection
in breast cancer histology images", IEEE TMI 2016; for several classes as in Rodrigues and Pereira (AAAI 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import NetworkPlan, Problem, vote_targets
from crowdprism.networks import Batch, EpochView
from crowdprism.networks.heads import TargetHead
from crowdprism.networks.losses import counted_confusions, expected_counts, log_posterior
from crowdprism.parameters import FLAG, Real, Whole
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


class PairNetwork(nn.Module):
    """Two networks: the log of their mean probabilities; in training, or `apart`, the outputs of each (batch, 2, K)."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.networks, self.apart = nn.ModuleList([first, second]), False

    def forward(self, features: Tensor) -> Tensor:
        outputs = torch.stack([network(features) for network in self.networks], dim=1)
        return outputs if self.training or self.apart else torch.log_softmax(outputs, dim=2).logsumexp(dim=1)

    def of_each(self, evaluate: Callable[[], Tensor]) -> Tensor:
        """(n_items, 2, n_classes) log class probabilities, where `evaluate` passes all items through this module."""
        self.apart = True
        try:
            return evaluate()
        finally:
            self.apart = False


class CoupledViewHead(ExpectationHead):
    """Targets come from the labels alone, confusions from the networks alone; both on items of small loss."""

    item_state = ("targets", "predicted")
    method: CoupledView
    predicted: Tensor  # (n_items,) class on which the networks last agreed; at first the vote
    class_weight: Tensor  # (2, n_classes) of the items that a network takes for a class
    share: Tensor  # of a batch that each network passes on to the other

    def __init__(self, method: AggNet, votes: Tensor, used: Tensor, confusions: Tensor) -> None:
        super().__init__(method, votes, used, confusions)
        self.register_buffer("predicted", votes.argmax(dim=1))
        self.register_buffer("class_weight", torch.ones(2, votes.shape[1]))
        self.register_buffer("share", torch.tensor(1.0))

    def loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        """Sum over both networks of the loss on the items that the other finds easy, rare classes weighing more."""
        targets = self.targets.index_select(0, batch.index)
        each: Tensor | float = 1.0
        if batch.group_row is not None and batch.group_weight is not None:  # mixup, as in `TargetHead`
            log_class_probs, targets = log_class_probs.index_select(0, batch.group_row), targets.repeat(2, 1)
            each = batch.group_weight.unsqueeze(1)
        losses = -(targets.unsqueeze(1) * log_class_probs).sum(dim=2)  # (item, network)
        easy = torch.stack([small_loss(one, float(self.share)) for one in losses.detach().unbind(dim=1)], dim=1)
        chosen = easy * self.class_weight.T.gather(0, log_class_probs.argmax(dim=2))
        return (chosen.flip(1) * losses * each).sum()

    def known_loss(self, log_class_probs: Tensor, batch: Batch) -> Tensor:
        first, second = log_class_probs.unbind(dim=1)
        return super().known_loss(first, batch) + super().known_loss(second, batch)

    def end_epoch(self, view: EpochView) -> None:
        """Judge annotators by the classes on which the networks agree, then give the networks the labels' classes."""
        method = self.method
        if (view.epoch + 1) % method.epochs_per_round:
            return
        assert isinstance(view.network, PairNetwork)
        first, second = view.network.of_each(view.evaluate).argmax(dim=2).unbind(dim=1)
        self.predicted.copy_(torch.where(first == second, first, self.predicted))
        n_classes, labelled = self.targets.shape[1], torch.as_tensor(self.used, device=first.device)
        uniform = torch.zeros_like(self.targets)
        fit = self.posterior(uniform, view, method.smallest).gather(1, self.predicted.unsqueeze(1))[:, 0]
        easy = torch.zeros_like(fit)
        easy[labelled] = small_loss(-fit[labelled], self.share_of(fit[labelled]))
        self.learn_confusions(functional.one_hot(self.predicted, n_classes) * easy.unsqueeze(1), view, method.smoothing)
        best = self.posterior(uniform, view, method.smallest).max(dim=1)
        self.targets.copy_(functional.one_hot(best.indices, n_classes))
        self.share.fill_(self.share_of(best.values[labelled]))
        counts = torch.stack([torch.bincount(one[labelled], minlength=n_classes) for one in (first, second)])
        per_class = counts.sum(dim=1, keepdim=True) / (counts > 0).sum(dim=1, keepdim=True)
        self.class_weight.copy_(per_class / counts.clamp_min(1))  # 1 in the mean over items

    def share_of(self, right: Tensor) -> float:
        """1 - strictness * error, of classes that are right with these probabilities; at least chance."""
        return max(1 - self.method.strictness * (1 - float(right.mean())), 1 / self.targets.shape[1])


def small_loss(loss: Tensor, share: float) -> Tensor:
    """(n_items,) 1 for this share of the items, those of the smallest loss; else 0."""
    chosen = torch.zeros_like(loss)
    chosen[loss.argsort(stable=True)[: max(1, round(share * len(loss)))]] = 1.0
    return chosen


@dataclass(kw_only=True, eq=False, repr=False)
class CoupledView(AggNet):
    """Two networks and the annotators' labels teach each other, by what each of them finds easy.

    Li, Ge, Hua, Zhang, Wen, Liu and Wang, "Coupled-view deep classifier learning from multiple noisy annotators", AAAI
    2020. Each network learns from items of small loss for the other, whose targets are the labels' most probable
    classes; annotators are judged by the classes on which the networks agree. Features do not enter the targets.
    The paper takes the error rates that set the shares of items from clean validation data; here they are those that
    the labels' posterior expects. Losses far from a batch's mean are not cut off. Both networks predict together.

    Parameters
    ----------
    strictness
        Share of items left out, in units of the error rate of their classes; the paper finds 1 to 2 best.
    epochs_per_round, smoothing, smallest
        As in `AggNet`.
    """

    name: ClassVar[str] = "coupled-view"
    _head: ClassVar = CoupledViewHead
    _allowed: ClassVar = {"strictness": Real(0)}

    strictness: float = 1.0

    def make_network(self, plan: NetworkPlan) -> nn.Module:
        second = replace(plan, member=plan.member + self.n_heads)
        return PairNetwork(super().make_network(plan), super().make_network(second))


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

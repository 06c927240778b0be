"""AggNet, and Raykar's EM before it: the classifier is the prior of the true classes, learned while it is used.

Albarqouni, Baur, Achilles, Belagiannis, Demirci and Navab, "AggNet: deep learning from crowds for mitosis detection
in breast cancer histology images", IEEE TMI 2016; for several classes as in Rodrigues and Pereira (AAAI 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.classifiers.starting_values import vote_targets
from crowdprism.networks import EpochView
from crowdprism.networks.heads import TargetHead
from crowdprism.networks.losses import counted_confusions, expected_counts, log_posterior
from crowdprism.parameters import Real, Whole


class ExpectationHead(TargetHead):
    """Targets are the posterior of the true class given features and labels, renewed every few epochs."""

    def __init__(self, method: AggNet, votes: Tensor, used: Tensor, confusions: Tensor) -> None:
        super().__init__(votes, used=used, confusions=confusions)
        self.epochs_per_round = method.epochs_per_round
        self.smoothing, self.smallest = method.smoothing, method.smallest

    def end_epoch(self, view: EpochView) -> None:
        if (view.epoch + 1) % self.epochs_per_round == 0:
            self._e_step(view)
            self._m_step(view)

    def _e_step(self, view: EpochView) -> None:
        """q_n[k] ∝ f_k(x_n) Π_m C_m[k, label], with f kept above `smallest` so that labels are always heard."""
        assert self.known_confusions is not None
        log_prior = view.log_class_probs.clamp_min(math.log(self.smallest))
        given = view.item, view.annotator, view.label, view.weight
        log_targets = log_posterior(log_prior, self.known_confusions, *given, smallest=self.smallest)
        self.targets.copy_(log_targets.exp())

    def _m_step(self, view: EpochView) -> None:
        """C_m[k, l] = (smoothing + Σ_n q_n[k] 1[label l]) / (the same, summed over l)."""
        assert self.known_confusions is not None
        given = view.item, view.annotator, view.label, view.weight
        counts = expected_counts(self.targets, *given, len(self.known_confusions))
        self.known_confusions.copy_(counted_confusions(counts, self.smoothing))


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
        flat = problem.flat
        item, annotator, label = (torch.from_numpy(codes) for codes in (flat.item, flat.annotator, flat.label))
        weight = None if flat.weight is None else torch.from_numpy(flat.weight.copy())
        counts = expected_counts(votes, item, annotator, label, weight, problem.n_annotators)
        return ExpectationHead(self, votes, used, counted_confusions(counts, self.smoothing))


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

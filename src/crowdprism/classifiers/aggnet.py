"""AggNet: EM in which the classifier is the prior of the true classes, learned while it is being used.

Albarqouni, Baur, Achilles, Belagiannis, Demirci and Navab, "AggNet: deep learning from crowds for mitosis detection
in breast cancer histology images", IEEE TMI 2016; for several classes as in Rodrigues and Pereira (AAAI 2018).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from crowdprism.aggregators.majority_vote import vote_shares, vote_totals
from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.problem import Problem
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import EpochView
from crowdprism.networks.annotator_em import counted_confusions, expected_counts, log_posterior
from crowdprism.networks.target_head import TargetHead


class ExpectationHead(TargetHead):
    """Targets are the posterior of the true class given features and labels, renewed every few epochs."""

    def __init__(
        self,
        votes: Tensor,
        used: Tensor,
        confusions: Tensor,
        *,
        epochs_per_round: int,
        smoothing: float,
        smallest: float,
    ) -> None:
        super().__init__(votes, used=used, confusions=confusions)
        self.epochs_per_round = epochs_per_round
        self.smoothing = smoothing
        self.smallest = smallest

    def end_epoch(self, view: EpochView) -> None:
        if (view.epoch + 1) % self.epochs_per_round == 0:
            self._e_step(view)
            self._m_step(view)

    def _e_step(self, view: EpochView) -> None:
        """q_n[k] ∝ f_k(x_n) Π_m C_m[k, label], with f kept above `smallest` so that labels are always heard."""
        assert self.known_confusions is not None
        log_prior = view.log_class_probs.clamp_min(math.log(self.smallest))
        log_targets = log_posterior(
            log_prior,
            self.known_confusions,
            view.item,
            view.annotator,
            view.label,
            view.weight,
            smallest=self.smallest,
        )
        self.targets.copy_(log_targets.exp())

    def _m_step(self, view: EpochView) -> None:
        """C_m[k, l] = (smoothing + Σ_n q_n[k] 1[label l]) / (the same, summed over l)."""
        assert self.known_confusions is not None
        counts = expected_counts(
            self.targets, view.item, view.annotator, view.label, view.weight, len(self.known_confusions)
        )
        self.known_confusions.copy_(counted_confusions(counts, self.smoothing))


class AggNet(CrowdClassifier):
    """Alternate between guessing the true classes from network and labels, and training the network on the guesses.

    Parameters
    ----------
    epochs_per_round
        Epochs between two guesses. The paper updates while it trains; 1 is the nearest.
    smoothing
        Added to each count of an annotator's confusion; the comparison of Rodrigues and Pereira has 1.
    smallest
        Class probabilities below this are taken as this when combined with labels: an overconfident network must not
        silence the annotators. The authors' code has 1e-3.
    **training
        Parameters of `CrowdClassifier`.

    Examples
    --------
    >>> from crowdprism import load_dataset
    >>> train, test = (load_dataset("simulated").part(split) for split in ("train", "test"))
    >>> model = AggNet(epochs=10).fit(train.features, train.annotations)
    >>> bool((model.predict_proba(test.features).argmax(axis=1) == test.gold).mean() > 0.65)
    True
    """

    name: ClassVar[str] = "aggnet"

    def __init__(
        self, *, epochs_per_round: int = 1, smoothing: float = 1.0, smallest: float = 1e-3, **training: Any
    ) -> None:
        super().__init__(**training)
        self.epochs_per_round = epochs_per_round
        self.smoothing = smoothing
        self.smallest = smallest

    def _check_parameters(self, problem: Problem) -> None:
        if not isinstance(self.epochs_per_round, int) or self.epochs_per_round < 1:
            raise InvalidParameterError(
                f"epochs_per_round must be a whole number of at least 1, not {self.epochs_per_round!r}."
            )
        if not self.smoothing >= 0:
            raise InvalidParameterError(f"smoothing must be at least 0, not {self.smoothing!r}.")
        if not 0 < self.smallest < 1:
            raise InvalidParameterError(f"smallest must be above 0 and below 1, not {self.smallest!r}.")

    def _make_head(self, problem: Problem) -> ExpectationHead:
        votes, used = vote_targets(problem)
        flat = problem.flat
        item, annotator, label = (torch.from_numpy(codes) for codes in (flat.item, flat.annotator, flat.label))
        weight = None if flat.weight is None else torch.from_numpy(flat.weight.copy())
        counts = expected_counts(votes, item, annotator, label, weight, problem.n_annotators)
        return ExpectationHead(
            votes,
            used,
            counted_confusions(counts, self.smoothing),
            epochs_per_round=self.epochs_per_round,
            smoothing=self.smoothing,
            smallest=self.smallest,
        )


def vote_targets(problem: Problem) -> tuple[Tensor, Tensor]:
    """Vote shares of all items (even where there are none), and which items have annotations."""
    annotations = problem.annotations
    even = torch.full((problem.n_classes,), 1 / problem.n_classes)
    shares = torch.from_numpy(vote_shares(vote_totals(annotations), even.numpy())).float()
    n_extra = problem.flat.n_items - len(shares)
    labelled = torch.from_numpy(annotations.labels_per_item > 0)
    return torch.cat([shares, even.expand(n_extra, -1)]), torch.cat([labelled, torch.zeros(n_extra, dtype=torch.bool)])

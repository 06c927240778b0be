"""Belief propagation and mean field: one accuracy per annotator, averaged over its Beta prior instead of estimated.

Liu, Peng and Ihler, "Variational inference for crowdsourcing", NIPS 2012. KOS is belief propagation with another prior,
and one-coin EM is mean field with the accuracy's mode in place of its mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdprism.aggregators.base import Aggregator, with_gold_classes
from crowdprism.aggregators.em import MAX_ITER, TOLERANCE, Expectation, FloatArray, climb
from crowdprism.aggregators.expectation import VotePass
from crowdprism.aggregators.kos import weights_of, with_repeats_joined
from crowdprism.aggregators.majority_vote import vote_totals
from crowdprism.aggregators.one_coin import confusions_of
from crowdprism.aggregators.sources import sum_weights
from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.errors import ConvergenceWarning
from crowdprism.parameters import Allowed, Real
from crowdprism.progress import progress
from crowdprism.results import FitResult

MOST_NODES = 64  # of the integral over an accuracy; they are 0.02 apart, a third of the spread after 100 labels


@dataclass(frozen=True)
class Nodes:
    """Accuracies at which the integral over an annotator's accuracy is taken, and their weights."""

    right: FloatArray  # (n_nodes,) probability of the right label
    wrong: FloatArray  # (n_nodes,) probability of one given wrong label
    weight: FloatArray  # (n_nodes,) sums to one


@dataclass(frozen=True)
class Graph:
    """Annotations as messages travel along them."""

    annotations: Annotations
    weight: FloatArray  # (n_annotations,)

    def belief_without(self, messages: FloatArray) -> FloatArray:
        """(n_annotations,) probability that the label is right, by all messages to the item but this one."""
        from scipy.special import expit

        a = self.annotations
        totals = vote_totals(a, messages)
        others = np.full(a.n_annotations, -np.inf)
        for chosen in range(a.n_classes):
            others = np.logaddexp(others, np.where(a.label == chosen, -np.inf, totals[a.item, chosen]))
        belief = expit(totals[a.item, a.label] - messages - others)
        gold = known_classes(a)
        if gold is None:
            return np.asarray(belief)
        return np.asarray(np.where(gold[a.item] >= 0, gold[a.item] == a.label, belief))

    def judge(self, belief: FloatArray, nodes: Nodes) -> tuple[FloatArray, FloatArray]:
        """Messages (n_annotations,) that annotators send, and their mean accuracy (n_annotators,).

        A message is the log of P(this label | it is right) / P(this label | another class is true), the accuracy
        averaged over its distribution given the annotator's other labels (Liu et al. 2012, equation 5).
        """
        who, sizes = self.annotations.annotator, (self.annotations.n_annotators, len(nodes.right))
        logs = np.empty(sizes)
        for node in range(sizes[1]):
            logs[:, node] = sum_weights(who, np.log(self._mixed(belief, nodes, node)), sizes[0])
        logs -= logs.max(axis=1, keepdims=True)
        posterior = nodes.weight * np.exp(logs)
        right, wrong = np.zeros(len(who)), np.zeros(len(who))
        for node in range(sizes[1]):
            without = posterior[who, node] / self._mixed(belief, nodes, node)
            right += without * nodes.right[node] ** self.weight
            wrong += without * nodes.wrong[node] ** self.weight
        return np.log(right) - np.log(wrong), (posterior * nodes.right).sum(axis=1) / posterior.sum(axis=1)

    def _mixed(self, belief: FloatArray, nodes: Nodes, node: int) -> FloatArray:
        """(n_annotations,) probability of each label for an annotator of this accuracy."""
        right, wrong = nodes.right[node] ** self.weight, nodes.wrong[node] ** self.weight
        return np.asarray(belief * right + (1 - belief) * wrong)


@dataclass(eq=False, repr=False)
class AveragedCoin(Aggregator):
    """What both methods share: the Beta prior and the shape of the result."""

    _allowed: ClassVar[Mapping[str, Allowed]] = {"prior_right": Real(0, above=True), "prior_wrong": Real(0, above=True)}
    prior_right: float = 2.0
    prior_wrong: float = 1.0
    max_iter: int = MAX_ITER
    tolerance: float = TOLERANCE

    def _averaged(
        self, annotations: Annotations, probabilities: FloatArray, accuracy: FloatArray, **parts: Any
    ) -> FitResult:
        n_classes = annotations.n_classes
        parts |= {"skills": accuracy, "class_prior": np.full(n_classes, 1 / n_classes)}
        confusions = confusions_of(accuracy, n_classes)
        return self._build_result(annotations, probabilities, confusions=confusions, **parts)


@dataclass(eq=False, repr=False)
class BeliefPropagation(AveragedCoin):
    """Messages between items and annotators, with every annotator's accuracy averaged over a Beta prior.

    Stronger than one-coin EM where annotators gave few labels: what one item says of an annotator is never used to
    judge that same item.

    Parameters
    ----------
    prior_right, prior_wrong
        Parameters of the Beta prior of accuracies; the paper recommends 2 and 1.
    max_iter, tolerance
        Largest number of rounds; they end when no probability moves by more than `tolerance`.

    Examples
    --------
    >>> result = BeliefPropagation().fit([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]]).result_
    >>> result.labels().tolist(), bool(result.skills[0] > result.skills[2])
    ([0, 1, 0, 1], True)
    """

    name: ClassVar[str] = "belief-propagation"
    tolerance: float = 1e-4

    def _aggregate(self, annotations: Annotations) -> FitResult:
        from scipy.special import roots_jacobi, softmax

        joined = with_repeats_joined(annotations)
        weight = weights_of(joined)
        graph = Graph(joined, weight)
        # Gauss-Jacobi nodes of the prior are exact for annotators with fewer than twice as many labels.
        n_nodes = min(MOST_NODES, int(joined.labels_per_annotator.max(initial=1)) // 2 + 1)
        place, share = roots_jacobi(n_nodes, self.prior_wrong - 1, self.prior_right - 1)
        right = (1 + place) / 2
        nodes = Nodes(right, (1 - right) / (joined.n_classes - 1), share / share.sum())
        messages = weight * np.log(self.prior_right * (joined.n_classes - 1) / self.prior_wrong)
        belief, changes = graph.belief_without(messages), []
        with progress(type(self).__name__, total=self.max_iter) as bar:
            for _ in range(self.max_iter):
                messages, accuracy = graph.judge(belief, nodes)
                before, belief = belief, graph.belief_without(messages)
                changes.append(float(np.abs(belief - before).max(initial=0.0)))
                bar.advance(note=f"change {changes[-1]:.1e}")
                if changes[-1] <= self.tolerance:
                    break
        probabilities = with_gold_classes(softmax(vote_totals(joined, messages), axis=1), joined)
        notes: tuple[str, ...] = ()
        if changes[-1] > self.tolerance > 0:
            moved = f"Messages still moved by {changes[-1]:.1e} at max_iter={self.max_iter}."
            notes = (f"{moved} Raise max_iter, or use mean-field.",)
            warnings.warn(notes[0], ConvergenceWarning, stacklevel=4)
        return self._averaged(annotations, probabilities, accuracy, history={"largest_change": changes}, warnings=notes)


@dataclass(frozen=True, eq=False)
class BetaModel:
    """Beta distribution of each annotator's accuracy; `penalty` completes the bound on the log likelihood."""

    right: FloatArray  # (n_annotators,)
    wrong: FloatArray  # (n_annotators,)
    class_prior: FloatArray
    penalty: float

    @property
    def log_odds(self) -> FloatArray:
        """Mean log of P(right label) / P(one given wrong label): (n_annotators,)."""
        from scipy.special import digamma

        return np.asarray(digamma(self.right) - digamma(self.wrong) + np.log(len(self.class_prior) - 1))


@dataclass(eq=False, repr=False)
class MeanField(AveragedCoin):
    """Variational inference with independent items and accuracies: one-coin with honest doubt about accuracies.

    Parameters
    ----------
    prior_right, prior_wrong
        Parameters of the Beta prior of accuracies.
    max_iter, tolerance
        The climb ends after `max_iter` rounds, or when the bound gains less than `tolerance` per annotation.

    Examples
    --------
    >>> MeanField().fit([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]]).result_.labels().tolist()
    [0, 1, 0, 1]
    """

    name: ClassVar[str] = "mean-field"

    def _aggregate(self, annotations: Annotations) -> FitResult:
        from scipy.special import betaln, digamma

        prior, n_classes = (self.prior_right, self.prior_wrong), annotations.n_classes
        evidence = VotePass(annotations, method="MeanField")

        def improve(_: Any, expectation: Expectation) -> BetaModel:
            a, b = prior[0] + expectation.counts, prior[1] + evidence.total - expectation.counts
            log_right, log_wrong = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
            divergence = betaln(*prior) - betaln(a, b) + (a - prior[0]) * log_right + (b - prior[1]) * log_wrong
            penalty = float((evidence.total * (log_wrong - np.log(n_classes - 1)) - divergence).sum())
            return BetaModel(a, b, np.full(n_classes, 1 / n_classes), penalty)

        start = improve(None, evidence.count_votes())
        run = climb(evidence, start, improve, title="mean field", max_iter=self.max_iter, tolerance=self.tolerance)
        accuracy = run.model.right / (run.model.right + run.model.wrong)
        parts = {"history": {"objective": run.objective}, "warnings": run.notes("MeanField")}
        return self._averaged(annotations, evidence.expect(run.model).kept, accuracy, **parts)

"""One-coin Dawid-Skene and ZenCrowd: every annotator is right with one probability, whatever the class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import IncrementalAggregator
from crowdprism.aggregators.dawid_skene import ClassPrior
from crowdprism.aggregators.em import MAX_ITER, TOLERANCE, Expectation, FloatArray, climb, fixed_class_prior
from crowdprism.aggregators.expectation import VotePass
from crowdprism.aggregators.known_annotators import carried_over
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.parameters import Allowed, Real
from crowdprism.results import FitResult
from crowdprism.results.confusion import confusions_fit

PRIOR_STRENGTH = 4.0
EDGE = 1e-10  # accuracies stay this far from 0 and 1, so that one annotator never rules out a class


@dataclass(frozen=True, eq=False)
class CoinModel:
    """Accuracy of each annotator (n_annotators,), class prior (n_classes,), and what the objective adds."""

    accuracy: FloatArray
    class_prior: FloatArray
    penalty: float

    @property
    def log_odds(self) -> FloatArray:
        """Log of P(right label) / P(one given wrong label), by which a label raises its class: (n_annotators,)."""
        return np.asarray(np.log(self.accuracy) - np.log1p(-self.accuracy) + np.log(len(self.class_prior) - 1))


@dataclass(frozen=True)
class CoinPrior:
    """Pseudo-annotations of each annotator: how many right and how many wrong."""

    right: float
    wrong: float

    def model(self, accuracy: FloatArray, class_prior: FloatArray, total: FloatArray) -> CoinModel:
        """The model with its penalty: the part of the log likelihood that all classes share, and the prior's density.

        `total` (n_annotators,) is the weight of each annotator's annotations.
        """
        accuracy = np.clip(accuracy, EDGE, 1 - EDGE)
        wrong = np.log1p(-accuracy) - np.log(len(class_prior) - 1)
        density = self.right * np.log(accuracy).sum() + self.wrong * np.log1p(-accuracy).sum()
        return CoinModel(accuracy, class_prior, float((total * wrong).sum() + density))

    def maximize(self, expectation: Expectation, total: FloatArray, class_prior: FloatArray | None) -> CoinModel:
        """M step: the share of right annotations, pseudo-annotations included; without any, an even chance."""
        weight = total + self.right + self.wrong
        accuracy = np.where(weight > 0, (expectation.counts + self.right) / np.where(weight > 0, weight, 1.0), 0.5)
        return self.model(accuracy, expectation.class_shares() if class_prior is None else class_prior, total)


def confusions_of(accuracy: FloatArray, n_classes: int) -> FloatArray | None:
    """(n_annotators, true class, given label) accuracy on the diagonal, the rest spread evenly; None beyond memory."""
    if not confusions_fit(len(accuracy), n_classes):
        return None
    wrong = (1 - accuracy) / (n_classes - 1)
    confusions = np.repeat(wrong, n_classes**2).reshape(-1, n_classes, n_classes)
    confusions[:, np.arange(n_classes), np.arange(n_classes)] = accuracy[:, None]
    return confusions


@dataclass(eq=False, repr=False)
class CoinAggregator(IncrementalAggregator):
    """One accuracy per annotator by EM: what one-coin and ZenCrowd share."""

    _start: ClassVar[str]  # names the parameter with one accuracy, one for each annotator, or None for majority vote
    max_iter: int = MAX_ITER
    tolerance: float = TOLERANCE
    prior_strength: ClassVar[float]
    class_prior: ClassVar[Any]

    def _resume(self, annotations: Annotations, previous: FitResult) -> FitResult:
        return self._aggregate(annotations, previous)

    def _aggregate(self, annotations: Annotations, previous: FitResult | None = None) -> FitResult:
        name, n_classes = type(self).__name__, annotations.n_classes
        fixed = fixed_class_prior(self.class_prior, n_classes)
        evidence = VotePass(annotations, method=name)
        votes = evidence.count_votes()
        common = float(votes.counts.sum() / max(evidence.total_weight, EDGE))
        prior = CoinPrior(self.prior_strength * common, self.prior_strength * (1 - common))
        if previous is not None:
            votes = evidence.count(carried_over(previous, annotations))
        start = prior.maximize(votes, evidence.total, fixed)
        initial = getattr(self, self._start)
        if previous is None and initial is not None:
            given = np.broadcast_to(np.asarray(initial, dtype=np.float64), (annotations.n_annotators,))
            if not ((given >= 0) & (given <= 1)).all():
                raise InvalidParameterError("initial_accuracy must lie between 0 and 1.")
            start = prior.model(given, start.class_prior, evidence.total)

        def improve(_: CoinModel, expectation: Expectation) -> CoinModel:
            return prior.maximize(expectation, evidence.total, fixed)

        run = climb(evidence, start, improve, title=name, max_iter=self.max_iter, tolerance=self.tolerance)
        return self._build_result(
            annotations,
            evidence.expect(run.model).kept,
            confusions=confusions_of(run.model.accuracy, n_classes),
            skills=run.model.accuracy,
            class_prior=run.model.class_prior,
            history={"objective": run.objective},
            warnings=run.notes(name),
        )


@dataclass(eq=False, repr=False)
class OneCoin(CoinAggregator):
    """Estimate one accuracy per annotator and the true classes together; wrong labels are equally likely.

    For annotators with few labels, or many classes: one number per annotator instead of a matrix.

    Parameters
    ----------
    max_iter, tolerance
        EM ends after `max_iter` iterations, or when the objective gains less than `tolerance` per annotation.
    prior_strength
        Pseudo-annotations per annotator, right as often as the crowd is under majority vote; 0 gives plain maximum
        likelihood.
    class_prior
        Take it as `"uniform"`, `"estimate"` it, or give the shares of the classes in order. One number per annotator
        cannot say that a class is overused, so an estimated prior drifts to it: .8061 and .7756 right on fifteen sets.
    initial_accuracy
        Where EM starts: one number for all annotators, or one for each in order. By default from majority vote.

    Examples
    --------
    >>> result = OneCoin().fit([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]]).result_
    >>> result.labels().tolist(), bool(result.skills[0] > result.skills[2])
    ([0, 1, 0, 1], True)
    """

    name: ClassVar[str] = "one-coin"
    _start: ClassVar[str] = "initial_accuracy"
    prior_strength: float = PRIOR_STRENGTH  # type: ignore[misc]
    class_prior: ClassPrior | NDArray[Any] | list[float] = "uniform"  # type: ignore[misc]
    initial_accuracy: float | NDArray[Any] | None = None


@dataclass(eq=False, repr=False)
class ZenCrowd(CoinAggregator):
    """Estimate one reliability per annotator by EM, all classes equally likely (Demartini et al. 2012).

    One-coin with a uniform class prior, no shrinkage, and the same reliability of 0.8 for all at the start.

    Parameters
    ----------
    max_iter, tolerance
        EM ends after `max_iter` iterations, or when the log likelihood gains less than `tolerance` per annotation.
    initial_reliability
        Where EM starts.

    Examples
    --------
    >>> ZenCrowd().fit(Annotations.from_dense([[0, 0, 1], [1, 1, 0]])).result_.labels().tolist()
    [0, 1]
    """

    name: ClassVar[str] = "zencrowd"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"initial_reliability": Real(0, 1)}
    _start: ClassVar[str] = "initial_reliability"
    # Fixed by the method, so not parameters of the constructor.
    prior_strength = 0.0
    class_prior = "uniform"
    initial_reliability: float = 0.8

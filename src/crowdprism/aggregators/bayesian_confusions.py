"""IBCC and EBCC: confusion matrices with full uncertainty, by variational Bayes.

A latent column is a (class, subtype) pair, class-major; IBCC has one subtype per class. Counts of cells that do not
occur are zero, so their posterior is the prior and only row sums know of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.blocks import Block
from crowdprism.aggregators.em import Climb, Expectation, FloatArray, climb_from_each
from crowdprism.aggregators.expectation import ConfusionPass, RowsOf
from crowdprism.aggregators.sources import Cells
from crowdprism.annotations import Annotations
from crowdprism.parameters import Allowed, Real, Whole
from crowdprism.results import FitResult
from crowdprism.results.confusion import confusions_fit, normalize_rows
from crowdprism.seeding import stream

MAX_ITER = 500
TOLERANCE = 1e-6
ITEMS_PER_STREAM = 2**16  # whose random numbers come from one stream
ANCHOR = 3.0  # pseudo-items of the class prior per item, spread as the votes are


@dataclass(frozen=True, eq=False)
class VariationalModel:
    """Geometric means of the posteriors, as the expectation step needs them: likelihood (n_cells, columns), prior."""

    likelihood: FloatArray
    class_prior: FloatArray
    penalty: float


def dirichlet_divergence(posterior: FloatArray, prior: FloatArray) -> float:
    """Kullback-Leibler divergence between Dirichlet distributions along the last axis, summed over the others."""
    from scipy.special import digamma, gammaln

    prior = np.broadcast_to(prior, posterior.shape)
    log_means = digamma(posterior) - digamma(posterior.sum(axis=-1, keepdims=True))
    normalisers = (gammaln(posterior.sum(axis=-1)) - gammaln(prior.sum(axis=-1))).sum()
    return float(normalisers + (gammaln(prior) - gammaln(posterior) + (posterior - prior) * log_means).sum())


class BayesianConfusions(Aggregator):
    """What IBCC and EBCC share: IBCC is EBCC with one subtype per class."""

    max_iter: int
    tolerance: float
    right_prior: float
    wrong_prior: float | None
    class_prior_count: float | None
    n_subtypes = 1
    n_restarts = 1
    subtype_prior_count = 0.1
    random_state = 0
    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "right_prior": Real(0, above=True),
        "wrong_prior": (Real(0, above=True), None),
        "class_prior_count": (Real(0, above=True), None),
    }

    def _aggregate(self, annotations: Annotations) -> FitResult:
        columns, name = annotations.n_classes * self.n_subtypes, type(self).__name__
        evidence = ConfusionPass(annotations, columns=columns, method=name)
        class_prior = self._class_prior(evidence)
        row_prior = self._row_prior(annotations.n_classes)
        pseudo_counts = np.repeat(row_prior.T[evidence.cells.label_of], self.n_subtypes, axis=1)  # (n_cells, columns)

        def improve(_: Any, expectation: Expectation) -> VariationalModel:
            return self._update(expectation, evidence.cells, pseudo_counts, class_prior)

        n_starts = self.n_restarts if self.n_subtypes > 1 else 1  # without subtypes nothing is random
        starts = (improve(None, self._start(evidence, restart)) for restart in range(n_starts))
        limits: dict[str, Any] = {"max_iter": self.max_iter, "tolerance": self.tolerance, "last_step": False}
        best, bounds = climb_from_each(evidence, starts, improve, title=name, n_starts=n_starts, **limits)
        return self._result_of(evidence, best, bounds, class_prior)

    def _row_prior(self, n_classes: int) -> FloatArray:
        """(true class, given label) pseudo-counts of a confusion."""
        wrong = 1.0 / max(n_classes - 1, 1) if self.wrong_prior is None else self.wrong_prior
        return np.where(np.eye(n_classes) > 0, self.right_prior, wrong)

    def _class_prior(self, evidence: ConfusionPass) -> FloatArray:
        """(n_classes,) pseudo-counts; if not given, they keep the classes in place where items have one label."""
        if self.class_prior_count is not None:
            return np.full(evidence.n_classes, self.class_prior_count)
        first_subtype = np.eye(1, self.n_subtypes)
        votes = self._by_class(evidence.count_rows(self._split_votes(lambda *_: first_subtype)).class_totals[None])[0]
        return np.asarray(1.0 + ANCHOR * votes)

    def _update(
        self, expectation: Expectation, cells: Cells, pseudo_counts: FloatArray, class_prior: FloatArray
    ) -> VariationalModel:
        """Posteriors of all parameters given expected counts, in the form of geometric means."""
        from scipy.special import digamma, gammaln

        counts = expectation.counts
        posterior = counts + pseudo_counts
        row_prior = self.right_prior + (cells.n_classes - 1) * self._row_prior(cells.n_classes)[0, -1]
        rows = cells.sum_by_annotator(counts) + row_prior
        log_likelihood = digamma(posterior) - cells.by_cell(digamma(rows))
        divergence = float(
            (gammaln(rows) - gammaln(row_prior)).sum()
            + (gammaln(pseudo_counts) - gammaln(posterior) + counts * log_likelihood).sum()
        )
        totals = expectation.class_totals.reshape(cells.n_classes, self.n_subtypes)
        class_posterior = totals.sum(axis=1) + class_prior
        subtype_prior = np.full(self.n_subtypes, self.subtype_prior_count / self.n_subtypes)
        subtype_posterior = totals + subtype_prior
        log_class = digamma(class_posterior) - digamma(class_posterior.sum())
        log_subtype = digamma(subtype_posterior) - digamma(subtype_posterior.sum(axis=1, keepdims=True))
        divergence += dirichlet_divergence(class_posterior, class_prior)
        divergence += dirichlet_divergence(subtype_posterior, subtype_prior)
        column_prior = np.exp(log_class[:, None] + log_subtype).ravel()
        mass = column_prior.sum()
        lost = expectation.class_totals.sum() * np.log(mass)  # the totals sum to the number of annotated items
        return VariationalModel(np.exp(log_likelihood), column_prior / mass, float(lost) - divergence)

    def _start(self, evidence: ConfusionPass, restart: int) -> Expectation:
        """Vote shares, split at random over each class's subtypes."""
        if self.n_subtypes == 1:
            return evidence.count_votes()
        return evidence.count_rows(self._split_votes(partial(self._random_splits, restart)))

    def _split_votes(self, splits: Callable[[int, int], FloatArray]) -> RowsOf:
        """Vote shares, each divided over its class's subtypes as `splits` (items, subtypes) says."""

        def rows(part: Block, first: int, last: int) -> FloatArray:
            split = splits(part.place + first, part.place + last)
            return np.asarray((part.vote_shares(first, last)[:, :, None] * split[:, None, :]).reshape(last - first, -1))

        return rows

    def _random_splits(self, restart: int, first: int, last: int) -> FloatArray:
        """(items, subtypes) random shares; they belong to the item's position, whatever range is asked for."""
        drawn = []
        for chunk in range(first // ITEMS_PER_STREAM, max(last - 1, first) // ITEMS_PER_STREAM + 1):
            begin = chunk * ITEMS_PER_STREAM
            random = stream(self.random_state, "ebcc", restart, *((chunk,) if chunk else ()))
            rows = random.dirichlet(np.ones(self.n_subtypes), size=min(last - begin, ITEMS_PER_STREAM))
            drawn.append(rows[max(first - begin, 0) :])
        return np.concatenate(drawn)

    def _result_of(
        self, evidence: ConfusionPass, best: Climb[VariationalModel], bounds: list[float], class_prior: FloatArray
    ) -> FitResult:
        final = evidence.expect(best.model, keep=False)
        prior = self._by_class(final.class_totals[None])[0] + class_prior
        prior = prior / prior.sum()

        def by_class(part: Block, first: int, last: int, columns: FloatArray) -> FloatArray:
            probabilities = self._by_class(columns)
            probabilities[~part.annotated(first, last)] = prior
            return probabilities

        parts, cells = {}, evidence.cells
        if confusions_fit(cells.n_annotators, cells.n_classes):
            posterior = cells.dense(self._by_class(final.counts)) + self._row_prior(cells.n_classes)
            parts = {"confusion_posterior": posterior, "confusions": normalize_rows(posterior)}
        return self._build_result(
            evidence.annotations,
            evidence.expect(best.model, finish=by_class).kept,
            class_prior=prior,
            history={"objective": best.objective, **({"restarts": bounds} if len(bounds) > 1 else {})},
            seed=self.random_state if self.n_subtypes > 1 else None,
            warnings=best.notes(type(self).__name__),
            **parts,
        )

    def _by_class(self, columns: FloatArray) -> FloatArray:
        return np.asarray(columns.reshape(len(columns), -1, self.n_subtypes).sum(axis=2))


@dataclass(eq=False, repr=False)
class IBCC(BayesianConfusions):
    """Confusion matrices with Dirichlet priors on the diagonal, by variational Bayes (Kim and Ghahramani 2012).

    Parameters
    ----------
    max_iter, tolerance
        The fit ends after `max_iter` iterations, or when the lower bound gains less than `tolerance` per annotation.
    right_prior, wrong_prior
        Dirichlet pseudo-counts of confusion rows: on the true class, and on each other label (by default 1 for all
        other labels together).
    class_prior_count
        Pseudo-count of each class; by default 1 and three items' worth per item, spread as the votes are. With these
        defaults a crowd with one label per item keeps its labels; with 1 and 1 it fell to one class.

    Examples
    --------
    >>> IBCC().fit([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]]).result_.labels().tolist()
    [0, 1, 0, 1]
    """

    name: ClassVar[str] = "ibcc"
    max_iter: int = MAX_ITER
    tolerance: float = TOLERANCE
    right_prior: float = 4.0
    wrong_prior: float | None = None
    class_prior_count: float | None = None


@dataclass(eq=False, repr=False)
class EBCC(BayesianConfusions):
    """Confusion matrices per subtype of a class, by variational Bayes (Li, Rubinstein and Cohn 2019).

    Items of a subtype share what misleads annotators, so agreement among annotators who err together counts for less.

    Parameters
    ----------
    n_subtypes
        Subtypes per class; with 1 the method is IBCC.
    n_restarts
        Random starts, of which the one with the highest lower bound stands.
    max_iter, tolerance, right_prior, wrong_prior, class_prior_count
        As in `IBCC`.
    subtype_prior_count
        Pseudo-count of all subtypes of a class together.
    random_state
        Seed of the starts.

    Examples
    --------
    >>> EBCC(n_subtypes=2).fit([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]]).result_.labels().tolist()
    [0, 1, 0, 1]
    """

    name: ClassVar[str] = "ebcc"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"n_subtypes": Whole(1), "subtype_prior_count": Real(0, above=True)}
    n_subtypes: int = 10
    n_restarts: int = 10
    max_iter: int = MAX_ITER
    tolerance: float = TOLERANCE
    right_prior: float = 4.0
    wrong_prior: float | None = None
    class_prior_count: float | None = None
    subtype_prior_count: float = 0.1
    random_state: int = 0

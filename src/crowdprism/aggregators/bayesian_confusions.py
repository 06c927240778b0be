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
from crowdprism.aggregators.cells import Cells
from crowdprism.aggregators.em import Climb, Expectation, FloatArray, climb_from_each
from crowdprism.aggregators.expectation import ConfusionPass, RowsOf
from crowdprism.annotations import Annotations
from crowdprism.parameters import Allowed, Real, Whole
from crowdprism.results import FitResult
from crowdprism.results.confusion import confusions_fit, normalize_rows
from crowdprism.seeding import stream

MAX_ITER = 500
TOLERANCE = 1e-6
ITEMS_PER_STREAM = 2**16  # whose random numbers come from one stream
ANCHOR = 3.0  # pseudo-items of the class prior per item, spread as the votes are


@dataclass(frozen=True)
class Priors:
    """Dirichlet pseudo-counts."""

    right: float  # of a confusion row, on the true class
    wrong: float  # on each other label
    class_share: FloatArray  # (n_classes,) of each class in the class prior
    subtypes: float  # of all subtypes of a class together; each has an equal part of it


@dataclass(frozen=True, eq=False)
class VariationalModel:
    """Geometric means of the posteriors, as the expectation step needs them: likelihood (n_cells, columns) and prior.

    The penalty is minus the divergence of all posteriors from their priors, and what scaling the class prior to a sum
    of one took from the log likelihood.
    """

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


def cell_pseudo_counts(cells: Cells, n_subtypes: int, priors: Priors) -> FloatArray:
    """(n_cells, columns) pseudo-count of the cell's label for each column."""
    true_class = np.arange(cells.n_classes * n_subtypes) // n_subtypes
    return np.where(cells.label_of[:, None] == true_class, priors.right, priors.wrong)


def update(
    expectation: Expectation, cells: Cells, pseudo_counts: FloatArray, n_subtypes: int, priors: Priors
) -> VariationalModel:
    """Posteriors of all parameters given expected counts, in the form of geometric means."""
    from scipy.special import digamma, gammaln

    counts = expectation.counts
    posterior = counts + pseudo_counts
    row_prior = priors.right + (cells.n_classes - 1) * priors.wrong
    rows = cells.sum_by_annotator(counts) + row_prior
    log_likelihood = digamma(posterior) - cells.by_cell(digamma(rows))
    divergence = float(
        (gammaln(rows) - gammaln(row_prior)).sum()
        + (gammaln(pseudo_counts) - gammaln(posterior) + counts * log_likelihood).sum()
    )
    totals = expectation.class_totals.reshape(cells.n_classes, n_subtypes)
    class_posterior = totals.sum(axis=1) + priors.class_share
    subtype_prior = priors.subtypes / n_subtypes
    subtype_posterior = totals + subtype_prior
    log_class = digamma(class_posterior) - digamma(class_posterior.sum())
    log_subtype = digamma(subtype_posterior) - digamma(subtype_posterior.sum(axis=1, keepdims=True))
    divergence += dirichlet_divergence(class_posterior, priors.class_share)
    divergence += dirichlet_divergence(subtype_posterior, np.full(n_subtypes, subtype_prior))
    column_prior = np.exp(log_class[:, None] + log_subtype).ravel()
    mass = column_prior.sum()
    lost = expectation.class_totals.sum() * np.log(mass)  # the totals sum to the number of annotated items
    return VariationalModel(np.exp(log_likelihood), column_prior / mass, float(lost) - divergence)


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
        cells = evidence.cells
        priors = self._priors(evidence)
        pseudo_counts = cell_pseudo_counts(cells, self.n_subtypes, priors)

        def improve(_: Any, expectation: Expectation) -> VariationalModel:
            return update(expectation, cells, pseudo_counts, self.n_subtypes, priors)

        n_starts = self.n_restarts if self.n_subtypes > 1 else 1  # without subtypes nothing is random
        best, bounds = climb_from_each(
            evidence,
            (improve(None, self._start(evidence, restart)) for restart in range(n_starts)),
            improve,
            title=name,
            n_starts=n_starts,
            max_iter=self.max_iter,
            tolerance=self.tolerance,
            last_step=False,
        )
        return self._result_of(annotations, evidence, best, bounds, priors)

    def _priors(self, evidence: ConfusionPass) -> Priors:
        """Pseudo-counts; those that are not given keep the classes in place where items have one label."""
        n_classes = evidence.n_classes
        wrong = 1.0 / max(n_classes - 1, 1) if self.wrong_prior is None else self.wrong_prior
        if self.class_prior_count is not None:
            return Priors(self.right_prior, wrong, np.full(n_classes, self.class_prior_count), self.subtype_prior_count)
        first_subtype = np.eye(1, self.n_subtypes)
        votes = self._by_class(evidence.count_rows(self._split_votes(lambda *_: first_subtype)).class_totals[None])[0]
        return Priors(self.right_prior, wrong, 1.0 + ANCHOR * votes, self.subtype_prior_count)

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
        self,
        annotations: Annotations,
        evidence: ConfusionPass,
        best: Climb[VariationalModel],
        bounds: list[float],
        priors: Priors,
    ) -> FitResult:
        final = evidence.expect(best.model, keep=False)
        prior = self._by_class(final.class_totals[None])[0] + priors.class_share
        prior = prior / prior.sum()

        def by_class(part: Block, first: int, last: int, columns: FloatArray) -> FloatArray:
            probabilities = self._by_class(columns)
            probabilities[~part.annotated(first, last)] = prior
            return probabilities

        return self._build_result(
            annotations,
            evidence.expect(best.model, finish=by_class).kept,
            class_prior=prior,
            history={"objective": best.objective, **({"restarts": bounds} if len(bounds) > 1 else {})},
            seed=self.random_state if self.n_subtypes > 1 else None,
            warnings=best.notes(type(self).__name__),
            **self._confusion_parts(evidence.cells, final, priors),
        )

    def _by_class(self, columns: FloatArray) -> FloatArray:
        """Sum (rows, class and subtype) over subtypes."""
        return np.asarray(columns.reshape(len(columns), -1, self.n_subtypes).sum(axis=2))

    def _confusion_parts(self, cells: Cells, final: Expectation, priors: Priors) -> dict[str, FloatArray]:
        """Posterior counts of confusions, subtypes added up, and their mean; nothing where they would not fit."""
        if not confusions_fit(cells.n_annotators, cells.n_classes):
            return {}
        eye = np.eye(cells.n_classes)
        prior = priors.right * eye + priors.wrong * (1 - eye)
        posterior = cells.dense(self._by_class(final.counts)) + prior
        return {"confusion_posterior": posterior, "confusions": normalize_rows(posterior)}


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
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]])
    >>> IBCC().fit(a).result_.labels().tolist()
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
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]])
    >>> EBCC(n_subtypes=2).fit(a).result_.labels().tolist()
    [0, 1, 0, 1]
    """

    name: ClassVar[str] = "ebcc"
    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "n_subtypes": Whole(1),
        "subtype_prior_count": Real(0, above=True),
    }
    n_subtypes: int = 10
    n_restarts: int = 10
    max_iter: int = MAX_ITER
    tolerance: float = TOLERANCE
    right_prior: float = 4.0
    wrong_prior: float | None = None
    class_prior_count: float | None = None
    subtype_prior_count: float = 0.1
    random_state: int = 0

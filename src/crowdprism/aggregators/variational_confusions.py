"""Variational Bayes for confusion matrices, with or without subtypes of classes: the core of IBCC and EBCC.

A latent column is a (class, subtype) pair, class-major. Counts of cells that do not occur are zero, so their posterior
is the prior and only row sums know of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crowdprism.aggregators.cells import Cells, FloatArray
from crowdprism.aggregators.expectation import ExpectationStep
from crowdprism.aggregators.expectation_records import Expectation


@dataclass(frozen=True)
class Priors:
    """Dirichlet pseudo-counts.

    Attributes
    ----------
    right, wrong
        Of a confusion row: on the true class, and on each other label.
    class_share
        Of each class in the class prior.
    subtypes
        Of all subtypes of a class together; each has an equal part of it.
    """

    right: float = 4.0
    wrong: float = 1.0
    class_share: float = 1.0
    subtypes: float = 0.1


@dataclass(frozen=True, eq=False)
class VariationalModel:
    """Geometric means of the posteriors, as the expectation step needs them, and the posteriors' divergence.

    Attributes
    ----------
    likelihood
        (n_cells, columns)
    column_prior
        (columns,) sums to less than one.
    divergence
        Kullback-Leibler divergence of all posteriors from their priors.
    """

    likelihood: FloatArray
    column_prior: FloatArray
    divergence: float


@dataclass(frozen=True, eq=False)
class VariationalRun:
    """Where the iteration ended: the model, the last expectation, the lower bound after each iteration."""

    model: VariationalModel
    expectation: Expectation
    bound: list[float]
    converged: bool


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

    counts = expectation.cell_counts
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
    divergence += dirichlet_divergence(class_posterior, np.full(cells.n_classes, priors.class_share))
    divergence += dirichlet_divergence(subtype_posterior, np.full(n_subtypes, subtype_prior))
    return VariationalModel(np.exp(log_likelihood), np.exp(log_class[:, None] + log_subtype).ravel(), divergence)


def run_variational(
    step: ExpectationStep,
    start: Expectation,
    *,
    n_subtypes: int,
    priors: Priors,
    max_iter: int,
    tolerance: float,
    on_step: Callable[[float], None],
) -> VariationalRun:
    """Alternate updates until the lower bound of the log evidence gains less than `tolerance` per annotation."""
    cells = step.cells
    pseudo_counts = cell_pseudo_counts(cells, n_subtypes, priors)
    enough = tolerance * max(cells.total_weight, 1.0)
    bound: list[float] = []
    expectation = start
    n_annotated = float(start.class_totals.sum())
    for _ in range(max_iter):
        model = update(expectation, cells, pseudo_counts, n_subtypes, priors)
        expectation, gain = expect(step, model, n_annotated, keep=False)
        bound.append(gain - model.divergence)
        on_step(bound[-1])
        if len(bound) > 1 and bound[-1] - bound[-2] < enough:
            return VariationalRun(model, expectation, bound, True)
    return VariationalRun(model, expectation, bound, False)


def expect(
    step: ExpectationStep, model: VariationalModel, n_annotated: float, *, keep: bool
) -> tuple[Expectation, float]:
    """Expectation step with a column prior that sums to less than one, and its part of the lower bound."""
    mass = model.column_prior.sum()
    expectation = step(model.likelihood, model.column_prior / mass, keep=keep)
    return expectation, expectation.log_likelihood + n_annotated * float(np.log(mass))

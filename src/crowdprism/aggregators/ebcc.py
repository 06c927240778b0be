"""EBCC: classes have subtypes, which captures annotators whose errors go together."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.cells import MAX_TABLE_BYTES, Cells, FloatArray, cells_of
from crowdprism.aggregators.confusion_em import dense_counts
from crowdprism.aggregators.convergence import require_iterations, unsettled
from crowdprism.aggregators.expectation import (
    USUAL_PASSES,
    ExpectationStep,
    annotated_items,
    vote_shares_of,
)
from crowdprism.aggregators.expectation_records import Expectation
from crowdprism.aggregators.variational_confusions import Priors, VariationalRun, expect, run_variational
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.progress import progress
from crowdprism.results import FitResult
from crowdprism.results.confusion import normalize_rows
from crowdprism.seeding import stream

MAX_ITER = 500
TOLERANCE = 1e-6


class EBCC(Aggregator):
    """Confusion matrices per subtype of a class, by variational Bayes (Li, Rubinstein and Cohn 2019).

    Items of a subtype share what misleads annotators, so agreement among annotators who err together counts for less.

    Parameters
    ----------
    n_subtypes
        Subtypes per class; with 1 the method is IBCC.
    n_restarts
        Random starts, of which the one with the highest lower bound stands.
    max_iter, tolerance
        A fit ends after `max_iter` iterations, or when the lower bound gains less than `tolerance` per annotation.
    right_prior, wrong_prior
        Dirichlet pseudo-counts of confusion rows: on the true class, and on each other label.
    class_prior_count, subtype_prior_count
        Pseudo-counts of each class, and of all subtypes of a class together.
    random_state
        Seed of the starts.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]])
    >>> EBCC(n_subtypes=2).fit(a).result_.labels().tolist()
    [0, 1, 0, 1]
    """

    name: ClassVar[str] = "ebcc"

    def __init__(
        self,
        n_subtypes: int = 10,
        n_restarts: int = 10,
        max_iter: int = MAX_ITER,
        tolerance: float = TOLERANCE,
        right_prior: float = 4.0,
        wrong_prior: float = 1.0,
        class_prior_count: float = 1.0,
        subtype_prior_count: float = 0.1,
        random_state: int = 0,
    ) -> None:
        self.n_subtypes = n_subtypes
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.tolerance = tolerance
        self.right_prior = right_prior
        self.wrong_prior = wrong_prior
        self.class_prior_count = class_prior_count
        self.subtype_prior_count = subtype_prior_count
        self.random_state = random_state

    def _check(self) -> None:
        require_iterations(self.max_iter, self.tolerance)
        for count in ("n_subtypes", "n_restarts"):
            if getattr(self, count) < 1:
                raise InvalidParameterError(f"{count} must be at least 1, not {getattr(self, count)}.")
        for prior in ("right_prior", "wrong_prior", "class_prior_count", "subtype_prior_count"):
            if not getattr(self, prior) > 0:
                raise InvalidParameterError(f"{prior} must be above 0, not {getattr(self, prior)}.")

    def _aggregate(self, annotations: Annotations) -> FitResult:
        self._check()
        columns = annotations.n_classes * self.n_subtypes
        cells = cells_of(annotations, columns=columns, method=type(self).__name__)
        n_restarts = self.n_restarts if self.n_subtypes > 1 else 1
        step = ExpectationStep(cells, columns=columns, passes=n_restarts * min(self.max_iter, USUAL_PASSES))
        priors = Priors(self.right_prior, self.wrong_prior, self.class_prior_count, self.subtype_prior_count)
        best, bounds = self._best_run(step, priors)
        notes: tuple[str, ...] = ()
        if not best.converged:
            notes = unsettled(
                best.bound,
                max_iter=self.max_iter,
                tolerance=self.tolerance,
                total_weight=cells.total_weight,
                method=type(self).__name__,
            )
        return self._result_of(annotations, step, best, bounds, notes)

    def _best_run(self, step: ExpectationStep, priors: Priors) -> tuple[VariationalRun, list[float]]:
        """The restart with the highest lower bound, and the bounds of all."""
        n_restarts = self.n_restarts if self.n_subtypes > 1 else 1  # without subtypes nothing is random
        best: VariationalRun | None = None
        bounds = []
        with progress(type(self).__name__, total=n_restarts * self.max_iter) as bar:
            for restart in range(n_restarts):
                run = run_variational(
                    step,
                    self._start(step, restart),
                    n_subtypes=self.n_subtypes,
                    priors=priors,
                    max_iter=self.max_iter,
                    tolerance=self.tolerance,
                    on_step=lambda bound: bar.advance(note=f"lower bound {bound:.6g}"),
                )
                bounds.append(run.bound[-1])
                if best is None or run.bound[-1] > best.bound[-1]:
                    best = run
                bar.advance(self.max_iter - len(run.bound))
        assert best is not None
        return best, bounds

    def _start(self, step: ExpectationStep, restart: int) -> Expectation:
        """Vote shares, split at random over each class's subtypes."""
        if self.n_subtypes == 1:
            return step.count_votes()
        shares = vote_shares_of(step.cells)
        split = stream(self.random_state, "ebcc", restart).dirichlet(np.ones(self.n_subtypes), size=len(shares))
        return step.count((shares[:, :, None] * split[:, None, :]).reshape(len(shares), -1))

    def _result_of(
        self,
        annotations: Annotations,
        step: ExpectationStep,
        run: VariationalRun,
        bounds: list[float],
        notes: tuple[str, ...],
    ) -> FitResult:
        cells = step.cells
        final, _ = expect(step, run.model, 0.0, keep=True)
        assert final.class_probabilities is not None
        prior = self._by_class(final.class_totals[None])[0] + self.class_prior_count
        prior = prior / prior.sum()
        probabilities = self._by_class(final.class_probabilities)
        probabilities[~annotated_items(cells)] = prior
        parts = self._confusion_parts(cells, final)
        history = {"objective": run.bound}
        if len(bounds) > 1:
            history["restarts"] = bounds
        return self._build_result(
            annotations,
            probabilities,
            class_prior=prior,
            history=history,
            seed=self.random_state if self.n_subtypes > 1 else None,
            warnings=notes,
            **parts,
        )

    def _by_class(self, columns: FloatArray) -> FloatArray:
        """Sum (rows, class and subtype) over subtypes."""
        return np.asarray(columns.reshape(len(columns), -1, self.n_subtypes).sum(axis=2))

    def _confusion_parts(self, cells: Cells, final: Expectation) -> dict[str, FloatArray]:
        """Posterior counts of confusions, subtypes added up, and their mean; nothing where they would not fit."""
        if 8 * cells.n_annotators * cells.n_classes**2 > MAX_TABLE_BYTES:
            return {}
        eye = np.eye(cells.n_classes)
        prior = self.right_prior * eye + self.wrong_prior * (1 - eye)
        posterior = dense_counts(self._by_class(final.cell_counts), cells) + prior
        return {"confusion_posterior": posterior, "confusions": normalize_rows(posterior)}

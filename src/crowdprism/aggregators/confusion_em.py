"""EM for annotators with confusion matrices (Dawid and Skene 1979), as pure functions.

`em` runs it from given confusion matrices, the last stage of spectral methods; `run_em` is the loop below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.cells import Cells, FloatArray, cells_of
from crowdprism.aggregators.confusion_prior import CellPrior, ConfusionPrior, prior_of_cells
from crowdprism.aggregators.expectation import ExpectationStep
from crowdprism.aggregators.expectation_records import Expectation
from crowdprism.annotations import Annotations
from crowdprism.results.confusion import normalize_rows

MAX_ITER = 100
TOLERANCE = 1e-5  # gain of the objective per annotation below which EM has settled


@dataclass(frozen=True, eq=False)
class ConfusionModel:
    """Parameters that EM estimates.

    Attributes
    ----------
    likelihood
        (n_cells, true class) probability of the cell's label: the confusion entries that the data need.
    row_totals
        (n_annotators, true class) counts and pseudo-counts behind each confusion row.
    class_prior
        (n_classes,)
    """

    likelihood: FloatArray
    row_totals: FloatArray
    class_prior: FloatArray


@dataclass(frozen=True, eq=False)
class EMRun:
    """Where EM ended, the objective after each iteration, and whether it had settled."""

    model: ConfusionModel
    objective: list[float]
    converged: bool


@dataclass(frozen=True, eq=False)
class EMFit:
    """What `em` returns; shapes as in `FitResult`, the objective after each iteration, and whether it had settled."""

    class_probabilities: FloatArray
    confusions: FloatArray
    class_prior: FloatArray
    objective: list[float]
    converged: bool


def maximize(
    expectation: Expectation, cells: Cells, *, prior: CellPrior | None = None, class_prior: FloatArray | None = None
) -> ConfusionModel:
    """M step: confusion rows from expected counts and pseudo-counts, class prior from expected class totals.

    Rows without counts or pseudo-counts are uniform: no annotation speaks of them. A `class_prior` that is given
    stays as it is.
    """
    counts = expectation.cell_counts if prior is None else expectation.cell_counts + prior.cell
    totals = cells.sum_by_annotator(expectation.cell_counts)
    if prior is not None:
        totals = totals + prior.row
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 1.0 / totals
    empty = ~np.isfinite(scale)
    scale[empty] = 0.0
    likelihood = counts * cells.by_cell(scale)
    if empty.any():
        likelihood[cells.by_cell(empty)] = 1.0 / cells.n_classes
    return ConfusionModel(likelihood, totals, class_shares(expectation) if class_prior is None else class_prior)


def class_shares(expectation: Expectation) -> FloatArray:
    """Share of each class among annotated items; uniform where no annotation counts."""
    total = expectation.class_totals.sum()
    if total == 0:
        return np.full(len(expectation.class_totals), 1.0 / len(expectation.class_totals))
    return np.asarray(expectation.class_totals / total)


def run_em(
    step: ExpectationStep,
    start: ConfusionModel,
    *,
    prior: CellPrior | None = None,
    class_prior: FloatArray | None = None,
    hard: bool = False,
    max_iter: int = MAX_ITER,
    tolerance: float = TOLERANCE,
    on_step: Callable[[float], None] | None = None,
    until: Callable[[ConfusionModel, ConfusionModel], bool] | None = None,
) -> EMRun:
    """Alternate E and M steps until the objective gains less than `tolerance` per annotation.

    The objective, log likelihood plus log of the pseudo-counts' density (hard steps: of the most probable classes),
    never decreases. `until(old, new)` may end the run earlier; `on_step` is told the objective.
    """
    model, objective = start, []
    enough = tolerance * max(step.cells.total_weight, 1.0)
    for _ in range(max_iter):
        expectation = step(model.likelihood, model.class_prior, hard=hard, keep=False)
        penalty = 0.0 if prior is None else prior.log_density(model.likelihood, model.row_totals)
        objective.append(expectation.log_likelihood + penalty)
        if on_step is not None:
            on_step(objective[-1])
        if len(objective) > 1 and objective[-1] - objective[-2] < enough:
            return EMRun(model, objective, True)
        following = maximize(expectation, step.cells, prior=prior, class_prior=class_prior)
        if until is not None and until(model, following):
            return EMRun(following, objective, True)
        model = following
    return EMRun(model, objective, False)


def model_of_confusions(
    confusions: NDArray[Any],  # (n_annotators, true class, given label)
    class_prior: NDArray[Any],
    cells: Cells,
) -> ConfusionModel:
    """Take the entries that the cells need from full confusion matrices."""
    likelihood = np.asarray(confusions, dtype=np.float64)[cells.annotator_of, :, cells.label_of]
    row_totals = np.ones((cells.n_annotators, cells.n_classes))
    return ConfusionModel(likelihood, row_totals, np.asarray(class_prior, dtype=np.float64))


def dense_counts(cell_counts: FloatArray, cells: Cells) -> FloatArray:
    """Bring counts by cell into (n_annotators, true class, given label)."""
    counts = np.zeros((cells.n_annotators, cells.n_classes, cells.n_classes))
    counts[cells.annotator_of, :, cells.label_of] = cell_counts
    return counts


def em(
    annotations: Annotations,
    *,
    confusions: NDArray[Any],  # (n_annotators, true class, given label)
    class_prior: NDArray[Any],
    fix_class_prior: bool = False,
    pseudo_counts: NDArray[Any] | None = None,  # (true class, given label), the same for every annotator
    hard: bool = False,
    max_iter: int = MAX_ITER,
    tolerance: float = TOLERANCE,
) -> EMFit:
    """Run Dawid-Skene EM from given confusion matrices and class prior, beginning with an E step.

    With `max_iter=0` the class probabilities are those of the given parameters.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0]])
    >>> start = np.repeat([[[0.8, 0.2], [0.2, 0.8]]], 3, axis=0)
    >>> em(a, confusions=start, class_prior=np.array([0.5, 0.5])).class_probabilities.argmax(axis=1).tolist()
    [0, 1, 0]
    """
    cells = cells_of(annotations, columns=annotations.n_classes, method="Dawid-Skene")
    step = ExpectationStep(cells)
    model = model_of_confusions(confusions, class_prior, cells)
    common = ConfusionPrior(np.zeros((cells.n_classes,) * 2) if pseudo_counts is None else np.asarray(pseudo_counts))
    objective: list[float] = []
    converged = True
    estimate = np.asarray(confusions, dtype=np.float64)
    if max_iter > 0:
        run = run_em(
            step,
            maximize_once(step, model, common, fix_class_prior, hard),
            prior=None if common.absent else prior_of_cells(common, cells),
            class_prior=model.class_prior if fix_class_prior else None,
            hard=hard,
            max_iter=max_iter,
            tolerance=tolerance,
        )
        model, objective, converged = run.model, run.objective, run.converged
        last = step(model.likelihood, model.class_prior, hard=hard)
        estimate = normalize_rows(dense_counts(last.cell_counts, cells) + common.dense(cells.n_annotators))
    else:
        last = step(model.likelihood, model.class_prior, hard=hard)
    assert last.class_probabilities is not None
    return EMFit(last.class_probabilities, estimate, model.class_prior, objective, converged)


def maximize_once(
    step: ExpectationStep, model: ConfusionModel, common: ConfusionPrior, fix_class_prior: bool, hard: bool
) -> ConfusionModel:
    """One E and M step from parameters that no M step made, so that every later objective is comparable."""
    expectation = step(model.likelihood, model.class_prior, hard=hard, keep=False)
    return maximize(
        expectation,
        step.cells,
        prior=None if common.absent else prior_of_cells(common, step.cells),
        class_prior=model.class_prior if fix_class_prior else None,
    )

"""Dawid-Skene for classes with an order: errors fall off with distance, annotators have a bias and a spread.

An annotator sees class k at k + bias, with normal noise of their spread, and gives the nearest class; now and then they
answer by habit (`lapse`). That is a confusion matrix with three numbers, found on a grid by how well it explains the
annotator's expected counts; the crowd's use of the grid is the prior. The matrix is then the centre of pseudo-counts
for a full confusion matrix, so that annotators with many labels may err in their own way.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np

from crowdprism.aggregators.dawid_skene import ConfusionModel, DawidSkene, maximize
from crowdprism.aggregators.em import Expectation, FloatArray, climb, fixed_class_prior
from crowdprism.aggregators.expectation import ConfusionPass
from crowdprism.aggregators.known_annotators import ConfusionPrior
from crowdprism.annotations import Annotations
from crowdprism.annotations.summary import class_scores
from crowdprism.errors import UnsuitableDataError, some
from crowdprism.results import FitResult
from crowdprism.results.confusion import confusions_fit, normalize_rows

BIAS = np.linspace(-1.5, 1.5, 13)
SPREAD = np.array([0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0])
LAPSE = np.array([0.01, 0.05, 0.15, 0.4, 0.8])
STRENGTH = 10.0  # pseudo-annotations per confusion row at the ordinal centre
MOST_ROUNDS = 20  # of ordinal centres; mostly a few, until no entry of a centre moves by more than
SETTLED = 0.01
CROWD_ROUNDS = 5  # of the crowd's use of the grid
# A shift of the scale and a bias of everyone look alike: the prior of the crowd's use is centred at no bias, and few
# annotators cannot leave it.
USUAL_BIAS = 0.5  # standard deviation of the prior, in classes
PRIOR_USE = 5.0  # annotators' worth of the prior


class OrdinalDawidSkene(DawidSkene):
    """Dawid-Skene for ratings: near classes are confused more than far ones (`Annotations.classes` has the order).

    Parameters as `DawidSkene`; `prior_strength` is that of the ordinal centre. After `fit`, `bias_` and `spread_` hold,
    per annotator, by how many classes they rate too high, and how far they scatter.

    Examples
    --------
    >>> a = Annotations.from_dense([[1, 1, 1, 2], [2, 2, 2, 3], [3, 3, 3, 3], [1, 1, 2, 2], [2, 2, 2, 3]])
    >>> fitted = OrdinalDawidSkene().fit(a)
    >>> fitted.result_.labels().tolist(), bool(fitted.bias_[3] > 0.5)
    ([1, 2, 3, 1, 2], True)
    """

    name: ClassVar[str] = "ordinal-dawid-skene"
    bias_: FloatArray
    spread_: FloatArray

    def _fit_from(self, annotations: Annotations, previous: FitResult | None) -> FitResult:
        if class_scores(annotations) is None:  # neither were the classes ordered nor are they numbers
            raise UnsuitableDataError(
                f"The order of the classes {some(annotations.classes.tolist())} is not known.",
                remedy="List them from low to high with {order}, or use dawid-skene.",
            )
        if not confusions_fit(annotations.n_annotators, annotations.n_classes):
            raise UnsuitableDataError("Full confusion matrices would not fit in memory. Use one-coin.")
        fixed = fixed_class_prior(self.class_prior, annotations.n_classes)
        evidence = ConfusionPass(annotations, method="Ordinal Dawid-Skene")
        cells, strength = evidence.cells, STRENGTH if self.prior_strength is None else self.prior_strength
        # Climbs from the outcome without an order explain held-out annotations better than climbs from votes do.
        expectation = evidence.count(self._fit_own_skill(annotations, evidence, fixed).class_probabilities)
        history: list[float] = []
        centres: Any = np.inf
        for _ in range(MOST_ROUNDS):
            found, before = cells.dense(expectation.counts), centres
            centres, self.bias_, self.spread_ = ordinal_centres(found)
            if np.abs(centres - before).max() < SETTLED:
                break
            prior = ConfusionPrior(np.zeros(found.shape[1:]), dict(enumerate(strength * centres)))
            on_cells = prior.on_cells(cells)

            def improve(_: Any, found: Expectation, on_cells: Any = on_cells) -> ConfusionModel:
                return maximize(found, cells, prior=on_cells, class_prior=fixed)

            limits: dict[str, Any] = {"max_iter": self.max_iter, "tolerance": self.tolerance}
            run = climb(evidence, improve(None, expectation), improve, title="Ordinal Dawid-Skene", **limits)
            history += run.objective
            expectation = evidence.expect(run.model, keep=False)
        notes, final = run.notes(type(self).__name__), evidence.expect(run.model)
        posterior = cells.dense(final.counts) + strength * centres
        return self._build_result(
            annotations,
            final.kept,
            warnings=notes,
            class_prior=run.model.class_prior,
            confusions=normalize_rows(posterior),
            confusion_posterior=posterior,
            history={"objective": history},
        )


@cache
def ordinal_grid(n_classes: int) -> FloatArray:
    """(bias, spread, true class, given label) confusion matrices without lapses."""
    from scipy.special import ndtr

    cuts = np.concatenate([[-np.inf], np.arange(n_classes - 1) + 0.5, [np.inf]])
    seen = np.arange(n_classes) + BIAS[:, None]  # (bias, true class)
    below = ndtr((cuts - seen[:, None, :, None]) / SPREAD[None, :, None, None])
    return np.asarray(np.diff(below, axis=-1))


def ordinal_centres(counts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Confusions (annotator, true class, given label) with an order, and bias and spread, from expected counts.

    Each is the mean over the grid, weighted by how well a point explains the annotator's counts and by how much of the
    crowd it explains.
    """
    n_annotators, n_classes, _ = counts.shape
    careful = ordinal_grid(n_classes)[:, :, None]
    habit = (counts.sum(axis=(0, 1)) + 1) / (counts.sum() + n_classes)
    lapse = LAPSE[:, None, None]
    grid = ((1 - lapse) * careful + lapse * habit).reshape(-1, n_classes, n_classes)
    fit = counts.reshape(n_annotators, -1) @ np.log(grid).reshape(len(grid), -1).T
    shape = (n_annotators, len(BIAS), len(SPREAD), len(LAPSE))
    usual = np.exp(-np.square(BIAS / USUAL_BIAS) / 2)
    usual = np.repeat(usual / usual.sum(), len(SPREAD) * len(LAPSE)) / (len(SPREAD) * len(LAPSE))
    use = usual
    for _ in range(CROWD_ROUNDS):
        weight = fit + np.log(use)
        weight = np.exp(weight - weight.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        use = (weight.sum(axis=0) + PRIOR_USE * usual) / (n_annotators + PRIOR_USE)
    by_bias, by_spread = weight.reshape(shape).sum(axis=(2, 3)), weight.reshape(shape).sum(axis=(1, 3))
    centres = (weight @ grid.reshape(len(grid), -1)).reshape(counts.shape)
    return centres, by_bias @ BIAS, by_spread @ SPREAD

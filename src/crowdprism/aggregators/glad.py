"""GLAD: annotators differ in ability and items in difficulty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.cells import MAX_TABLE_BYTES, FloatArray, require_room
from crowdprism.aggregators.confusion_em import TOLERANCE
from crowdprism.aggregators.convergence import require_iterations, unsettled
from crowdprism.aggregators.expectation_records import PRIOR_MEAN
from crowdprism.aggregators.glad_step import GladStep, ease_of
from crowdprism.aggregators.one_coin import confusions_of
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.progress import progress
from crowdprism.results import FitResult

MAX_ITER = 200


@dataclass(frozen=True, eq=False)
class GladModel:
    """Ability of each annotator (n_annotators,) and log ease of each item (n_items,)."""

    ability: FloatArray
    log_ease: FloatArray

    def log_prior(self) -> float:
        """Log density of the normal priors, without constants."""
        return -0.5 * float(np.square(self.ability - PRIOR_MEAN).sum() + np.square(self.log_ease - PRIOR_MEAN).sum())


class GLAD(Aggregator):
    """Estimate each annotator's ability and each item's difficulty together with the classes (Whitehill et al. 2009).

    An annotation is right with probability sigmoid(ability x ease); wrong labels are equally likely. A negative
    ability is that of an adversary, and is put to use. `skills` of the result are abilities; its confusions hold the
    average probability of a right label over the annotator's own items.

    Parameters
    ----------
    max_iter, tolerance
        EM ends after `max_iter` iterations, or when the objective gains less than `tolerance` per annotation.
    n_sweeps
        Sweeps over all abilities and difficulties in each M step.

    Attributes
    ----------
    difficulty_
        (n_items,) 1 / ease: 0 is an item that everyone gets right.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]])
    >>> result = GLAD().fit(a).result_
    >>> result.labels().tolist(), bool(result.skills[0] > result.skills[2])
    ([0, 1, 0, 1], True)
    """

    name: ClassVar[str] = "glad"
    difficulty_: FloatArray

    def __init__(self, max_iter: int = MAX_ITER, tolerance: float = TOLERANCE, n_sweeps: int = 3) -> None:
        self.max_iter = max_iter
        self.tolerance = tolerance
        self.n_sweeps = n_sweeps

    def _aggregate(self, annotations: Annotations) -> FitResult:
        require_iterations(self.max_iter, self.tolerance)
        if self.n_sweeps < 1:
            raise InvalidParameterError(f"n_sweeps must be at least 1, not {self.n_sweeps}.")
        require_room(annotations.n_annotators, annotations.n_classes, annotations, "GLAD")
        step = GladStep(annotations)
        total_weight = float(annotations.n_annotations if annotations.weight is None else annotations.weight.sum())
        model, objective, converged = self._run(step, total_weight)
        notes: tuple[str, ...] = ()
        if not converged:
            notes = unsettled(
                objective,
                max_iter=self.max_iter,
                tolerance=self.tolerance,
                total_weight=total_weight,
                method="GLAD",
            )
        self.difficulty_ = 1.0 / ease_of(model.log_ease)
        return self._result_of(annotations, step, model, objective, notes)

    def _run(self, step: GladStep, total_weight: float) -> tuple[GladModel, list[float], bool]:
        """EM; returns the model, the objective after each iteration, and whether it settled."""
        annotations = step.annotations
        model = GladModel(np.full(annotations.n_annotators, PRIOR_MEAN), np.full(annotations.n_items, PRIOR_MEAN))
        objective: list[float] = []
        with progress("GLAD", total=self.max_iter) as bar:
            for _ in range(self.max_iter):
                expectation = step.expect(model.ability, model.log_ease)
                objective.append(expectation.log_likelihood + model.log_prior())
                bar.advance(note=f"objective {objective[-1]:.6g}")
                if len(objective) > 1 and objective[-1] - objective[-2] < self.tolerance * max(total_weight, 1.0):
                    return model, objective, True
                for _ in range(self.n_sweeps):
                    model = GladModel(*step.sweep(model.ability, model.log_ease, expectation.right))
        return model, objective, False

    def _result_of(
        self,
        annotations: Annotations,
        step: GladStep,
        model: GladModel,
        objective: list[float],
        notes: tuple[str, ...],
    ) -> FitResult:
        n_classes = annotations.n_classes
        final = step.expect(model.ability, model.log_ease, keep=True)
        assert final.class_probabilities is not None
        fits = 8 * annotations.n_annotators * n_classes**2 <= MAX_TABLE_BYTES
        return self._build_result(
            annotations,
            final.class_probabilities,
            confusions=confusions_of(step.mean_right(model.ability, model.log_ease), n_classes) if fits else None,
            skills=model.ability,
            class_prior=np.full(n_classes, 1 / n_classes),
            history={"objective": objective},
            warnings=notes,
        )

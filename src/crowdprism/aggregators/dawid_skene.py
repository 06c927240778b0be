"""Dawid-Skene: every annotator has a confusion matrix, found together with the true classes by EM.

`expectation` has the E step, `em` the climb, `skill_prior` the M step of the default prior. In the crowd prior, a row
with pseudo-counts b is (counts + b) / (sum of counts + sum of b); the penalty is the sum of b log(confusion).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators import skill_prior
from crowdprism.aggregators.base import IncrementalAggregator
from crowdprism.aggregators.blocks import Block
from crowdprism.aggregators.copies import Dependence, count_once
from crowdprism.aggregators.em import MAX_ITER, TOLERANCE, Climb, Expectation, FloatArray, climb, fixed_class_prior
from crowdprism.aggregators.expectation import ConfusionPass
from crowdprism.aggregators.known_annotators import (
    CellPrior,
    ConfusionPrior,
    carried_over,
    past_counts,
    starting_confusions,
)
from crowdprism.aggregators.majority_vote import decide
from crowdprism.aggregators.skill_prior import STRENGTH, SkillModel, SkillPrior
from crowdprism.aggregators.sources import Cells
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.parameters import Allowed, OneOf, Real
from crowdprism.results import FitResult
from crowdprism.results.confusion import confusions_fit, normalize_rows

EStep = Literal["soft", "hard", "hybrid"]
ClassPrior = Literal["estimate", "uniform"]
# Measured on fifteen public sets with gold (mean accuracy; mean log likelihood of a tenth of annotations held out):
# 0: .8301, -.668;  1: .8346, -.420;  2: .8357, -.412;  4: .8349, -.408;  8: .8357, -.413;  16: .8376, -.420.
PRIOR_STRENGTH = 4.0
# With hard decisions, on the same sets (held-out probabilities of less than .001 counted as that):
# 0: .8342, -.555;  .5: .8350, -.485;  1: .8348, -.474;  2: .8342, -.467;  4: .8321, -.460;  16: .8310, -.455.
FAST_PRIOR_STRENGTH = 1.0
HYBRID_SWITCH = 0.005  # change of the class prior (sum of absolute values) at which hybrid turns hard (Sinha 2018)
JEFFREYS = 0.5  # pseudo-count per entry for intervals where the estimate itself uses none
NO_MATRICES = "Full confusion matrices would not fit in memory: skills are the annotators' accuracies."


@dataclass(eq=False, repr=False)
class DawidSkene(IncrementalAggregator):
    """Estimate each annotator's confusion matrix and the true classes together, by EM (Dawid and Skene 1979).

    Parameters
    ----------
    max_iter, tolerance
        EM ends after `max_iter` iterations, or when the objective gains less than `tolerance` per annotation.
    prior
        What holds annotators with few labels: `"own-skill"`, a confusion matrix centred at their own share of right
        labels; `"crowd"`, the crowd's common one under majority vote. `"auto"` takes the first where it applies: soft
        steps, no `past_result`, no `prior_strength` given (mean accuracy .8356 on fifteen sets; crowd .8349).
    prior_strength
        Pseudo-annotations per confusion row of the crowd prior, 4 by default; 0 gives plain maximum likelihood.
    e_step
        `"soft"` probabilities; `"hard"` decisions; `"hybrid"`: soft until the class prior changes by less than 0.005.
    class_prior
        `"estimate"` it, take it as `"uniform"`, or give the shares of the classes in order.
    initial_confusions
        Where EM starts: annotator name to (true class, given label) matrix, or an array for all annotators. Those not
        named start from the crowd's common matrix. By default EM starts from majority vote.
    past_result
        An earlier `FitResult`, which counts as if returning annotators had given those annotations again.
    dependence
        `"auto"` finds annotators who answer as one voice, such as copies, and counts them once (`result_.voices`);
        None takes all as independent; groups of names, such as `[["a", "b"]]`, are the voices.

    Examples
    --------
    >>> result = DawidSkene().fit([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]]).result_
    >>> result.labels().tolist(), bool(result.annotator_accuracy[0] > result.annotator_accuracy[2])
    ([0, 1, 0, 1], True)
    """

    name: ClassVar[str] = "dawid-skene"
    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "prior": OneOf("auto", "own-skill", "crowd"),
        "prior_strength": (Real(0), None),
        "e_step": OneOf("soft", "hard", "hybrid"),
    }
    max_iter: int = MAX_ITER
    tolerance: float = TOLERANCE
    prior_strength: float | None = None
    e_step: EStep = "soft"
    class_prior: ClassPrior | NDArray[Any] | list[float] = "estimate"
    initial_confusions: Mapping[Any, Any] | NDArray[Any] | None = None
    past_result: FitResult | None = None
    prior: Literal["auto", "own-skill", "crowd"] = "auto"
    dependence: Dependence = "auto"

    def _aggregate(self, annotations: Annotations, previous: FitResult | None = None) -> FitResult:
        return count_once(annotations, self.dependence, lambda voices: self._fit_from(voices, previous))

    def _resume(self, annotations: Annotations, previous: FitResult) -> FitResult:
        # Rounds of the own-skill prior depend on where they start, so they start from the votes again.
        return self._aggregate(annotations, None if self._uses_own_skill() else previous)

    def _uses_own_skill(self) -> bool:
        applies = self.e_step == "soft" and self.past_result is None
        if self.prior == "own-skill" and not applies:
            raise InvalidParameterError(
                "The own-skill prior goes with soft steps and without past_result.", parameter="prior"
            )
        return self.prior == "own-skill" or (self.prior == "auto" and applies and self.prior_strength is None)

    def _fit_from(self, annotations: Annotations, previous: FitResult | None) -> FitResult:
        fixed = fixed_class_prior(self.class_prior, annotations.n_classes)
        evidence = ConfusionPass(annotations, method="Dawid-Skene")
        cells = evidence.cells
        if self._uses_own_skill():
            return self._fit_own_skill(annotations, evidence, fixed)
        votes = evidence.count_votes()
        own = {} if self.past_result is None else past_counts(self.past_result, annotations)
        strength = PRIOR_STRENGTH if self.prior_strength is None else self.prior_strength
        prior = ConfusionPrior(strength * cells.pooled(votes.counts), own)
        on_cells = prior.on_cells(cells)

        def improve(_: Any, expectation: Expectation) -> ConfusionModel:
            return maximize(expectation, cells, prior=on_cells, class_prior=fixed)

        start = improve(None, self._first_expectation(annotations, evidence, votes, fixed, previous))
        del votes  # tables may be large, and the last step needs the most room
        run, history = self._climb(evidence, start, improve)
        notes = run.notes(type(self).__name__)
        final = (evidence if self.e_step == "soft" else evidence.hardened()).expect(run.model)
        parts: dict[str, Any] = {"class_prior": run.model.class_prior, "history": history}
        if confusions_fit(cells.n_annotators, cells.n_classes):
            posterior = cells.dense(final.counts) + prior.dense(cells.n_annotators)
            parts["confusions"] = normalize_rows(posterior)
            parts["confusion_posterior"] = posterior + JEFFREYS if prior.absent else posterior
        else:
            parts["skills"] = accuracy_of_cells(final, cells, prior, run.model.class_prior)
            notes = (*notes, NO_MATRICES)
        return self._build_result(annotations, final.kept, warnings=notes, **parts)

    def _fit_own_skill(self, annotations: Annotations, evidence: ConfusionPass, fixed: FloatArray | None) -> FitResult:
        """Rounds of EM; before each, the centres of the prior are renewed. `max_iter` counts all iterations."""
        cells, crowd = evidence.cells, skill_prior.crowd_skill(evidence)
        if crowd is None:
            return self._vote_result(annotations, evidence)
        start = evidence.expect(skill_prior.one_skill_model(crowd.mean, cells), keep=False)
        expectation = self._first_expectation(annotations, evidence, start, fixed, None)
        objective: list[float] = []
        stages: list[float] = []
        for round_ in range(skill_prior.ROUNDS):
            prior = skill_prior.centre(expectation, cells, crowd)

            def improve(_: Any, found: Expectation, prior: SkillPrior = prior) -> SkillModel:
                return skill_prior.maximize(found, cells, prior, class_prior=fixed)

            limits: dict[str, Any] = {"max_iter": max(1, self.max_iter - len(objective)), "tolerance": self.tolerance}
            run = climb(evidence, improve(None, expectation), improve, title="Dawid-Skene", **limits)
            objective += run.objective
            stages += [float(round_)] * len(run.objective)
            if len(objective) >= self.max_iter:
                break
            expectation = evidence.expect(run.model, keep=False)
        notes = replace(run, max_iter=self.max_iter).notes(type(self).__name__)
        final = evidence.expect(run.model)
        history = {"objective": objective, "stage": stages}
        parts: dict[str, Any] = {"class_prior": run.model.class_prior, "history": history}
        if confusions_fit(cells.n_annotators, cells.n_classes):
            parts["confusions"] = skill_prior.full_confusions(final.counts, cells, prior)
            parts["confusion_posterior"] = cells.dense(final.counts) + STRENGTH * skill_prior.row_centres(prior)
        else:
            parts["skills"] = run.model.right @ run.model.class_prior
            notes = (*notes, NO_MATRICES)
        return self._build_result(annotations, final.kept, warnings=notes, **parts)

    def _vote_result(self, annotations: Annotations, evidence: ConfusionPass) -> FitResult:
        """No item has labels of two annotators: labels are votes, and only gold tells anything of the annotators."""
        votes = evidence.count_rows(Block.vote_shares, keep=True)
        parts: dict[str, Any] = {"class_prior": votes.class_shares(), "history": {"objective": [0.0]}}
        if confusions_fit(annotations.n_annotators, annotations.n_classes):
            weight, counts = skill_prior.WEIGHT_WITHOUT_PAIRS, np.zeros((annotations.n_annotators, 1, 1))
            if evidence.source.gold_counts.any():
                counts = evidence.cells.dense(evidence.count_rows(known_rows).counts)
            parts["confusion_posterior"] = counts + weight * skill_prior.unknown_rows(annotations.n_classes)
            parts["confusions"] = parts["confusion_posterior"] / (counts.sum(axis=2, keepdims=True) + weight)
        note = "No item has labels of two annotators, so only gold can tell how good annotators are."
        return self._build_result(annotations, votes.kept, warnings=(note,), **parts)

    def _first_expectation(
        self,
        annotations: Annotations,
        evidence: ConfusionPass,
        votes: Expectation,
        fixed: FloatArray | None,
        previous: FitResult | None,
    ) -> Expectation:
        """What the first M step starts from: an earlier fit, given confusions, or votes."""
        hard = self.e_step == "hard"
        if previous is not None:
            return evidence.count(carried_over(previous, annotations))
        if self.initial_confusions is not None:
            common = evidence.cells.pooled(votes.counts)
            confusions = starting_confusions(self.initial_confusions, annotations, common)
            class_prior = votes.class_totals / max(votes.class_totals.sum(), 1.0) if fixed is None else fixed
            given = model_of_confusions(confusions, class_prior, evidence.cells)
            return (evidence.hardened() if hard else evidence).expect(given, keep=False)
        if hard:
            return evidence.count_rows(decided_votes)
        return votes

    def _climb(
        self, evidence: ConfusionPass, start: ConfusionModel, improve: Callable[[Any, Expectation], ConfusionModel]
    ) -> tuple[Climb[ConfusionModel], dict[str, list[float]]]:
        options: dict[str, Any] = {"title": "Dawid-Skene", "tolerance": self.tolerance}
        if self.e_step != "hybrid":
            steps = evidence.hardened() if self.e_step == "hard" else evidence
            run = climb(steps, start, improve, max_iter=self.max_iter, **options)
            return run, {"objective": run.objective}
        soft = climb(evidence, start, improve, max_iter=self.max_iter, until=class_prior_settled, **options)
        left = max(1, self.max_iter - len(soft.objective))
        run = climb(evidence.hardened(), soft.model, improve, max_iter=left, **options)
        stages = [0.0] * len(soft.objective) + [1.0] * len(run.objective)
        return replace(run, max_iter=self.max_iter), {"objective": soft.objective + run.objective, "stage": stages}


@dataclass(eq=False, repr=False)
class FastDawidSkene(DawidSkene):
    """Dawid-Skene with hard decisions in place of probabilities, so fewer iterations (Sinha et al. 2018).

    Parameters as `DawidSkene`, with a weaker prior by default (`FAST_PRIOR_STRENGTH` has the measurements). The class
    probabilities are decisions: 1 for the most probable class, in equal shares where several are.

    Examples
    --------
    >>> FastDawidSkene().fit(Annotations.from_dense([[0, 0, 1], [1, 1, 1]])).result_.labels().tolist()
    [0, 1]
    """

    name: ClassVar[str] = "fast-dawid-skene"
    prior_strength: float | None = FAST_PRIOR_STRENGTH
    e_step: EStep = "hard"


@dataclass(frozen=True, eq=False)
class ConfusionModel:
    """Confusion entries that the data need (n_cells, true class), class prior, and log density of the pseudo-counts."""

    likelihood: FloatArray
    class_prior: FloatArray
    penalty: float = 0.0


def maximize(
    expectation: Expectation, cells: Cells, *, prior: CellPrior | None = None, class_prior: FloatArray | None = None
) -> ConfusionModel:
    """M step: confusion rows from expected counts and pseudo-counts, class prior from class totals if not given.

    Rows without counts or pseudo-counts are uniform: no annotation speaks of them.
    """
    counts = expectation.counts if prior is None else expectation.counts + prior.cell
    totals = cells.sum_by_annotator(expectation.counts)
    if prior is not None:
        totals = totals + prior.row
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 1.0 / totals
    empty = ~np.isfinite(scale)
    scale[empty] = 0.0
    likelihood = counts * cells.by_cell(scale)
    if empty.any():
        likelihood[cells.by_cell(empty)] = 1.0 / cells.n_classes
    penalty = 0.0 if prior is None else prior.log_density(likelihood, totals)
    return ConfusionModel(likelihood, expectation.class_shares() if class_prior is None else class_prior, penalty)


def decided_votes(block: Block, first: int, last: int) -> FloatArray:
    """(items, n_classes) all probability on the class with most votes, in equal shares where several have."""
    shares = np.where(block.annotated(first, last)[:, None], block.vote_shares(first, last), 1.0)
    return decide(shares, "split")


def known_rows(block: Block, first: int, last: int) -> FloatArray:
    """(items, n_classes) 1 for the known class of items with gold, else 0."""
    return block.with_gold(np.zeros((last - first, block.n_classes)), first, last)


def class_prior_settled(old: ConfusionModel, new: ConfusionModel) -> bool:
    return bool(np.abs(old.class_prior - new.class_prior).sum() <= HYBRID_SWITCH)


def accuracy_of_cells(final: Expectation, cells: Cells, prior: ConfusionPrior, class_prior: FloatArray) -> FloatArray:
    """(n_annotators,) probability of a right label, without the full confusion matrices."""
    on_cells = prior.on_cells(cells)
    totals = cells.sum_by_annotator(final.counts) + (0.0 if on_cells is None else on_cells.row)
    right = prior.right(cells.n_annotators)
    right[cells.annotator_of, cells.label_of] += final.counts[np.arange(cells.n_cells), cells.label_of]
    shares = np.where(totals > 0, right / np.where(totals > 0, totals, 1.0), 1.0 / cells.n_classes)
    return np.asarray((shares * class_prior).sum(axis=1))


def model_of_confusions(
    confusions: NDArray[Any],  # (n_annotators, true class, given label)
    class_prior: NDArray[Any],
    cells: Cells,
) -> ConfusionModel:
    """Take the entries that the cells need from full confusion matrices."""
    likelihood = np.asarray(confusions, dtype=np.float64)[cells.annotator_of, :, cells.label_of]
    return ConfusionModel(likelihood, np.asarray(class_prior, dtype=np.float64))

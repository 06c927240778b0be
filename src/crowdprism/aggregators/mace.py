"""MACE: annotators either know the class or answer from a habit of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.em import Expectation, FloatArray, climb_from_each
from crowdprism.aggregators.expectation import VotePass
from crowdprism.aggregators.sources import Cells
from crowdprism.annotations import Annotations
from crowdprism.parameters import Allowed, OneOf, Real
from crowdprism.results import FitResult
from crowdprism.results.confusion import confusions_fit
from crowdprism.seeding import stream

TINY = 1e-12  # keeps odds finite where an estimate reaches 0 or 1


@dataclass(frozen=True, eq=False)
class MaceModel:
    """Parameters of MACE, or under variational Bayes their geometric means (rows then sum to less than one)."""

    cells: Cells  # what the parameters belong to
    known: FloatArray  # (n_cells,) expected annotations from knowledge, which the parameters were estimated from
    knows: FloatArray  # (n_annotators,) probability that an annotator knows the class
    guesses: FloatArray  # (n_annotators,) or answers by habit
    habit: FloatArray  # (n_cells,) probability of the cell's label when answering by habit
    log_prior: float = 0.0  # what the priors add to the objective

    @property
    def class_prior(self) -> FloatArray:
        return np.full(self.cells.n_classes, 1.0 / self.cells.n_classes)

    @property
    def by_luck(self) -> FloatArray:  # (n_cells,) probability of the cell's label from habit
        return np.asarray(self.guesses[self.cells.annotator_of] * self.habit)

    @property
    def log_odds(self) -> FloatArray:
        """(n_cells,) log of P(label | its class is true) / P(label | another is)."""
        return np.log1p(self.knows[self.cells.annotator_of] / self.by_luck)

    @property
    def penalty(self) -> float:
        """The part of the log likelihood that all classes share (every label by habit), and that of the priors."""
        return float((self.cells.total * np.log(self.by_luck)).sum()) + self.log_prior

    def known_of(self, hits: FloatArray) -> FloatArray:
        """(n_cells,) annotations given from knowledge and not by luck, of those that are right."""
        knows = self.knows[self.cells.annotator_of]
        return np.asarray(hits * (knows / (knows + self.by_luck)))


@dataclass(frozen=True)
class MacePriors:
    """Pseudo-counts: of knowing, of guessing, and of each label in the habit."""

    knows: float
    guesses: float
    habit: float


@dataclass(frozen=True, eq=False)
class MaceCounts:
    """Expected counts and pseudo-counts: annotations from knowledge and from habit, and labels of the habit."""

    guessed: FloatArray  # (n_cells,) without pseudo-counts
    knows: FloatArray  # (n_annotators,)
    guesses: FloatArray  # (n_annotators,)
    habit: FloatArray  # (n_cells,)
    habit_sums: FloatArray  # (n_annotators,)


def counts_of(known: FloatArray, cells: Cells, priors: MacePriors) -> MaceCounts:
    """What both updates start from."""
    guessed = np.maximum(cells.total - known, 0.0)
    sums = cells.sum_by_annotator(guessed)
    knows = cells.sum_by_annotator(known) + priors.knows
    habit_sums = sums + cells.n_classes * priors.habit
    return MaceCounts(guessed, knows, sums + priors.guesses, guessed + priors.habit, habit_sums)


def maximize(known: FloatArray, cells: Cells, priors: MacePriors) -> MaceModel:
    """M step of EM: shares of expected counts and pseudo-counts (Hovy et al. 2013, with smoothing)."""
    counts = counts_of(known, cells, priors)
    share = np.clip(counts.knows / (counts.knows + counts.guesses), TINY, 1 - TINY)
    habit = np.maximum(counts.habit / counts.habit_sums[cells.annotator_of], TINY)
    unused = cells.n_classes - np.bincount(cells.annotator_of, minlength=cells.n_annotators)
    log_prior = priors.knows * np.log(share).sum() + priors.guesses * np.log1p(-share).sum()
    log_prior += priors.habit * (np.log(habit).sum() + (unused * np.log(priors.habit / counts.habit_sums)).sum())
    return MaceModel(cells, known, share, 1 - share, habit, float(log_prior))


def maximize_variational(known: FloatArray, cells: Cells, priors: MacePriors) -> MaceModel:
    """The same under variational Bayes: geometric means of the posteriors, and minus their divergences."""
    from scipy.special import betaln, digamma, gammaln

    counts = counts_of(known, cells, priors)
    knows, guesses, habit, habit_sums = counts.knows, counts.guesses, counts.habit, counts.habit_sums
    log_knows = digamma(knows) - digamma(knows + guesses)
    log_guesses = digamma(guesses) - digamma(knows + guesses)
    log_habit = digamma(habit) - digamma(habit_sums)[cells.annotator_of]
    divergence = (
        (betaln(priors.knows, priors.guesses) - betaln(knows, guesses)).sum()
        + ((knows - priors.knows) * log_knows + (guesses - priors.guesses) * log_guesses).sum()
        + (gammaln(habit_sums) - gammaln(cells.n_classes * priors.habit)).sum()
        + (gammaln(priors.habit) - gammaln(habit) + counts.guessed * log_habit).sum()
    )
    return MaceModel(cells, known, np.exp(log_knows), np.exp(log_guesses), np.exp(log_habit), -float(divergence))


@dataclass(eq=False, repr=False)
class MACE(Aggregator):
    """Estimate how often each annotator knows the class rather than answers by habit (Hovy et al. 2013).

    An annotator knows with a probability of their own, the competence; otherwise the label comes from their habit,
    a distribution over labels that does not depend on the item. Spammers are found whatever their habit.

    Parameters
    ----------
    inference
        `"vb"` (variational Bayes, the default of the paper) or `"em"` with the same pseudo-counts as smoothing.
    n_restarts
        Fits from different starts, of which the one with the highest objective stands. The first starts from
        majority vote, the others from random competences.
    max_iter, tolerance
        A fit ends after `max_iter` iterations, or when the objective gains less than `tolerance` per annotation.
    knowing_prior, guessing_prior
        Beta pseudo-counts of the competence.
    habit_prior
        Dirichlet pseudo-count of each label in the habit. The mean accuracy on fifteen public sets with gold is
        .8304 with 0.1, .8321 with 1 and .8290 with 10, the value of the paper.
    random_state
        Seed of the starts.

    Examples
    --------
    >>> result = MACE().fit([[0, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 0]]).result_
    >>> result.labels().tolist(), bool(result.skills[0] > result.skills[2])
    ([0, 1, 0, 1], True)
    """

    name: ClassVar[str] = "mace"
    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "inference": OneOf("vb", "em"),
        "knowing_prior": Real(0, above=True),
        "guessing_prior": Real(0, above=True),
        "habit_prior": Real(0, above=True),
    }
    inference: Literal["vb", "em"] = "vb"
    n_restarts: int = 10
    max_iter: int = 50
    tolerance: float = 1e-5
    knowing_prior: float = 0.5
    guessing_prior: float = 0.5
    habit_prior: float = 1.0
    random_state: int = 0

    def _aggregate(self, annotations: Annotations) -> FitResult:
        evidence = VotePass(annotations, by_cell=True, method="MACE")
        cells = evidence.cells
        assert cells is not None
        agreeing = evidence.count_votes().counts
        priors = MacePriors(self.knowing_prior, self.guessing_prior, self.habit_prior)
        update = maximize_variational if self.inference == "vb" else maximize
        starts = (update(self._start(agreeing, cells, restart), cells, priors) for restart in range(self.n_restarts))

        def improve(model: MaceModel, expectation: Expectation) -> MaceModel:
            return update(model.known_of(expectation.counts), cells, priors)

        limits: dict[str, Any] = {"max_iter": self.max_iter, "tolerance": self.tolerance}
        best, objectives = climb_from_each(evidence, starts, improve, title="MACE", n_starts=self.n_restarts, **limits)
        counts = counts_of(best.model.known, cells, priors)
        competence = counts.knows / (counts.knows + counts.guesses)
        return self._build_result(
            annotations,
            evidence.expect(best.model).kept,
            confusions=confusions_of_habits(competence, counts, cells, self.habit_prior),
            skills=competence,
            class_prior=best.model.class_prior,
            history={"objective": best.objective, "restarts": objectives},
            seed=self.random_state,
            warnings=best.notes("MACE"),
        )

    def _start(self, agreeing: FloatArray, cells: Cells, restart: int) -> FloatArray:
        """(n_cells,) expected annotations from knowledge, of those that agree with majority vote."""
        if restart == 0:
            return agreeing * 0.5  # half of what agrees with the vote may be luck
        competence = stream(self.random_state, "mace", restart).random(cells.n_annotators)
        return np.asarray(agreeing * competence[cells.annotator_of])


def confusions_of_habits(competence: FloatArray, counts: MaceCounts, cells: Cells, prior: float) -> FloatArray | None:
    """(n_annotators, true class, given label) knowledge on the diagonal, habit everywhere; None beyond memory."""
    n_classes = cells.n_classes
    if not confusions_fit(cells.n_annotators, n_classes):
        return None
    habits = np.full((cells.n_annotators, n_classes), float(prior))
    habits[cells.annotator_of, cells.label_of] += counts.guessed
    habits = habits / habits.sum(axis=1, keepdims=True)
    confusions = np.repeat(((1 - competence)[:, None] * habits)[:, None, :], n_classes, axis=1)
    confusions[:, np.arange(n_classes), np.arange(n_classes)] += competence[:, None]
    return confusions

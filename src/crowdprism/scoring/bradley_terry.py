"""Bradley-Terry with ties, an advantage of the left place, and judges of different reliability.

For a careful judge, with d = score(left) - score(right) + position:

    P(left) : P(right) : P(tie) = exp(d/2) : exp(-d/2) : tie            (Davidson 1970)

A judge is careful with probability `reliability`, and otherwise answers by habit: own shares of left and right, and the
crowd's share of ties, whatever is shown (as Chen et al. 2013 and crowd-kit's NoisyBradleyTerry). EM finds how likely
each answer was careful; the M step is Newton's method on counts per pair. Scores have a weak normal prior, so that an
item that always wins has a finite score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dtrtri

from crowdprism.aggregators.em import Climb, Expectation, FloatArray, climb
from crowdprism.annotations.pairs import sums_by
from crowdprism.scoring.comparisons import LEFT, RIGHT, SKIPPED, TIE, Comparisons
from crowdprism.scoring.known_winners import KnownWinners
from crowdprism.scoring.many_items import SparseInformation, sparse_quadratic

N_OUTCOMES = 3
MAX_KEYS_COUNTED = 2**24
DENSE_ITEMS = 5000  # the covariance of their scores takes 200 MB; of more items only variances are found
NEWTON_STEPS = 50
MAX_LOG_ODDS = 300.0
SETTLED = 1e-9  # Newton's gain of the objective, relative
TINY_PRECISION = 1e-4  # holds the share of ties where the data hardly tell it
POSITION_SPREAD = 0.5  # of the log odds of the left place: where an item always stands left, the item explains its wins
# Standard deviation of scores in the prior. In simulations with true spreads of 0.2 to 1.5, 95 % intervals hold the
# truth in 95 to 97 % of cases; a learned spread shrinks sparse items too far (89 to 93 %).
SPREAD = 2.5
# Pseudo-answers behind a judge's reliability and habits: judges are careful unless their answers say otherwise.
CAREFUL, CARELESS, HABIT = 5.0, 0.25, 1.0


@dataclass(frozen=True, eq=False)
class Pairs:
    """Comparisons put together: counts by pair and outcome, and rows by pair, outcome and judge."""

    left: NDArray[np.int64]  # (n_pairs,) in the order shown
    right: NDArray[np.int64]
    row_pair: NDArray[np.int64]  # (n_rows,)
    row_outcome: NDArray[np.int64]
    row_judge: NDArray[np.int64]
    row_count: FloatArray
    n_items: int
    n_judges: int
    has_ties: bool
    known: KnownWinners

    def marks(self) -> tuple[FloatArray, FloatArray]:
        """(n_judges,) each judge's answers on pairs whose outcome is known, and how many of them were right."""
        gold = self.known.of_pairs(self.left, self.right)[self.row_pair]
        answers, right = (self.row_count * one for one in (gold != SKIPPED, gold == self.row_outcome))
        return sums_by(self.row_judge, answers, self.n_judges), sums_by(self.row_judge, right, self.n_judges)

    def by_outcome(self, weight: FloatArray) -> FloatArray:
        key = self.row_pair * N_OUTCOMES + self.row_outcome
        return sums_by(key, weight, len(self.left) * N_OUTCOMES).reshape(-1, N_OUTCOMES)


def pairs_of(comparisons: Comparisons, *, with_judges: bool) -> Pairs:
    """Put equal comparisons together; without judges, whoever made them."""
    n_items = comparisons.n_items
    n_judges = comparisons.n_judges if with_judges else 1
    key = (comparisons.left.astype(np.int64) * n_items + comparisons.right) * N_OUTCOMES + comparisons.outcome
    if with_judges:
        key = key * n_judges + comparisons.judge
    if n_items**2 * N_OUTCOMES * n_judges <= MAX_KEYS_COUNTED:
        counts = np.bincount(key)
        row = np.flatnonzero(counts)
        count = counts[row]
    else:
        row, count = np.unique(key, return_counts=True)
    pair, row_pair = np.unique(row // (N_OUTCOMES * n_judges), return_inverse=True)
    return Pairs(
        left=pair // n_items,
        right=pair % n_items,
        row_pair=row_pair,
        row_outcome=row // n_judges % N_OUTCOMES,
        row_judge=row % n_judges,
        row_count=count.astype(np.float64),
        n_items=n_items,
        n_judges=n_judges,
        has_ties=bool((comparisons.outcome == TIE).any()),
        known=KnownWinners(*comparisons.known.T),
    )


@dataclass(frozen=True, eq=False)
class RankingModel:
    """Scores and what else decides an outcome: `theta` has the scores, the log odds of the left place and log `tie`."""

    theta: FloatArray  # (n_items + 2,)
    spread: float | None  # standard deviation of scores in the prior; None for maximum likelihood
    free_position: bool
    reliability: FloatArray | None = None  # (n_judges,) None where all are careful
    habit: FloatArray | None = None  # (n_judges, outcome)

    @property
    def penalty(self) -> float:
        """Log density of the priors, up to a constant."""
        density = -float((self.precision * self.theta**2).sum()) / 2
        if self.reliability is None or self.habit is None:
            return density
        density += float((CAREFUL * np.log(self.reliability) + CARELESS * np.log1p(-self.reliability)).sum())
        return density + HABIT * float(np.log(self.habit[:, :TIE]).sum())

    @property
    def precision(self) -> FloatArray:
        """(n_items + 2,) of the normal prior around 0."""
        score = 0.0 if self.spread is None else 1.0 / self.spread**2
        return np.concatenate([np.full(len(self.theta) - 2, score), [1 / POSITION_SPREAD**2, TINY_PRECISION]])

    @property
    def scores(self) -> FloatArray:
        return self.theta[:-2]


def outcome_probabilities(theta: FloatArray, pairs: Pairs) -> FloatArray:
    """(n_pairs, outcome) for a careful judge."""
    half = (theta[pairs.left] - theta[pairs.right] + theta[-2]) / 2
    left = np.exp(np.clip(half, -MAX_LOG_ODDS, MAX_LOG_ODDS))
    tie = float(np.exp(theta[-1])) if pairs.has_ties else 0.0
    right = 1 / left
    total = left + right + tie
    return np.stack([left / total, right / total, tie / total], axis=1)


def net(pairs: Pairs, values: FloatArray) -> FloatArray:
    """(n_items + 1,) sum of values by pair: + for the left item, - for the right one; last, + for the left place."""
    by_item = sums_by(pairs.left, values, pairs.n_items) - sums_by(pairs.right, values, pairs.n_items)
    return np.append(by_item, values.sum())


def quadratic(pairs: Pairs, by_d: FloatArray, cross: FloatArray, by_tie: float) -> Any:
    """(n_items + 2, n_items + 2) sum over pairs of second derivatives by d, by d and tie, and by tie."""
    size = pairs.n_items
    if size > DENSE_ITEMS:
        edges = np.stack([net(pairs, by_d), net(pairs, cross)], axis=1)
        return sparse_quadratic(pairs.left, pairs.right, by_d, edges, by_tie)
    table = np.zeros((size + 2, size + 2))
    between = sums_by(pairs.left * size + pairs.right, by_d, size * size).reshape(size, size)
    between = between + between.T
    table[:size, :size] = np.diag(between.sum(axis=1)) - between
    table[: size + 1, size] = table[size, : size + 1] = net(pairs, by_d)
    table[: size + 1, size + 1] = table[size + 1, : size + 1] = net(pairs, cross)
    table[size + 1, size + 1] = by_tie
    return table


def information(p: FloatArray, pairs: Pairs, weight: FloatArray) -> Any:
    """Expected information of careful answers about theta; weight (n_pairs,) is their number, p their probabilities."""
    ahead = p[:, LEFT] - p[:, RIGHT]
    by_d = weight * (p[:, LEFT] + p[:, RIGHT] - ahead**2) / 4
    return quadratic(pairs, by_d, -weight * ahead * p[:, TIE] / 2, float((weight * p[:, TIE] * (1 - p[:, TIE])).sum()))


def gradient(p: FloatArray, pairs: Pairs, counts: FloatArray) -> FloatArray:
    """Of the log likelihood of careful answers with probabilities p, counted by pair and outcome."""
    total = counts @ np.ones(N_OUTCOMES)
    by_d = ((counts[:, LEFT] - counts[:, RIGHT]) - total * (p[:, LEFT] - p[:, RIGHT])) / 2
    return np.append(net(pairs, by_d), (counts[:, TIE] - total * p[:, TIE]).sum())


def free_places(model: RankingModel, pairs: Pairs) -> NDArray[np.int64]:
    extra = [place for place, free in ((-2, model.free_position), (-1, pairs.has_ties)) if free]
    return np.array([*range(pairs.n_items), *(pairs.n_items + 2 + place for place in extra)])


def regular(table: Any, model: RankingModel, pairs: Pairs) -> Any:
    """The free part of an information matrix with its prior; without one, the mean of the scores is held at 0."""
    from scipy.sparse import diags_array

    free = free_places(model, pairs)
    if isinstance(table, SparseInformation):  # conjugate gradients from 0 hold the mean by themselves
        return (table + diags_array(model.precision, format="csr")).at(free)
    table = table + np.diag(model.precision)
    if model.spread is None:
        table[: pairs.n_items, : pairs.n_items] += 1.0 / pairs.n_items
    return table[np.ix_(free, free)]


def newton(model: RankingModel, pairs: Pairs, counts: FloatArray) -> FloatArray:
    """Theta at the maximum of the log posterior of careful answers, which is concave."""
    theta, precision, free = model.theta.copy(), model.precision, free_places(model, pairs)
    total, seen = counts @ np.ones(N_OUTCOMES), counts > 0
    weight = counts[seen]

    def look(at: FloatArray) -> tuple[FloatArray, float]:
        p = outcome_probabilities(at, pairs)
        # Sums of products instead of dot products, for which BLAS wakes threads that wait for each other.
        value = float((weight * np.log(p[seen])).sum() - (precision * at**2).sum() / 2)
        return p, value + pairs.known.log_density(at)

    p, value = look(theta)
    for _ in range(NEWTON_STEPS if model.reliability is None else 1):  # EM needs no more than a step uphill
        slope = (gradient(p, pairs, counts) + pairs.known.gradient(theta) - precision * theta)[free]
        step = np.zeros_like(theta)
        table = regular(information(p, pairs, total) + pairs.known.information(theta), model, pairs)
        step[free] = table.solve(slope) if isinstance(table, SparseInformation) else cho_solve(cho_factor(table), slope)
        p, following = look(theta + step)
        while following < value - SETTLED * abs(value):
            step /= 2
            p, following = look(theta + step)
        theta = theta + step
        if following - value <= SETTLED * max(abs(value), 1.0):
            return theta
        value = following
    return theta


class JudgedAnswers:
    """Comparisons as `em.climb` sees them: the E step tells how likely each answer was careful."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.total_weight = float(pairs.row_count.sum())

    def expect(self, model: RankingModel, *, keep: bool = True) -> Expectation:
        """`counts` holds, by row, the expected number of careful answers."""
        pairs = self.pairs
        probability = outcome_probabilities(model.theta, pairs)[pairs.row_pair, pairs.row_outcome]
        found = pairs.row_count
        if model.reliability is not None and model.habit is not None:
            right = model.reliability[pairs.row_judge] * probability
            wrong = (1 - model.reliability)[pairs.row_judge] * model.habit[pairs.row_judge, pairs.row_outcome]
            probability = right + wrong
            found = found * right / probability
        log_likelihood = float((pairs.row_count * np.log(probability)).sum()) + pairs.known.log_density(model.theta)
        return Expectation(log_likelihood, found, np.array([found.sum()]))


def habits(sides: FloatArray, pairs: Pairs) -> FloatArray:
    """(n_judges, outcome) answers by habit; ties come at the crowd's rate, or habits would explain all of them.

    One answer more, which is no tie, keeps sides possible where all answers are ties.
    """
    tie = float(pairs.row_count[pairs.row_outcome == TIE].sum() / (pairs.row_count.sum() + HABIT))
    return np.concatenate([sides * (1 - tie), np.full((len(sides), 1), tie)], axis=1)


def answer_probabilities(model: RankingModel, pairs: Pairs) -> FloatArray:
    """(n_rows, outcome) for the judge of each row, careful or not."""
    careful = outcome_probabilities(model.theta, pairs)[pairs.row_pair]
    if model.reliability is None or model.habit is None:
        return careful
    reliability = model.reliability[pairs.row_judge, None]
    return np.asarray(reliability * careful + (1 - reliability) * model.habit[pairs.row_judge])


def maximize(model: RankingModel, expectation: Expectation, pairs: Pairs) -> RankingModel:
    """M step: scores from careful answers, then each judge's reliability and habits."""
    theta = newton(model, pairs, pairs.by_outcome(expectation.counts))
    if model.reliability is None:
        return replace(model, theta=theta)
    careful = sums_by(pairs.row_judge, expectation.counts, pairs.n_judges)
    total = sums_by(pairs.row_judge, pairs.row_count, pairs.n_judges)
    reliability = (careful + CAREFUL) / (total + CAREFUL + CARELESS)
    key = pairs.row_judge * N_OUTCOMES + pairs.row_outcome
    careless = sums_by(key, pairs.row_count - expectation.counts, pairs.n_judges * N_OUTCOMES)
    sides: FloatArray = careless.reshape(-1, N_OUTCOMES)[:, :TIE] + HABIT
    sides /= sides.sum(axis=1, keepdims=True)
    return replace(model, theta=theta, reliability=reliability, habit=habits(sides, pairs))


def covariance(model: RankingModel, pairs: Pairs) -> Any:
    """(n_items + 2, n_items + 2) of theta, or of many items its diagonal; 0 for what was not estimated.

    Information of careful answers, less what is lost by not knowing which they were (Louis 1982).
    """
    found = JudgedAnswers(pairs).expect(model)
    careful = found.counts / pairs.row_count
    by_pair = sums_by(pairs.row_pair, found.counts, len(pairs.left))
    table = information(outcome_probabilities(model.theta, pairs), pairs, by_pair)
    table = table + pairs.known.information(model.theta)
    free, sparse = free_places(model, pairs), isinstance(table, SparseInformation)
    if model.reliability is not None:
        lost, shared = _lost(model, pairs, careful)
        table = SparseInformation(table.table - lost.table, shared) if sparse else table - (lost + shared @ shared.T)
    if sparse:
        variances = np.zeros(pairs.n_items + 2)
        variances[free] = regular(table, model, pairs).variances(pairs.n_items)
        return variances
    inverse = _inverse(regular(table, model, pairs))
    if model.spread is None:  # the mean is not uncertain: it was set
        inverse[: pairs.n_items, : pairs.n_items] -= 1.0 / pairs.n_items
    whole = np.zeros_like(table)
    whole[np.ix_(free, free)] = inverse
    return whole


def _inverse(table: FloatArray) -> FloatArray:
    """Of an information matrix; where more was lost than is left, by rounding, the nearest one that has an inverse."""
    try:
        root = np.triu(dtrtri(cho_factor(table)[0])[0])
        return np.asarray(root @ root.T)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(table)
        return np.asarray((vectors / np.maximum(values, TINY_PRECISION)) @ vectors.T)


def _lost(model: RankingModel, pairs: Pairs, careful: FloatArray) -> tuple[Any, Any]:
    """Information about theta lost by not knowing who was careful when; and (n_items + 2, judge) lost squares."""
    from scipy.sparse import coo_array

    assert model.reliability is not None
    p = outcome_probabilities(model.theta, pairs)[pairs.row_pair]
    by_d = np.array([0.5, -0.5, 0.0])[pairs.row_outcome] - (p[:, LEFT] - p[:, RIGHT]) / 2
    by_tie = (pairs.row_outcome == TIE) - p[:, TIE]
    doubt = pairs.row_count * careful * (1 - careful)
    squares, cross = (sums_by(pairs.row_pair, doubt * by_d * by, len(pairs.left)) for by in (by_d, by_tie))
    table = quadratic(pairs, squares, cross, float((doubt * by_tie**2).sum()))
    total = sums_by(pairs.row_judge, pairs.row_count, pairs.n_judges) + CAREFUL + CARELESS
    own = total * model.reliability * (1 - model.reliability) - sums_by(pairs.row_judge, doubt, pairs.n_judges)
    size, judge = pairs.n_items, pairs.row_judge
    known = np.where(own > TINY_PRECISION * total, own, np.inf)
    ends = [one[pairs.row_pair] for one in (pairs.left, pairs.right)]
    ends += [np.full_like(judge, place) for place in (size, size + 1)]
    values = np.concatenate([by_d, -by_d, by_d, by_tie]) * np.tile(doubt / np.sqrt(known)[judge], 4)
    shared = coo_array((values, (np.concatenate(ends), np.tile(judge, 4))), shape=(size + 2, pairs.n_judges)).tocsr()
    return table, shared if size > DENSE_ITEMS else shared.toarray()


def fit_pairs(
    pairs: Pairs, *, position_bias: bool, with_judges: bool, prior: bool, max_iter: int = 100
) -> tuple[Climb[RankingModel], FloatArray]:
    """Climb to the scores; returns the climb and the covariance of theta."""
    model = RankingModel(np.zeros(pairs.n_items + 2), SPREAD if prior else None, position_bias)
    if with_judges:
        answers, right = pairs.marks()
        start = (right + CAREFUL) / (answers + CAREFUL + CARELESS)
        model = replace(model, reliability=start, habit=habits(np.full((pairs.n_judges, 2), 0.5), pairs))
    n_steps = max_iter if with_judges else 1
    run = climb(JudgedAnswers(pairs), model, partial(maximize, pairs=pairs), title="Bradley-Terry", max_iter=n_steps)
    return run, covariance(run.model, pairs)

"""`rank`: from comparisons of two items to a ranking with intervals, and what can be said about it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.em import FloatArray
from crowdprism.annotations.frames import frame_of_columns
from crowdprism.annotations.names import NameArray, known_positions, plain
from crowdprism.annotations.pairs import sums_by
from crowdprism.errors import IdentifiabilityWarning, InvalidParameterError, some
from crowdprism.results.intervals import Estimate, beta_interval, require_level
from crowdprism.scoring.bradley_terry import Pairs, RankingModel, answer_probabilities, fit_pairs, pairs_of
from crowdprism.scoring.comparisons import LEFT, NOBODY, RIGHT, TIE, Comparisons
from crowdprism.scoring.known_winners import KnownWinners

LEVEL = 0.95
ROWS_AT_ONCE = 1000
MIN_JUDGES = 2
SURPRISING = 3.0  # standard deviations between votes and ranking from which on a pair is listed
LEAST_VARIANCE = 1e-12
LOGISTIC = np.pi / 8  # of the normal approximation to the logistic curve, for probabilities under uncertainty


@dataclass(frozen=True)
class Difference:
    """Whether two items really differ: score(first) - score(second) with its interval."""

    first: Any
    second: Any
    value: float
    low: float
    high: float
    probability: float  # that the first is better
    win_probability: float  # that a careful judge prefers the first, ties left out

    @property
    def clear(self) -> bool:
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        better, worse = (self.first, self.second) if self.value >= 0 else (self.second, self.first)
        sure, wins = max(self.probability, 1 - self.probability), max(self.win_probability, 1 - self.win_probability)
        verdict = f"{better} is better than {worse}" if self.clear else f"{better} and {worse} cannot be told apart yet"
        return f"{verdict}: {better} is better with probability {sure:.1%} and wins {wins:.0%} of comparisons."


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores of items with intervals, from comparisons. Arrays are in the order of `items`; `order` has the best first.

    Attributes
    ----------
    scores, covariance
        (n_items,) log strengths with mean 0, and their covariance: P(i beats j) = 1 / (1 + exp(score_j - score_i)). Of
        more than 5,000 items only the variances (n_items,) are found, and scores are taken as independent.
    component
        (n_items,) items of different components were never compared, not even through others.
    compared, wins
        (n_items,) comparisons of the item, and how many it won; a tie is half a win.
    position
        How often the left place wins between equal items, ties left out; None if not estimated.
    tie_share
        Share of ties between equal items.
    judges, judge_counts, reliability, left_share, agreement
        Judges, their comparisons, the probability that an answer was careful, how often each preferred the left item,
        and how often the item that each preferred is the one with the higher score.
    known_answers, known_right
        (n_judges,) each judge's answers on pairs whose winner is known, and how many of them named it.
    gold_accuracy
        How often a ranking that did not see gold puts the known winner first; None without gold.
    surprises
        Pairs whose votes contradict the ranking: first, second, wins of the first, comparisons, standard deviations.
    groups
        A ranking for each group of judges.
    """

    items: NameArray
    scores: FloatArray
    covariance: FloatArray = field(repr=False)
    component: NDArray[Any]
    compared: NDArray[Any]
    wins: FloatArray
    n_comparisons: int
    tie_share: float
    position: Estimate | None
    judges: NameArray
    judge_counts: NDArray[Any]
    reliability: FloatArray | None
    left_share: FloatArray
    agreement: FloatArray
    known_answers: NDArray[Any]
    known_right: NDArray[Any]
    gold_accuracy: Estimate | None = None
    surprises: tuple[tuple[Any, Any, float, int, float], ...] = ()
    groups: Mapping[Any, Ranking] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def order(self) -> NDArray[np.int64]:
        """(n_items,) positions of the items, best first; equal scores in the order of names."""
        return np.argsort(-self.scores, kind="stable")

    def interval(self, level: float = LEVEL) -> FloatArray:
        """(n_items, 2) interval of each score."""
        half = normal_quantile(level) * np.sqrt(self.variance)
        return np.stack([self.scores - half, self.scores + half], axis=1)

    def rank_interval(self, level: float = LEVEL) -> NDArray[np.int64]:
        """(n_items, 2) best and worst place of each item that its differences to the others leave open."""
        found, limit = np.empty((len(self.items), 2), dtype=np.int64), normal_quantile(level)
        for first in range(0, len(found), ROWS_AT_ONCE):
            rows = np.arange(first, min(first + ROWS_AT_ONCE, len(found)))
            gap, error = self._differences(rows, slice(None))
            clear = np.abs(gap) > limit * error
            found[rows, 0] = 1 + (clear & (gap < 0)).sum(axis=1)
            found[rows, 1] = len(found) - (clear & (gap > 0)).sum(axis=1)
        return found

    def win_probabilities(self, among: Any = slice(None)) -> FloatArray:
        """(n_items, n_items) probability that the item of the row wins, ties left out; averaged over the scores."""
        gap, error = self._differences(among, among)
        return np.asarray(1 / (1 + np.exp(-gap / np.sqrt(1 + LOGISTIC * error**2))))

    def difference(self, first: Any, second: Any, level: float = LEVEL) -> Difference:
        """Tell whether two items really differ.

        Examples
        --------
        >>> print(rank(["x"] * 9, ["y"] * 9, ["x"] * 8 + ["y"]).difference("x", "y"))
        x and y cannot be told apart yet: x is better with probability 96.1% and wins 83% of comparisons.
        """
        from scipy.special import ndtr

        place = known_positions(self.items, [first, second], "items")
        gap, error = (table[0, 1] for table in self._differences(place, place))
        half = normal_quantile(level) * error
        interval = (float(gap), float(gap - half), float(gap + half))
        probability = float(ndtr(gap / error)) if error > 0 else 0.5
        return Difference(first, second, *interval, probability, float(self.win_probabilities(place)[0, 1]))

    def pairs_to_ask(self, n: int = 10) -> list[tuple[Any, Any, float]]:
        """Pairs to compare next, each as if those before it were answered: names and how much is learned, in nats."""
        among = np.arange(len(self.items))
        cov = self.covariance.copy()
        if cov.ndim == 1:  # of so many items, those that are least known
            among = np.sort(np.argsort(-cov, kind="stable")[:ROWS_AT_ONCE])
            cov = np.diag(cov[among])
        gap = self.scores[among, None] - self.scores[among]
        answer = 1 / (2 + 2 * np.cosh(gap))  # information of one comparison about a difference
        names, open_ = self.items[among].tolist(), np.triu(np.ones_like(gap, dtype=bool), 1)
        chosen = []
        for _ in range(min(n, len(among) * (len(among) - 1) // 2)):
            variance = np.diag(cov)[:, None] + np.diag(cov)[None] - 2 * cov
            gain = np.where(open_, np.log1p(answer * variance) / 2, -1.0)
            one, other = np.unravel_index(int(np.argmax(gain)), gain.shape)
            open_[one, other] = False
            chosen.append((names[one], names[other], float(gain[one, other])))
            column = cov[:, one] - cov[:, other]
            cov -= np.outer(column, column) * answer[one, other] / (1 + answer[one, other] * variance[one, other])
        return chosen

    def differing_items(self, level: float = LEVEL) -> list[tuple[Any, Any, float, float]]:
        """Items that a group of judges scores unlike all others (Bonferroni): item, group, difference, its error."""
        found = []
        n_tests = max(len(self.items) * len(self.groups), 1)
        limit = normal_quantile(1 - (1 - level) / n_tests)
        for name, ranking in self.groups.items():
            others = [one for other, one in self.groups.items() if other != name]
            weight = np.array([1 / np.maximum(one.variance, 1e-9) for one in others])
            rest = (weight * [one.scores for one in others]).sum(axis=0) / weight.sum(axis=0)
            gap = ranking.scores - rest
            error = np.sqrt(ranking.variance + 1 / weight.sum(axis=0))
            for at in np.flatnonzero(np.abs(gap) > limit * error):
                found.append((plain(self.items[at]), name, float(gap[at]), float(error[at])))
        return sorted(found, key=lambda row: -abs(row[2]))

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per item, best first: rank, item, score with its 95 % interval, comparisons, wins, component."""
        return frame_of_columns(self.columns(), kind)

    def columns(self) -> dict[str, Any]:
        (low, high), (first, last) = self.interval().T, self.rank_interval().T
        columns = {"item": self.items, "score": self.scores, "low": low, "high": high, "rank_low": first}
        columns |= {"rank_high": last, "comparisons": self.compared, "wins": self.wins}
        columns |= {"component": self.component} if self.component.any() else {}
        by_rank = {name: values[self.order] for name, values in columns.items()}
        return {"rank": np.arange(1, len(self.items) + 1), **by_rank}

    @property
    def variance(self) -> FloatArray:
        """(n_items,) of the scores."""
        return self.covariance if self.covariance.ndim == 1 else np.diag(self.covariance)

    def _differences(self, rows: Any, columns: Any) -> tuple[FloatArray, FloatArray]:
        """(row, column) score of an item of the rows minus one of the columns, and its standard error."""
        squares = self.variance[rows][:, None] + self.variance[columns]
        if self.covariance.ndim == 2:
            squares = squares - 2 * self.covariance[rows][:, columns]
        return self.scores[rows][:, None] - self.scores[columns], np.sqrt(np.maximum(squares, 0.0))

    def __repr__(self) -> str:
        best = some(self.items[self.order].tolist())
        return f"Ranking({len(self.items)} items from {self.n_comparisons} comparisons; best first: {best})"


def normal_quantile(level: float) -> float:
    """Half width, in standard errors, of a central interval."""
    from scipy.special import ndtri

    require_level(level)
    return float(ndtri((1 + level) / 2))


def rank(
    left: Any,
    right: Any = None,
    winner: Any = None,
    judge: Any = None,
    *,
    group: Any = None,
    gold: Any = None,
    position_bias: bool = True,
    reliability: bool | None = None,
    prior: bool = True,
) -> Ranking:
    """Rank items by comparisons of two (Bradley-Terry with ties, position bias and reliability of judges).

    Parameters
    ----------
    left, right, winner, judge, group, gold
        Columns as in `Comparisons.from_columns`; or `left` alone: `Comparisons`, a file or files, or a data frame.
    position_bias
        Estimate by how much the left place is preferred.
    reliability
        Estimate how careful each judge is; by default if at least two judges are named.
    prior
        Hold scores by a weak normal prior. False gives plain maximum likelihood, which does not exist where an item
        always wins.

    Examples
    --------
    >>> rank(["x", "y", "z", "x"], ["y", "z", "x", "z"], ["x", "y", "x", "tie"])
    Ranking(3 items from 4 comparisons; best first: 'x', 'y', 'z')
    """
    if right is None and not isinstance(left, Comparisons):
        from crowdprism.formats.comparison_files import read_comparisons

        found = read_comparisons(left, judge=judge, group=group, gold=gold)
        data, position_bias = Comparisons.from_columns(**found.columns), position_bias and found.knows_position
    elif isinstance(left, Comparisons):
        data = left
    else:
        data = Comparisons.from_columns(left, right, winner, judge, group=group, gold=gold)
    with_judges = data.n_judges >= MIN_JUDGES if reliability is None else reliability and list(data.judges) != [NOBODY]
    options: dict[str, Any] = {"position_bias": position_bias, "with_judges": with_judges, "prior": prior}
    groups = {}
    if data.groups is not None and data.group is not None:
        with warnings.catch_warnings():  # a group need not have seen every item
            warnings.simplefilter("ignore", IdentifiabilityWarning)
            names, blind = enumerate(data.groups.tolist()), replace(data, known=data.known[:0])
            groups = {name: _rank(blind.select(data.group == at), options) for at, name in names}
    return _rank(data, options, groups)


def _rank(data: Comparisons, options: Mapping[str, Any], groups: Mapping[Any, Ranking] | None = None) -> Ranking:
    pairs = pairs_of(data, with_judges=options["with_judges"])
    component, said = _connect(pairs, data.items, prior=options["prior"])
    run, errors = fit_pairs(pairs, **options)
    model, size = run.model, data.n_items
    if errors.ndim == 1:
        scores_error, place_error = errors[:size], errors[-2]
    else:
        scores_error, place_error = errors[:size, :size], errors[-2, -2]
        scores_error = scores_error - scores_error.mean(axis=0)  # of scores whose mean is 0
        scores_error = scores_error - scores_error.mean(axis=1, keepdims=True)
    half_width = normal_quantile(LEVEL) * float(np.sqrt(place_error))
    left_wins, low, high = (1 / (1 + np.exp(-model.theta[-2] - half_width * np.array([0.0, -1.0, 1.0])))).tolist()
    counts = pairs.by_outcome(pairs.row_count)
    judged = pairs if pairs.n_judges == data.n_judges else pairs_of(data, with_judges=True)
    ahead = np.sign(model.scores[judged.left] - model.scores[judged.right])[judged.row_pair]
    preferred = np.array([1, -1, 0])[judged.row_outcome]  # the left item, the right one, or none
    known_answers, known_right = judged.marks()
    return Ranking(
        items=data.items,
        scores=model.scores - model.scores.mean(),
        covariance=scores_error,
        component=component,
        compared=_by_item(pairs, counts.sum(axis=1), counts.sum(axis=1)).astype(np.int64),
        wins=_by_item(pairs, counts[:, LEFT] + counts[:, TIE] / 2, counts[:, RIGHT] + counts[:, TIE] / 2),
        n_comparisons=len(data),
        tie_share=float(1 / (1 + 2 * np.exp(-model.theta[-1]))) if pairs.has_ties else 0.0,
        position=Estimate(left_wins, low, high, LEVEL) if options["position_bias"] else None,
        judges=data.judges,
        judge_counts=sums_by(judged.row_judge, judged.row_count, data.n_judges).astype(np.int64),
        reliability=model.reliability,
        left_share=_share(judged, preferred != 0, preferred > 0),
        agreement=_share(judged, preferred != 0, preferred * ahead > 0),
        known_answers=known_answers.astype(np.int64),
        known_right=known_right.astype(np.int64),
        gold_accuracy=_gold_accuracy(pairs, options),
        surprises=_surprises(pairs, counts, model, data.items.tolist()),
        groups=groups or {},
        warnings=(*said, *run.notes("rank")),
    )


def _gold_accuracy(pairs: Pairs, options: Mapping[str, Any]) -> Estimate | None:
    """How often scores from a fit that does not see gold put the known winner first."""
    if not (pairs.known.outcome != TIE).any():
        return None
    blind = replace(pairs, known=KnownWinners(*np.empty((3, 0), dtype=np.int64)))
    right, total = pairs.known.n_ordered(fit_pairs(blind, **options)[0].model.scores)
    low, high = beta_interval(right + 0.5, total - right + 0.5, level=LEVEL).tolist()
    return Estimate(right / total, low, high, LEVEL)


def _by_item(pairs: Pairs, left: FloatArray, right: FloatArray) -> FloatArray:
    return sums_by(pairs.left, left, pairs.n_items) + sums_by(pairs.right, right, pairs.n_items)


def _share(judged: Pairs, counted: NDArray[Any], yes: NDArray[Any]) -> FloatArray:
    """(n_judges,) share of the rows' answers that are, of those that count."""
    total, found = (sums_by(judged.row_judge, judged.row_count * one, judged.n_judges) for one in (counted, yes))
    return np.where(total > 0, found / np.maximum(total, 1), np.nan)


def _connect(pairs: Pairs, items: NameArray, *, prior: bool) -> tuple[NDArray[Any], tuple[str, ...]]:
    """The component of each item, and a warning where there are several."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    counts = pairs.by_outcome(pairs.row_count)
    won = np.concatenate([counts[:, LEFT] + counts[:, TIE], counts[:, RIGHT] + counts[:, TIE]])
    ends = np.concatenate([pairs.left, pairs.right]), np.concatenate([pairs.right, pairs.left])
    graph = coo_array((won, ends), shape=(pairs.n_items,) * 2).tocsr()
    graph.eliminate_zeros()
    n_parts, component = connected_components(graph, connection="weak")
    if not prior and connected_components(graph, connection="strong")[0] > 1:
        raise InvalidParameterError(
            "Without a prior the scores do not exist: some items always win or always lose against all others.",
            parameter="prior",
            remedy="Pass {prior:True}.",
        )
    if n_parts == 1:
        return component, ()
    first = [items[int(np.argmax(component == part))] for part in range(n_parts)]
    message = (
        f"The items form {n_parts} groups that were never compared with each other (one with {some(first)}): ranks "
        "across groups mean nothing. Compare items of different groups; `pairs_to_ask` names some."
    )
    warnings.warn(message, IdentifiabilityWarning, stacklevel=4)
    return component, (message,)


def _surprises(
    pairs: Pairs, counts: FloatArray, model: RankingModel, names: list[Any]
) -> tuple[tuple[Any, Any, float, int, float], ...]:
    """Pairs whose votes are far from what the model expects, both orders put together; the largest first."""
    p = answer_probabilities(model, pairs)
    net, total = p[:, LEFT] - p[:, RIGHT], counts.sum(axis=1)
    expected = sums_by(pairs.row_pair, pairs.row_count * net, len(total))
    spread = sums_by(pairs.row_pair, pairs.row_count * (p[:, LEFT] + p[:, RIGHT] - net**2), len(total))
    low, high = np.minimum(pairs.left, pairs.right), np.maximum(pairs.left, pairs.right)
    ahead = pairs.left == low
    gap = (counts[:, LEFT] - counts[:, RIGHT] - expected) * np.where(ahead, 1.0, -1.0)
    won = np.where(ahead, counts[:, LEFT], counts[:, RIGHT]) + counts[:, TIE] / 2
    key, place = np.unique(low * pairs.n_items + high, return_inverse=True)
    z = sums_by(place, gap, len(key)) / np.sqrt(np.maximum(sums_by(place, spread, len(key)), LEAST_VARIANCE))
    won, total = sums_by(place, won, len(key)), sums_by(place, total, len(key))
    far = np.flatnonzero(np.abs(z) > SURPRISING)
    listed = far[np.argsort(-np.abs(z[far]), kind="stable")].tolist()
    ends = [(names[key[at] // pairs.n_items], names[key[at] % pairs.n_items]) for at in listed]
    return tuple((*end, float(won[at]), int(total[at]), float(z[at])) for end, at in zip(ends, listed, strict=True))

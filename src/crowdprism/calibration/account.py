"""The honest account of a result: how likely each label is right, how right all are, how accurate each annotator is."""

from __future__ import annotations

import warnings
from contextlib import suppress
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators import AGGREGATORS, make_aggregator
from crowdprism.aggregators.dawid_skene import DawidSkene
from crowdprism.annotations import Annotations
from crowdprism.calibration.outside_view import Family, FloatArray, U, expit, outside_view, share_of_rest
from crowdprism.errors import CrowdprismError, CrowdprismWarning, UnsuitableDataError
from crowdprism.results import FitResult
from crowdprism.results.intervals import ANNOTATOR_LEVEL, Account, Estimate

SCORES = np.linspace(-12.0, 12.0, 481)  # grid of scores on which probabilities are tabulated
SCORE_STEP = float(SCORES[1] - SCORES[0])
N_NODES = 31  # points that stand for the distribution of u where every annotator has an own mean
OWN_DEVIATION = 0.062  # sd of an accuracy on gold around its forecast, beyond sampling (benchmarks/honesty.py)
SHRINKAGE = 2.0  # labels' worth of pull towards the crowd's mean accuracy
LEVEL = 0.9
N_HALVINGS = 30  # of the range in which a quantile is searched
ROWS_AT_ONCE = 2**14  # annotators whose quantiles are searched together
TINY = 1e-300
N_ADVISED = 40  # answers of an audit by default; what so many would tell is stated with every account


class Forecast(NamedTuple):
    """What is known of the rightness of labels."""

    scores: FloatArray  # (n_items,) log odds of being right at u = 0 (see `outside_view`)
    weights: FloatArray  # (len(U),) probability of each u, after the gold answers


def make_account(
    annotations: Annotations,
    labels: NDArray[np.integer],
    reference: FloatArray,
    *,
    family: Family = "labels",
    gold: NDArray[np.integer] | None = None,
    blind: NDArray[np.integer] | None = None,
    own: bool = False,
    level: float = LEVEL,
) -> Account:
    """Forecast how right labels and annotators are; the annotators when they are first asked for.

    Parameters
    ----------
    labels
        (n_items,) the stated label of each item, as class codes.
    reference
        (n_items, n_classes) posterior of the reference model, which was not fitted to gold.
    gold
        (n_items,) known true classes, -1 where unknown.
    blind
        (n_items,) labels of a fit without gold, where the stated ones were fitted to it: labels that saw the gold
        answers are no evidence of how right the others are.
    own
        Whether the labels are the reference model's own, perhaps after it saw the gold.
    """
    known = np.zeros(len(labels), dtype=bool) if gold is None else gold >= 0
    known_right = known if gold is None else known & (labels == gold)
    judged = labels if blind is None else np.where(known, blind, labels)
    forecast = make_forecast(annotations, judged, reference, family=family, gold=gold, own=own)
    confidence = np.where(known, known_right, average_over_u(forecast.scores, forecast.weights))
    counted = (annotations.labels_per_item > 0) & ~known
    scores, n_known, n_right = forecast.scores[counted], int(known.sum()), int(known_right.sum())
    n_more = min(N_ADVISED, len(scores))
    return Account(
        confidence=confidence,
        expected_accuracy=expected_share(scores, forecast.weights, n_known=n_known, n_right=n_right, level=level),
        annotators=partial(annotator_accuracy, annotations, labels, forecast, reference, gold=gold),
        n_gold=n_known,
        n_more=n_more,
        half_width_after=half_width_after(scores, forecast.weights, n_more, n_known=n_known, level=level),
    )


def make_forecast(
    annotations: Annotations,
    labels: NDArray[np.integer],
    reference: FloatArray,
    *,
    family: Family = "labels",
    gold: NDArray[np.integer] | None = None,
    own: bool = False,
) -> Forecast:
    """Scores of the labels, and the distribution of u. Crowds without two labels on any item have one score for all."""
    single = not (annotations.labels_per_item > 1).any()
    view = outside_view("single" if single else family)
    scores = np.full(len(labels), view.intercept) if single else view.scores(reference, labels, own=own)
    if gold is None or not (gold >= 0).any():
        return Forecast(scores, view.prior())
    known = gold >= 0
    return Forecast(scores, view.posterior(scores[known], labels[known] == gold[known]))


def prediction_confidence(class_probabilities: FloatArray) -> FloatArray:
    """(n_items,) how likely predictions for new items are right, by the outside view of the probabilities."""
    view = outside_view("predictions")
    scores = view.scores(class_probabilities, class_probabilities.argmax(axis=1), own=True)
    return average_over_u(scores, view.prior())


def average_over_u(scores: FloatArray, weights: FloatArray) -> FloatArray:
    """Probability of being right for each score; by a fine table, so that the cost is linear in the items."""
    return np.asarray(np.interp(scores, SCORES, expit(SCORES[:, None] + U) @ weights))


def expected_share(
    scores: FloatArray, weights: FloatArray, *, n_known: int = 0, n_right: int = 0, level: float = LEVEL
) -> Estimate:
    """The share of right labels among items with these scores and `n_known` others, of which `n_right` are right.

    Two errors are joined as if independent: u is unknown, and so is the luck of each item.
    """
    n = max(len(scores) + n_known, 1)
    by_u = (np.bincount(_cell(scores), minlength=len(SCORES)) @ expit(SCORES[:, None] + U) + n_right) / n
    value = float(by_u @ weights)
    tail = (1 - level) / 2
    low, high = _quantiles(by_u, weights, (tail, 1 - tail))
    luck = NormalDist().inv_cdf(1 - tail) * float(np.sqrt(value * (1 - value) * len(scores)) / n)
    low, high = value - float(np.hypot(value - low, luck)), value + float(np.hypot(high - value, luck))
    return Estimate(value, max(low, 0.0), min(high, 1.0), level)


def half_width_after(
    scores: FloatArray, weights: FloatArray, n_answers: int, *, n_known: int = 0, level: float = LEVEL
) -> float:
    """Half the width that `expected_share` will have after so many more answers on random items, on average over u."""
    if not len(scores):
        return 0.0
    share = np.bincount(_cell(scores), minlength=len(SCORES)) / len(scores)
    odds = SCORES[:, None] + U
    log_right, log_wrong = -np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds)
    n_open, n = len(scores) - n_answers, len(scores) + n_known
    by_u, tail = share @ expit(odds), (1 - level) / 2
    widths = []
    for u in _nodes(weights)[0]:
        right = share * expit(SCORES + u)
        log_weight = np.log(np.maximum(weights, TINY)) + n_answers * (right @ log_right + (share - right) @ log_wrong)
        after = np.exp(log_weight - log_weight.max())
        low, high = _quantiles(by_u, after / after.sum(), (tail, 1 - tail))
        luck = NormalDist().inv_cdf(1 - tail) * np.sqrt(right.sum() * (1 - right.sum()) * n_open) / n
        widths.append(np.hypot((high - low) / 2 * n_open / n, luck))
    return float(np.mean(widths))


def _cell(scores: FloatArray) -> NDArray[np.int64]:
    place = (np.clip(scores, SCORES[0], SCORES[-1]) - SCORES[0]) / SCORE_STEP
    return np.asarray(np.rint(place), dtype=np.int64)


def _quantiles(values: FloatArray, weights: FloatArray, levels: tuple[float, ...]) -> FloatArray:
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return np.asarray(np.interp(levels, below, values[order]))


def annotator_accuracy(
    annotations: Annotations,
    labels: NDArray[np.integer],
    forecast: Forecast,
    reference: FloatArray,
    *,
    gold: NDArray[np.integer] | None = None,
    level: float = ANNOTATOR_LEVEL,
) -> tuple[FloatArray, FloatArray]:
    """How often each annotator is right on the items they labelled, and the interval of that.

    A label equal to the stated one is right as often as that is; another label is right with its share of what is left:
    half by the reference model, half evenly. Known truths are counted as such. Three errors make the interval: u, the
    luck of few labels, and the annotator's own deviation from the forecast.
    """
    node, weight = _nodes(forecast.weights)
    right = _right_by_node(annotations, labels, forecast, reference, gold, node)  # (n_annotators, nodes)
    n_labels = annotations.labels_per_annotator.astype(np.float64)
    crowd = right.sum(axis=0) / max(n_labels.sum(), 1.0)
    mean = (right + SHRINKAGE * crowd) / (n_labels + SHRINKAGE)[:, None]
    value = mean @ weight
    spread = np.sqrt(value * (1 - value) / (n_labels + SHRINKAGE) + OWN_DEVIATION**2)
    interval = np.clip(_mixture_interval(mean, weight, spread, level), 0.0, 1.0)
    return np.where(n_labels > 0, value, np.nan), interval


def _nodes(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A few points of equal probability that stand for the distribution of u."""
    below = np.cumsum(weights) - weights / 2
    return np.interp((np.arange(N_NODES) + 0.5) / N_NODES, below, U), np.full(N_NODES, 1.0 / N_NODES)


def _right_by_node(
    annotations: Annotations,
    labels: NDArray[np.integer],
    forecast: Forecast,
    reference: FloatArray,
    gold: NDArray[np.integer] | None,
    node: FloatArray,
) -> FloatArray:
    """(n_annotators, nodes) expected number of right labels for each u."""
    from scipy.sparse import csr_array

    item, annotator, label = annotations.item, annotations.annotator, annotations.label
    known = np.zeros(annotations.n_items, dtype=bool) if gold is None else gold >= 0
    open_item = ~known[item]
    agrees = label == labels[item]
    share = share_of_rest(reference, labels, item, label)
    cell = _cell(forecast.scores)[item]
    probability = expit(SCORES[:, None] + node)
    shape = (annotations.n_annotators, len(SCORES))

    def by_annotator(which: NDArray[np.bool_], value: FloatArray) -> Any:
        return csr_array((value[which], (annotator[which], cell[which])), shape=shape)

    right = by_annotator(open_item & agrees, np.ones(len(item))) @ probability
    right += by_annotator(open_item & ~agrees, share) @ (1.0 - probability)
    if gold is not None:
        is_right = (~open_item) & (label == gold[item])
        right += np.bincount(annotator[is_right], minlength=annotations.n_annotators)[:, None]
    return np.asarray(right)


def _mixture_interval(mean: FloatArray, weight: FloatArray, spread: FloatArray, level: float) -> FloatArray:
    """(n, 2) central interval of mixtures of normal distributions with means (n, nodes); by bisection."""
    from scipy.special import ndtr

    found = np.empty((len(mean), 2))
    for first in range(0, len(mean), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        for side, tail in enumerate(((1 - level) / 2, (1 + level) / 2)):
            low, high = np.full(len(mean[rows]), -1.0), np.full(len(mean[rows]), 2.0)
            for _ in range(N_HALVINGS):
                middle = (low + high) / 2
                below = ndtr((middle[:, None] - mean[rows]) / spread[rows, None]) @ weight < tail
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            found[rows, side] = (low + high) / 2
    return found


def account_of(result: FitResult, annotations: Annotations) -> Account:
    """The account of a result that was learned from these annotations.

    The reference model is the default Dawid-Skene without gold. A result of it is its own reference, and so is that of
    a classifier or of data too large for Dawid-Skene. Where the result was fitted to gold, how right it is follows from
    the fit without gold.
    """
    gold = None if annotations.gold is None else np.ma.filled(annotations.gold, -1)
    labels = np.argmax(result.class_probabilities, axis=1)
    blind = result.blind
    reference, own = blind.class_probabilities, blind.method == result.method
    defaults = DawidSkene(use_gold=False).get_params()
    given = {**blind.parameters, "use_gold": False}
    plain = given.keys() == defaults.keys() and all(np.array_equal(given[name], defaults[name]) for name in given)
    if not blind.uses_features and not (blind.method == DawidSkene.name and plain):
        with suppress(UnsuitableDataError), warnings.catch_warnings(action="ignore", category=CrowdprismWarning):
            reference, own = DawidSkene(use_gold=False).fit(annotations).result_.class_probabilities, False
    return make_account(
        annotations,
        labels,
        reference,
        family="features" if blind.uses_features else "labels",
        gold=gold,
        blind=None if blind is result else blind.class_probabilities.argmax(axis=1),
        own=own,
    )


def fit_without_gold(result: FitResult, annotations: Annotations) -> FitResult:
    """What the method of a result finds without gold; Dawid-Skene for methods that cannot be fitted again from here."""
    with warnings.catch_warnings(action="ignore", category=CrowdprismWarning):  # nobody asked for this fit
        if result.method in AGGREGATORS:
            with suppress(CrowdprismError):  # a loaded result has texts in place of arrays
                again = make_aggregator(result.method, **{**result.parameters, "use_gold": False})
                return again.fit(annotations).result_
        return DawidSkene(use_gold=False).fit(annotations).result_

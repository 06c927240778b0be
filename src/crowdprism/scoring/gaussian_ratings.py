"""`rate`: ratings on a continuous scale, with a bias and a precision for every annotator.

A rating is the item's score, plus the annotator's bias, plus normal noise of the annotator's spread; all three have
normal or weak priors. EM alternates the scores' posterior with everything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdprism.aggregators.em import Expectation, FloatArray, climb
from crowdprism.annotations import Annotations, as_annotations
from crowdprism.annotations.frames import frame_of_columns
from crowdprism.annotations.names import NameArray
from crowdprism.annotations.pairs import sums_by
from crowdprism.errors import UnsuitableDataError, some
from crowdprism.formats.text_tables import text_numbers

LEVEL_Z = 1.959964  # half width of a central 95 % interval, in standard errors
PRIOR_RATINGS = 4.0  # ratings' worth of the crowd's spread behind each annotator's own
TINY = 1e-9


@dataclass(frozen=True, eq=False)
class RatingModel:
    """Mean and variance of scores; bias and noise variance of each annotator."""

    mean: float
    variance: float
    bias: FloatArray
    noise: FloatArray
    bias_variance: float  # of the prior
    typical_noise: float  # of the prior
    penalty: float = 0.0


@dataclass(frozen=True, eq=False)
class RatingResult:
    """Scores of items and what is known of annotators, in the order of `items` and `annotators`.

    Attributes
    ----------
    scores, interval
        (n_items,) and (n_items, 2) score of each item and its 95 % interval.
    bias, bias_interval
        (n_annotators,) and (n_annotators, 2) by how much an annotator rates higher than the crowd.
    spread
        (n_annotators,) standard deviation of an annotator's noise.
    icc
        Share of the variance of a single rating that comes from the items (intraclass correlation, absolute agreement).
    """

    items: NameArray
    scores: FloatArray
    interval: FloatArray
    annotators: NameArray
    bias: FloatArray
    bias_interval: FloatArray
    spread: FloatArray
    ratings_per_item: NDArray[Any]
    ratings_per_annotator: NDArray[Any]
    icc: float
    warnings: tuple[str, ...] = ()

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per item: score, its 95 % interval, number of ratings."""
        return frame_of_columns(self.item_columns(), kind)

    def item_columns(self) -> dict[str, Any]:
        low, high = self.interval.T
        return {"item": self.items, "score": self.scores, "low": low, "high": high, "ratings": self.ratings_per_item}

    def annotator_columns(self) -> dict[str, Any]:
        """One row per annotator: number of ratings, bias with its 95 % interval, spread."""
        low, high = self.bias_interval.T
        columns = {"annotator": self.annotators, "ratings": self.ratings_per_annotator, "bias": self.bias}
        return {**columns, "bias_low": low, "bias_high": high, "spread": self.spread}


def rating_values(annotations: Annotations) -> FloatArray:
    """(n_annotations,) the number that each label stands for."""
    names = pl.Series([str(name) for name in annotations.classes.tolist()], dtype=pl.String)
    values = text_numbers(names).fill_null(math.nan).to_numpy()
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        rows = np.flatnonzero(np.isin(annotations.label, wrong))
        who = annotations.annotators[annotations.annotator[rows[:1]]].tolist()[0]
        raise UnsuitableDataError(
            f"{len(rows)} of {len(annotations.label)} ratings are no numbers: "
            f"{some(annotations.classes[wrong].tolist())}; the first is by annotator {who!r} on item "
            f"{annotations.items[annotations.item[rows[:1]]].tolist()[0]!r}.",
            remedy="Leave them out with {skip_label}, or use `aggregate` if labels are classes.",
        )
    return np.asarray(values[annotations.label])


class RatedItems:
    """Ratings as `em.climb` sees them: the E step gives each item's posterior mean and variance."""

    def __init__(self, annotations: Annotations, values: FloatArray) -> None:
        self.item, self.annotator, self.value = annotations.item, annotations.annotator, values
        self.weight = np.ones(len(values)) if annotations.weight is None else annotations.weight.astype(np.float64)
        self.n_items, self.n_annotators = annotations.n_items, annotations.n_annotators
        self.total_weight = float(self.weight.sum())

    def by_item(self, values: FloatArray) -> FloatArray:
        return sums_by(self.item, values, self.n_items)

    def by_annotator(self, values: FloatArray) -> FloatArray:
        return sums_by(self.annotator, values, self.n_annotators)

    def expect(self, model: RatingModel, *, keep: bool = True) -> Expectation:
        """`counts` holds the posterior means, `class_totals` the posterior variances of the scores."""
        noise = model.noise[self.annotator]
        precision = self.weight / noise
        above = self.value - model.bias[self.annotator] - model.mean
        total, pulled = self.by_item(precision), self.by_item(precision * above)
        posterior = total + 1 / model.variance
        squares = float((precision * above**2).sum() - (pulled**2 / posterior).sum())
        logs = float((self.weight * np.log(noise)).sum() + np.log(model.variance * posterior).sum())
        log_likelihood = -(logs + squares + self.total_weight * math.log(2 * math.pi)) / 2
        return Expectation(log_likelihood, model.mean + pulled / posterior, 1 / posterior)

    def maximize(self, model: RatingModel, found: Expectation) -> RatingModel:
        """M step: distribution of scores, then biases, then spreads."""
        score, doubt = found.counts, found.class_totals
        rated = self.by_item(self.weight) > 0
        mean = float(score[rated].mean())
        variance = max(float(((score - mean) ** 2 + doubt)[rated].mean()), TINY)
        gap, count = self.weight * (self.value - score[self.item]), self.by_annotator(self.weight)
        bias = self.by_annotator(gap) / (count + model.noise / model.bias_variance)
        left = (self.value - score[self.item] - bias[self.annotator]) ** 2 + doubt[self.item]
        squares = self.by_annotator(self.weight * left)
        noise = (squares + PRIOR_RATINGS * model.typical_noise) / (count + PRIOR_RATINGS)
        penalty = -float((bias**2).sum()) / (2 * model.bias_variance)
        penalty -= PRIOR_RATINGS / 2 * float((np.log(noise) + model.typical_noise / noise).sum())
        return replace(model, mean=mean, variance=variance, bias=bias, noise=np.maximum(noise, TINY), penalty=penalty)


def rate(annotations: Any) -> RatingResult:
    """Score items from ratings on a continuous scale; labels are numbers.

    Examples
    --------
    >>> a = Annotations.from_triplets(["x", "x", "y", "y"], ["ann", "bob"] * 2, [1.0, 2.1, 4.0, 5.2])
    >>> result = rate(a)
    >>> bool(result.scores[0] < result.scores[1]), bool(result.bias[0] < result.bias[1])
    (True, True)
    """
    data = as_annotations(annotations)
    values = rating_values(data)
    evidence = RatedItems(data, values)
    counts = evidence.by_item(evidence.weight)
    means = evidence.by_item(evidence.weight * values) / np.maximum(counts, TINY)
    noise = max(float((evidence.weight * (values - means[data.item]) ** 2).sum() / evidence.total_weight), TINY)
    start = RatingModel(
        mean=float(means[counts > 0].mean()),
        variance=max(float(means[counts > 0].var()), noise),
        bias=np.zeros(data.n_annotators),
        noise=np.full(data.n_annotators, noise),
        bias_variance=noise,
        typical_noise=noise,
    )
    run = climb(evidence, start, evidence.maximize, title="ratings", max_iter=500)
    return _result(data, evidence, run.model, run.notes("rate"))


def _result(data: Annotations, evidence: RatedItems, model: RatingModel, notes: tuple[str, ...]) -> RatingResult:
    found = evidence.expect(model)
    amount = np.maximum(data.labels_per_annotator, TINY)
    shift = float(np.average(model.bias, weights=amount))  # biases are relative
    precision = evidence.weight / model.noise[data.annotator]
    doubtful = evidence.weight / (model.noise[data.annotator] + found.class_totals[data.item])
    bias_error = 1 / (evidence.by_annotator(doubtful) + 1 / model.bias_variance)
    through_bias = evidence.by_item((precision * found.class_totals[data.item]) ** 2 * bias_error[data.annotator])
    error = np.sqrt(found.class_totals + through_bias)
    scores, bias = found.counts + shift, model.bias - shift
    sides = LEVEL_Z * np.array([-1.0, 1.0])
    typical, between = (float(np.average(one, weights=amount)) for one in (model.noise, bias**2))
    return RatingResult(
        items=data.items,
        scores=scores,
        interval=scores[:, None] + np.outer(error, sides),
        annotators=data.annotators,
        bias=bias,
        bias_interval=bias[:, None] + np.outer(np.sqrt(bias_error), sides),
        spread=np.sqrt(model.noise),
        ratings_per_item=data.labels_per_item,
        ratings_per_annotator=data.labels_per_annotator,
        icc=model.variance / (model.variance + between + typical),
        warnings=notes,
    )

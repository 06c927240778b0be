"""The outside view: how often labels like these were right in other crowds whose truth is known.

A posterior says how sure a model is, provided that the model is right. What a crowd shares beyond the model (a common
misconception, an unclear question) cannot be seen in its labels. So the probability that a label is right is
learned from other crowds with gold:

    P(right | u) = sigmoid(score + u),    score = intercept + slope x,

where x is the logit of a reference model's posterior of its own label, clipped to [-4, 4]. A label of another method is
evidence for the reference's where both agree; where they differ, it has its share of what is left. u is one unknown
number for the whole data set: heavy-tailed around 0 without gold, narrowed by every gold answer. `outside_view.toml`
holds the constants; `benchmarks/outside_view.py` made them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.skill_prior import logit

Family = Literal["labels", "features", "predictions", "single"]
FloatArray = NDArray[np.float64]

LARGEST_LOGIT = 4.0  # a posterior beyond it is no better evidence
FREEDOM = 4  # degrees of freedom of u: some crowds are far from the others
U = np.linspace(-5.0, 5.0, 161)  # grid for u


def expit(score: FloatArray) -> FloatArray:  # as SciPy's, which takes longer to load than all of this to run
    return np.asarray(1.0 / (1.0 + np.exp(-score)))


@dataclass(frozen=True)
class OutsideView:
    """Constants of the forecast for one family of methods.

    `spread` is the scale of u. Where another method gives the same label, the score rises by `agreement`; where it
    gives another, it falls by `disagreement`.
    """

    intercept: float
    slope: float
    spread: float
    agreement: float = 0.0
    disagreement: float = 0.0

    def scores(self, reference: FloatArray, labels: NDArray[np.integer], *, own: bool = False) -> FloatArray:
        """(n_items,) log odds of each label being right at u = 0.

        `reference` is (n_items, n_classes); `own` says that the labels are the reference model's, perhaps after it saw
        gold, and so are no evidence beside it.
        """
        best = reference.argmax(axis=1)
        x = np.clip(logit(np.clip(reference.max(axis=1), 1e-12, 1 - 1e-12)), -LARGEST_LOGIT, LARGEST_LOGIT)
        score = self.intercept + self.slope * x
        share = share_of_rest(reference, best, np.arange(len(labels)), labels)
        differing = logit((1.0 - expit(score - (0.0 if own else self.disagreement))) * share)
        return np.asarray(np.where(labels == best, score + (0.0 if own else self.agreement), differing))

    def prior(self) -> FloatArray:
        """(len(U),) probability of each u before any gold answer."""
        weights = (1 + np.square(U / self.spread) / FREEDOM) ** (-(FREEDOM + 1) / 2)  # Student's t
        return np.asarray(weights / weights.sum())

    def posterior(self, scores: FloatArray, right: NDArray[np.bool_]) -> FloatArray:
        """(len(U),) probability of each u after gold answers: the score of each label, and whether it was right."""
        odds = scores[:, None] + U
        log_weight = np.log(self.prior()) - np.logaddexp(0.0, np.where(right[:, None], -odds, odds)).sum(axis=0)
        weights = np.exp(log_weight - log_weight.max())
        return np.asarray(weights / weights.sum())


def share_of_rest(
    reference: FloatArray, labels: NDArray[np.integer], item: NDArray[np.integer], label: NDArray[np.integer]
) -> FloatArray:
    """(n,) probability of `label`, given that the label of the item in `labels` is another and wrong.

    Half by the reference model, half even over the other classes.
    """
    n_others = reference.shape[1] - 1
    if n_others <= 1:
        return np.ones(len(item))
    rest = np.maximum(1.0 - reference[np.arange(len(labels)), labels], 1e-12)
    return np.asarray(0.5 * np.minimum(reference[item, label] / rest[item], 1.0) + 0.5 / n_others)


@cache
def outside_view(family: Family) -> OutsideView:
    """The constants of a family of methods."""
    text = resources.files("crowdprism.calibration").joinpath("outside_view.toml").read_text(encoding="utf-8")
    return OutsideView(**tomllib.loads(text)[family])

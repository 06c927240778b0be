"""The outside view: how often labels like these were right in other crowds whose truth is known.

A posterior says how sure a model is, provided that the model is right. What a crowd shares beyond the model (a common
misconception, an unclear question) cannot be seen in its labels. So the probability that a label is right is
learned from other crowds with gold:

    P(right | u) = sigmoid(score + u),    score = intercept + slope x + disagreement [label is not the reference's],

where x is the logit of the reference model's posterior of that label, clipped to [-4, 4], and u is one unknown number
for the whole data set: heavy-tailed around 0 without gold, narrowed by every gold answer. `outside_view.toml` holds the
constants; `benchmarks/outside_view.py` made them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

Family = Literal["labels", "features", "single"]
FloatArray = NDArray[np.float64]

LARGEST_LOGIT = 4.0  # a posterior beyond it is no better evidence
FREEDOM = 4  # degrees of freedom of u: some crowds are far from the others
U = np.linspace(-5.0, 5.0, 161)  # grid for u


@dataclass(frozen=True)
class OutsideView:
    """Constants of the forecast for one family of methods; `spread` is the scale of u."""

    intercept: float
    slope: float
    disagreement: float
    spread: float

    def scores(self, reference: FloatArray, labels: NDArray[np.integer]) -> FloatArray:
        """(n_items,) log odds of each label being right at u = 0; `reference` is (n_items, n_classes)."""
        probability = np.clip(reference[np.arange(len(labels)), labels], 1e-12, 1 - 1e-12)
        x = np.clip(logit(probability), -LARGEST_LOGIT, LARGEST_LOGIT)
        differs = labels != reference.argmax(axis=1)
        return np.asarray(self.intercept + self.slope * x + self.disagreement * differs)

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


@cache
def outside_view(family: Family) -> OutsideView:
    """The constants of a family of methods."""
    text = resources.files("crowdprism.calibration").joinpath("outside_view.toml").read_text(encoding="utf-8")
    return OutsideView(**tomllib.loads(text)[family])

"""Make `outside_view.toml`: how often labels are right in crowds whose truth is known, as a function of the posterior.

    CROWDPRISM_DATA=... python benchmarks/outside_view.py            # prints the file's content

Each data set has one unknown u; constants maximise the likelihood of all sets with u integrated out. A set counts as at
most 100 items, so that the largest does not decide; `spread` is enlarged a little because it is estimated from fifteen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit
from scipy.stats import t as student

import crowdprism as cp
from crowdprism.calibration.outside_view import FREEDOM, LARGEST_LOGIT, OutsideView, U

LARGEST_SET = 100
FEW_SETS = 1.15  # factor of the estimated spread
START = np.array([[-0.2, 0.6, -0.4], [0.1, 0.6, -0.4], [-0.2, 0.4, -0.4], [-0.2, 0.6, 0.1]])  # simplex of the search
OTHER_METHODS = ("majority-vote", "one-coin", "glad")  # whose labels tell how right a disagreement is


@dataclass(frozen=True, eq=False)
class Sample:
    """Labels of the items with gold of one data set."""

    name: str
    x: NDArray[np.float64]
    differs: NDArray[np.bool_]
    right: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class GoldSet:
    """Annotations with their gold (class codes by item, -1 where unknown)."""

    name: str
    annotations: cp.Annotations
    gold: NDArray[np.int64]


def gold_sets(root: Path) -> Iterable[GoldSet]:
    """The truth-inference sets of the data folder."""
    for folder in sorted(root.iterdir()):
        if (folder / "annotations.csv.gz").exists():
            rows = pl.read_csv(folder / "annotations.csv.gz")
            known = pl.read_csv(folder / "gold.csv.gz").unique("item", keep="first", maintain_order=True)
            annotations = cp.Annotations.from_frame(rows)
            code = {name: at for at, name in enumerate(annotations.classes.tolist())}
            gold_of = {item: code.get(label, -2) for item, label in known.select("item", "label").iter_rows()}
            gold = np.array([gold_of.get(item, -1) for item in annotations.items.tolist()])
            yield GoldSet(folder.name, annotations, gold)


def sample_of(data: GoldSet, labels: NDArray[np.integer], reference: NDArray[np.float64]) -> Sample:
    """What the outside view learns from one data set."""
    known = data.gold != -1
    probability = np.clip(reference[np.arange(len(labels)), labels], 1e-12, 1 - 1e-12)
    x = np.clip(logit(probability), -LARGEST_LOGIT, LARGEST_LOGIT)
    differs = labels != reference.argmax(axis=1)
    return Sample(data.name, x[known], differs[known], labels[known] == data.gold[known])


def log_marginal(theta: Sequence[float], samples: Sequence[Sample]) -> float:
    """Log likelihood of all samples with u integrated out; theta is intercept, slope, log spread."""
    intercept, slope, log_spread = theta
    prior = student.pdf(U / np.exp(log_spread), FREEDOM)
    prior /= prior.sum()
    total = 0.0
    for sample in samples:
        score, n = _binned(intercept + slope * sample.x, sample.right)
        by_u = (n[1][:, None] * -np.logaddexp(0, -score - U) + n[0][:, None] * -np.logaddexp(0, score + U)).sum(axis=0)
        by_u *= min(1.0, LARGEST_SET / len(sample.x))
        total += by_u.max() + np.log(prior @ np.exp(by_u - by_u.max()))
    return float(total)


def _binned(score: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Scores rounded to tenths, and how many were wrong and right at each."""
    value, place = np.unique(np.round(score, 1), return_inverse=True)
    return value[:, None], np.stack([np.bincount(place[right == side], minlength=len(value)) for side in (0, 1)])


def fit_view(own: Sequence[Sample], others: Sequence[Sample], *, widen: float = FEW_SETS) -> OutsideView:
    """Constants from the reference model's own labels, and from other methods' labels where these differ."""
    options = {"maxiter": 300, "xatol": 1e-3, "fatol": 1e-3, "initial_simplex": START}
    found = minimize(lambda theta: -log_marginal(theta, own), START[0], method="Nelder-Mead", options=options).x
    view = OutsideView(float(found[0]), float(found[1]), 0.0, float(np.exp(found[2])))
    weights = view.prior()

    def loss(disagreement: float) -> float:
        total = 0.0
        for sample in others:
            x, right = sample.x[sample.differs], sample.right[sample.differs]
            if len(x) >= 5:
                p = expit(view.intercept + view.slope * x[:, None] + disagreement + U) @ weights
                total -= min(len(x), 100) * float(np.where(right, np.log(p), np.log1p(-p)).mean())
        return total

    disagreement = minimize_scalar(loss, bounds=(-1, 3), method="bounded").x if others else 0.0
    return OutsideView(view.intercept, view.slope, float(disagreement), view.spread * widen)


def single_view(sets: Sequence[GoldSet]) -> OutsideView:
    """Constants for crowds in which no item has two labels: how often a single label is right."""
    shares = []
    for data in sets:
        gold = data.gold[data.annotations.item]
        shares.append(float((data.annotations.label == gold)[gold != -1].mean()))
    odds = logit(shares)
    return OutsideView(float(odds.mean()), 0.0, 0.0, 0.8 * float(odds.std(ddof=1)) * FEW_SETS)


def main() -> None:
    """Print the content of outside_view.toml."""
    sets = list(gold_sets(Path(os.environ["CROWDPRISM_DATA"]) / "truth_inference"))
    own, others = [], []
    for data in sets:
        reference = cp.make_aggregator("dawid-skene").fit(data.annotations).result_.class_probabilities
        own.append(sample_of(data, reference.argmax(axis=1), reference))
        for method in OTHER_METHODS:
            found = cp.make_aggregator(method).fit(data.annotations).result_.class_probabilities
            others.append(sample_of(data, found.argmax(axis=1), reference))
    labels = fit_view(own, others)
    for family, view in (("labels", labels), ("features", labels), ("single", single_view(sets))):
        print(f"[{family}]")
        for name in ("intercept", "slope", "disagreement", "spread"):
            print(f"{name} = {getattr(view, name):.3f}")
        print()


if __name__ == "__main__":
    main()

"""Make `outside_view.toml`: how often labels are right in crowds whose truth is known, as a function of the posterior.

    CROWDPRISM_DATA=... python benchmarks/outside_view.py            # prints the file's content

Each data set has one unknown u; constants maximise the likelihood of all sets with u integrated out. A set counts as at
most 100 items, so that the largest does not decide; `spread` is enlarged a little because it is estimated from few.
Families: `labels` of the default Dawid-Skene, labels that the default classifier gives to its training items
(`features`) and to new items (`predictions`), and `single` labels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logit

import crowdprism as cp
from crowdprism.calibration.outside_view import LARGEST_LOGIT, OutsideView, U
from crowdprism.classifiers import GeoCrowdNet
from feature_sets import SETS

LARGEST_SET = 100
FEW_SETS = 1.15  # factor of the estimated spread
FEWER_SETS = 1.5  # the same for classifiers: nine sets, some of the same items
START = np.array([[-0.2, 0.6, -0.4], [0.1, 0.6, -0.4], [-0.2, 0.4, -0.4], [-0.2, 0.6, 0.1]])  # simplex of the search
START_AGREEMENT = np.array([[0.0, 0.3], [0.4, 0.3], [0.0, 0.9]])
OTHER_METHODS = ("majority-vote", "one-coin", "glad")  # whose labels agree with the reference's or not


@dataclass(frozen=True, eq=False)
class Sample:
    """Most probable labels of the items with gold of one data set: logits of their posteriors, and which are right."""

    name: str
    x: NDArray[np.float64]
    right: NDArray[np.bool_]
    agrees: NDArray[np.bool_] | None = None  # whether another method gives the same label


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


def sample_of(
    name: str, gold: NDArray[np.integer], posterior: NDArray[np.float64], others: NDArray[np.integer] | None = None
) -> Sample:
    """What the outside view learns from one data set; gold is -1 where unknown, `others` another's labels."""
    known = gold != -1
    x = np.clip(logit(np.clip(posterior.max(axis=1), 1e-12, 1 - 1e-12)), -LARGEST_LOGIT, LARGEST_LOGIT)
    best = posterior.argmax(axis=1)
    return Sample(name, x[known], best[known] == gold[known], None if others is None else (others == best)[known])


def log_marginal(view: OutsideView, samples: Sequence[Sample]) -> float:
    """Log likelihood of all samples with u integrated out."""
    prior, total = view.prior(), 0.0
    for sample in samples:
        score = view.intercept + view.slope * sample.x
        if sample.agrees is not None:
            score = score + np.where(sample.agrees, view.agreement, -view.disagreement)
        value, n = _binned(score, sample.right)
        by_u = (n[1][:, None] * -np.logaddexp(0, -value - U) + n[0][:, None] * -np.logaddexp(0, value + U)).sum(axis=0)
        by_u *= min(1.0, LARGEST_SET / len(sample.x))
        total += by_u.max() + np.log(prior @ np.exp(by_u - by_u.max()))
    return float(total)


def _binned(score: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Scores rounded to tenths, and how many were wrong and right at each."""
    value, place = np.unique(np.round(score, 1), return_inverse=True)
    return value[:, None], np.stack([np.bincount(place[right == side], minlength=len(value)) for side in (0, 1)])


def fit_view(samples: Sequence[Sample], others: Sequence[Sample] = (), *, widen: float = FEW_SETS) -> OutsideView:
    """Constants that make the samples likeliest; those of agreement from samples beside another method's labels."""

    def search(view_of: Callable[..., OutsideView], which: Sequence[Sample], start: NDArray[np.float64]) -> OutsideView:
        options = {"maxiter": 300, "xatol": 1e-3, "fatol": 1e-3, "initial_simplex": start}
        loss = lambda theta: -log_marginal(view_of(*theta), which)  # noqa: E731
        return view_of(*map(float, minimize(loss, start[0], method="Nelder-Mead", options=options).x))

    view = search(lambda a, b, log_spread: OutsideView(a, b, float(np.exp(log_spread))), samples, START)
    view = replace(view, spread=view.spread * widen)
    if not others:
        return view
    return search(lambda agree, differ: replace(view, agreement=agree, disagreement=differ), others, START_AGREEMENT)


def single_view(sets: Sequence[GoldSet]) -> OutsideView:
    """Constants for crowds in which no item has two labels: how often a single label is right."""
    shares = []
    for data in sets:
        gold = data.gold[data.annotations.item]
        shares.append(float((data.annotations.label == gold)[gold != -1].mean()))
    odds = logit(shares)
    return OutsideView(float(odds.mean()), 0.0, 0.8 * float(odds.std(ddof=1)) * FEW_SETS)


def classifier_samples() -> tuple[list[Sample], list[Sample]]:
    """Labels of training items and predictions of test items by the default classifier, on human sets with features."""
    training, new = [], []
    for name, load in SETS.items():
        if not name.startswith("sim_"):
            X, annotations, X_test, truth = load(0)
            model = GeoCrowdNet().fit(X, annotations.with_gold(None))
            gold = np.ma.filled(annotations.gold, -1)
            training.append(sample_of(name, gold, model.result_.class_probabilities))
            new.append(sample_of(name, truth, model.predict_proba(X_test)))
    return training, new


def main() -> None:
    """Print the content of outside_view.toml."""
    sets = list(gold_sets(Path(os.environ["CROWDPRISM_DATA"]) / "truth_inference"))
    own, others = [], []
    for data in sets:
        shown = data.annotations.with_gold(None)
        reference = cp.make_aggregator("dawid-skene").fit(shown).result_.class_probabilities
        own.append(sample_of(data.name, data.gold, reference))
        for method in OTHER_METHODS:
            labels = cp.make_aggregator(method).fit(shown).result_.class_probabilities.argmax(axis=1)
            others.append(sample_of(data.name, data.gold, reference, labels))
    training, new = classifier_samples()
    views = {"labels": fit_view(own, others), "features": fit_view(training, widen=FEWER_SETS)}
    views |= {"predictions": fit_view(new, widen=FEWER_SETS)}
    print("# Made by benchmarks/outside_view.py. P(right | u) = sigmoid(intercept + slope x + u).")
    for family, view in (views | {"single": single_view(sets)}).items():
        print(f"[{family}]")
        for name, value in vars(view).items():
            print(f"{name} = {value:.3f}")
        print()


if __name__ == "__main__":
    main()

"""Is the account honest? Forecasts beside the truth on public sets with gold, each forecast made without its own set.

    CROWDPRISM_DATA=... python benchmarks/honesty.py [--draws 50]      # writes benchmarks/results/honesty.json

For every set the constants of the outside view are learned from the other sets. Without gold and with 40 random gold
answers: over-claim (expected minus true share of right labels, points), its absolute value, calibration error in ten
equal-count bins, whether the 90 % interval holds the truth and how wide it is; and how many annotators with at least
thirty labels on gold items have their accuracy there inside their 95 % interval.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import crowdprism as cp
from crowdprism.calibration import account
from crowdprism.calibration.outside_view import OutsideView
from measured import store
from outside_view import OTHER_METHODS, GoldSet, fit_view, gold_sets, sample_of

METHODS = ("dawid-skene", *OTHER_METHODS)
LEAST_LABELS = 30
N_GOLD = 40


@dataclass(frozen=True, eq=False)
class Fitted:
    """A data set with the labels of every method."""

    data: GoldSet
    reference: NDArray[np.float64]
    labels: dict[str, NDArray[np.int64]]


def calibration_error(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Mean absolute difference of confidence and share of right labels in ten equal-count bins."""
    bins = [one for one in np.array_split(np.argsort(confidence, kind="stable"), 10) if len(one)]
    return float(sum(len(b) * abs(confidence[b].mean() - right[b].mean()) for b in bins) / len(confidence))


def measure(fitted: Fitted, method: str, view: OutsideView, gold: NDArray[np.int64] | None) -> dict[str, Any]:
    """One forecast beside the truth; items whose gold was given are not measured."""
    data, labels = fitted.data, fitted.labels[method]
    with patch.object(account, "outside_view", lambda family: view):
        found = account.make_account(data.annotations, labels, fitted.reference, gold=gold)
        forecast = account.make_forecast(data.annotations, labels, fitted.reference, family="labels", gold=gold)
    judged = (data.gold != -1) & (True if gold is None else gold < 0)
    right = labels[judged] == data.gold[judged]
    expected = account.expected_share(forecast.scores[judged], forecast.weights)
    share = float(right.mean())
    return {
        "gap": expected.value - share,
        "error": calibration_error(found.confidence[judged], right),
        "holds": expected.low <= share <= expected.high,
        "width": expected.high - expected.low,
        "people": people(data, found.annotator_interval),
    }


def people(data: GoldSet, interval: NDArray[np.float64]) -> list[tuple[bool, float]]:
    """For annotators with enough labels on gold items: whether the interval holds their accuracy, and its width."""
    a = data.annotations
    gold = data.gold[a.item]
    n = np.bincount(a.annotator[gold != -1], minlength=a.n_annotators)
    right = np.bincount(a.annotator[(gold != -1) & (gold == a.label)], minlength=a.n_annotators)
    found = []
    for at in np.flatnonzero(n >= LEAST_LABELS):
        low, high = interval[at]
        found.append((bool(low <= right[at] / n[at] <= high), float(high - low)))
    return found


def summary(rows: list[list[dict[str, Any]]]) -> dict[str, float]:
    """Means over sets of means over draws."""

    def mean(key: str, change: Any = float) -> float:
        return float(np.mean([np.mean([change(row[key]) for row in draws]) for draws in rows]))

    everyone = [one for draws in rows for row in draws for one in row["people"]]
    return {
        "over_claim": 100 * mean("gap"),
        "absolute_gap": 100 * mean("gap", abs),
        "calibration_error": 100 * mean("error"),
        "holds": mean("holds"),
        "width": 100 * mean("width"),
        "people_hold": float(np.mean([held for held, _ in everyone])),
        "people_width": float(np.median([width for _, width in everyone])),
    }


def draw_gold(data: GoldSet, seed: int) -> NDArray[np.int64]:
    """Gold of at most 40 random items (half of them where there are fewer), -1 elsewhere."""
    known = np.flatnonzero(data.gold >= 0)
    chosen = np.random.default_rng(seed).choice(known, min(N_GOLD, len(known) // 2), replace=False)
    gold = np.full(len(data.gold), -1)
    gold[chosen] = data.gold[chosen]
    return gold


def fit_all(data: GoldSet) -> Fitted:
    found = {name: cp.make_aggregator(name).fit(data.annotations).result_.class_probabilities for name in METHODS}
    return Fitted(data, found["dawid-skene"], {name: one.argmax(axis=1) for name, one in found.items()})


def main() -> None:
    """Measure every method without gold and with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=50)
    draws = parser.parse_args().draws
    fitted = [fit_all(data) for data in gold_sets(Path(os.environ["CROWDPRISM_DATA"]) / "truth_inference")]
    own = [sample_of(one.data, one.labels["dawid-skene"], one.reference) for one in fitted]
    others = [[sample_of(one.data, one.labels[name], one.reference) for name in OTHER_METHODS] for one in fitted]
    views = [
        fit_view(own[:at] + own[at + 1 :], [s for k, group in enumerate(others) if k != at for s in group])
        for at in range(len(fitted))
    ]
    results: dict[str, Any] = {}
    for method in METHODS:
        without = [[measure(one, method, view, None)] for one, view in zip(fitted, views, strict=True)]
        some = [
            [measure(one, method, view, draw_gold(one.data, seed)) for seed in range(draws)]
            for one, view in zip(fitted, views, strict=True)
        ]
        results[method] = {"without_gold": summary(without), f"with_{N_GOLD}_gold": summary(some)}
        for kind, row in results[method].items():
            print(method, kind, {name: round(value, 3) for name, value in row.items()}, flush=True)
    posterior = [
        (one.reference.max(axis=1)[one.data.gold != -1].mean(), sample.right.mean())
        for one, sample in zip(fitted, own, strict=True)
    ]
    results["posterior_over_claim"] = 100 * float(np.mean([expected - right for expected, right in posterior]))
    store("honesty", results)


if __name__ == "__main__":
    main()

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

import crowdprism as cp
from crowdprism.calibration import account
from crowdprism.calibration.outside_view import OutsideView
from measured import store
from outside_view import FEWER_SETS, OTHER_METHODS, GoldSet, Sample, classifier_samples, fit_view, gold_sets, sample_of

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
        given: dict[str, Any] = {"gold": gold, "own": method == "dawid-skene"}
        found = account.make_account(data.annotations, labels, fitted.reference, **given)
        forecast = account.make_forecast(data.annotations, labels, fitted.reference, **given)
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
    shown = data.annotations.with_gold(None)
    found = {name: cp.make_aggregator(name).fit(shown).result_.class_probabilities for name in METHODS}
    return Fitted(data, found["dawid-skene"], {name: one.argmax(axis=1) for name, one in found.items()})


def classifier_summary(samples: Sequence[Sample]) -> dict[str, float]:
    """The forecast of a classifier's labels without gold, each made with the constants of the other sets."""
    rows = []
    for at, sample in enumerate(samples):
        view = fit_view([*samples[:at], *samples[at + 1 :]], widen=FEWER_SETS)
        scores = view.intercept + view.slope * sample.x
        expected, share = account.expected_share(scores, view.prior()), float(sample.right.mean())
        error = calibration_error(account.average_over_u(scores, view.prior()), sample.right)
        posterior = calibration_error(expit(sample.x), sample.right)
        holds = expected.low <= share <= expected.high
        gap, width = expected.value - share, expected.high - expected.low
        rows.append([100 * gap, 100 * abs(gap), 100 * error, 100 * posterior, holds, 100 * width])
    names = ("over_claim", "absolute_gap", "calibration_error", "of_the_posterior", "holds", "width")
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


def main() -> None:
    """Measure every method without gold and with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=50)
    draws = parser.parse_args().draws
    fitted = [fit_all(data) for data in gold_sets(Path(os.environ["CROWDPRISM_DATA"]) / "truth_inference")]
    own = [sample_of(one.data.name, one.data.gold, one.reference) for one in fitted]
    others = [
        [sample_of(one.data.name, one.data.gold, one.reference, one.labels[name]) for name in OTHER_METHODS]
        for one in fitted
    ]
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
    for family, samples in zip(("training_items", "new_items"), classifier_samples(), strict=True):
        results[f"classifier_{family}"] = classifier_summary(samples)
        print(family, {name: round(value, 3) for name, value in results[f"classifier_{family}"].items()}, flush=True)
    store("honesty", results)


if __name__ == "__main__":
    main()

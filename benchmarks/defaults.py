"""The default classifier beside what one would write by hand, on sets with features; no clean label is used.

    CROWDPRISM_DATA=... python benchmarks/defaults.py [--seeds 5] [--methods default before] [--sets labelme music]

Rows go to results/defaults.jsonl: test accuracy, calibration error of the probabilities (ten equal-count bins) and
seconds. Sets without a test split are split by seed, three quarters to train. `before`: features standardized one by
one, no input noise, probabilities as they come.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import crowdprism as cp
from crowdprism.aggregators.majority_vote import vote_shares, vote_totals
from crowdprism.classifiers import GeoCrowdNet
from feature_sets import SETS
from honesty import calibration_error
from resumable import Job, Row, measure

ROWS = Path(__file__).parent / "results" / "defaults.jsonl"
BEFORE = {"standardize": True, "input_noise": 0.0, "temperature": 1.0, "weight_decay": 5e-3}
PENALTIES = tuple(10.0**power for power in range(-4, 2))  # C of logistic regression


def geocrowdnet(**parameters: Any) -> Callable[..., NDArray[np.float64]]:
    """GeoCrowdNet with these parameters."""

    def fit(X: Any, annotations: cp.Annotations, X_test: Any, seed: int) -> NDArray[np.float64]:
        return GeoCrowdNet(random_state=seed, **parameters).fit(X, annotations).predict_proba(X_test)

    return fit


def regression(targets: str) -> Callable[..., NDArray[np.float64]]:
    """Logistic regression on standardized features; each class of an item counts by its share in the targets."""

    def fit(X: Any, annotations: cp.Annotations, X_test: Any, seed: int) -> NDArray[np.float64]:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import KFold
        from sklearn.preprocessing import StandardScaler

        n_classes = annotations.n_classes
        if targets == "dawid-skene":
            shares = cp.make_aggregator("dawid-skene").fit(annotations).result_.class_probabilities
        else:
            shares = vote_shares(vote_totals(annotations), np.full(n_classes, 1 / n_classes))
        if targets == "votes":
            shares = np.eye(n_classes)[shares.argmax(axis=1)]
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)

        def fitted(rows: Any, penalty: float) -> Any:
            stacked, classes = np.repeat(X[rows], n_classes, axis=0), np.tile(np.arange(n_classes), len(rows))
            weight = shares[rows].reshape(-1)
            keep = weight > 0.01
            model = LogisticRegression(C=penalty, max_iter=300)
            return model.fit(stacked[keep], classes[keep], sample_weight=weight[keep])

        def loss(penalty: float) -> float:
            total = 0.0
            for rows, held in KFold(3, shuffle=True, random_state=seed).split(X):
                model = fitted(rows, penalty)
                log = np.full((len(held), n_classes), -20.0)
                log[:, model.classes_] = model.predict_log_proba(X[held])
                total -= float((shares[held] * np.maximum(log, -20.0)).sum())
            return total

        model = fitted(np.arange(len(X)), min(PENALTIES, key=loss))
        found = np.zeros((len(X_test), n_classes))
        found[:, model.classes_] = model.predict_proba(X_test)
        return found

    return fit


METHODS: dict[str, Callable[..., NDArray[np.float64]]] = {
    "before": geocrowdnet(**BEFORE, regularizer=None),
    "before-auto": geocrowdnet(**BEFORE),
    "default": geocrowdnet(),
    "default-none": geocrowdnet(regularizer=None),
    "class-shares": geocrowdnet(class_shares="votes"),
    "five-heads": geocrowdnet(n_heads=5),
    "lr-votes": regression("votes"),
    "lr-soft": regression("soft"),
    "lr-ds": regression("dawid-skene"),
}


def run(job: Job) -> Row:
    """Measure one method on one set with one seed."""
    torch.set_num_threads(1)
    X, annotations, X_test, truth = SETS[job["set"]](job["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.process_time()
        shown = annotations.with_gold(None)
        found = METHODS[job["method"]](X, shown, X_test, job["seed"])
    seconds = time.process_time() - begun
    right = found.argmax(axis=1) == truth
    error = calibration_error(found.max(axis=1), right)
    figures = {"accuracy": 100 * float(right.mean()), "error": 100 * error, "seconds": seconds}
    return {"job": job, **{name: round(value, 2) for name, value in figures.items()}}


def print_table(rows: list[Row], sets: list[str], methods: list[str]) -> None:
    """Mean accuracy / calibration error by set and method, and the means over sets."""
    print("| set | " + " | ".join(methods) + " |\n|---" + "|---" * len(methods) + "|")
    every: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    for name in sets:
        cells = []
        for method in methods:
            own = [row for row in rows if row["job"]["set"] == name and row["job"]["method"] == method]
            means = tuple(float(np.mean([row[key] for row in own])) for key in ("accuracy", "error"))
            every[method].append((means[0], means[1]))
            cells.append(f"{means[0]:.1f} / {means[1]:.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |")
    over = [np.mean(every[method], axis=0) for method in methods]
    print("| mean | " + " | ".join(f"{mean[0]:.1f} / {mean[1]:.1f}" for mean in over) + " |")


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--processes", type=int, default=1)
    a = parser.parse_args()
    jobs = [{"set": s, "method": m, "seed": seed} for seed in range(a.seeds) for s in a.sets for m in a.methods]
    print_table(measure(jobs, run, ROWS, processes=a.processes), a.sets, a.methods)


if __name__ == "__main__":
    main()

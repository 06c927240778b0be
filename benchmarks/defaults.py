"""The default classifier beside what one would write by hand and beside peers, on sets with features.

    CROWDPRISM_DATA=... python benchmarks/defaults.py [--seeds 5] [--methods default before-auto] [--sets music movie]

Rows go to results/defaults.jsonl: test accuracy, calibration error of the probabilities (ten equal-count bins) and
seconds. Sets without a test split are split by seed, three quarters to train. `before-auto`: features standardized one
by one, no input noise, probabilities as they come. Only the methods named `true` see clean labels. The peers cleanlab
(`crowdlab`) and scikit-activeml (`ska-*`) are installed beside crowdprism by `pip install -r
benchmarks/feature_peers.txt`; `--table` prints the rows that are there and runs nothing.
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
from resumable import Job, Row, key_of, measure, read_rows

ROWS = Path(__file__).parent / "results" / "defaults.jsonl"
BEFORE = {"standardize": True, "input_noise": 0.0, "temperature": 1.0, "weight_decay": 5e-3}
PENALTIES = tuple(10.0**power for power in range(-4, 2))  # C of logistic regression
N_FOLDS = 5  # of the regression whose predictions CROWDLAB weighs against the annotators
PEER_EPOCHS, PEER_BATCH, PEER_RATE = 50, 64, 1e-3  # scikit-activeml has no defaults for a network: those of ours


def geocrowdnet(**parameters: Any) -> Callable[..., NDArray[np.float64]]:
    """GeoCrowdNet with these parameters."""

    def fit(X: Any, annotations: cp.Annotations, X_test: Any, seed: int) -> NDArray[np.float64]:
        return GeoCrowdNet(random_state=seed, **parameters).fit(X, annotations).predict_proba(X_test)

    return fit


def regression(targets: str) -> Callable[..., NDArray[np.float64]]:
    """Logistic regression on standardized features; each class of an item counts by its share in the targets."""

    def fit(X: Any, annotations: cp.Annotations, X_test: Any, seed: int) -> NDArray[np.float64]:
        return regress(X, shares_of(annotations, targets), X_test, seed)

    return fit


def shares_of(annotations: cp.Annotations, targets: str) -> NDArray[np.float64]:
    """(n_items, n_classes) what a regression learns: votes, soft votes, Dawid-Skene's posterior or the truth."""
    one_hot = np.eye(annotations.n_classes)
    if targets == "true":
        return one_hot[np.asarray(annotations.gold)]
    if targets == "dawid-skene":
        return cp.make_aggregator("dawid-skene").fit(annotations).result_.class_probabilities
    shares = vote_shares(vote_totals(annotations), np.full(annotations.n_classes, 1 / annotations.n_classes))
    return one_hot[shares.argmax(axis=1)] if targets == "votes" else shares


def regress(X: Any, shares: NDArray[np.float64], X_test: Any, seed: int) -> NDArray[np.float64]:
    """Probabilities of the test items; the penalty is the one with the best held-out likelihood of the targets."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold
    from sklearn.preprocessing import StandardScaler

    n_classes = shares.shape[1]
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


def label_table(annotations: cp.Annotations) -> NDArray[np.float64]:
    """(n_items, n_annotators) given labels, NaN where there is none; of repeats, the last."""
    table = np.full((annotations.n_items, annotations.n_annotators), np.nan)
    table[annotations.item, annotations.annotator] = annotations.label
    return table


def crowdlab(X: Any, annotations: cp.Annotations, X_test: Any, seed: int) -> NDArray[np.float64]:
    """Regression on votes predicts each item from the others, CROWDLAB states a consensus, regression learns that."""
    from cleanlab.multiannotator import get_label_quality_multiannotator
    from sklearn.model_selection import KFold

    votes = shares_of(annotations, "votes")
    predicted = np.empty_like(votes)
    for rows, held in KFold(N_FOLDS, shuffle=True, random_state=seed).split(X):
        predicted[held] = regress(X[rows], votes[rows], X[held], seed)
    predicted = np.maximum(predicted, 1e-6)
    predicted /= predicted.sum(axis=1, keepdims=True)
    labels = label_table(annotations)[:, annotations.labels_per_annotator > 0]
    found = get_label_quality_multiannotator(
        labels, predicted, return_detailed_quality=False, return_annotator_stats=False, verbose=False
    )
    consensus = found["label_quality"]["consensus_label"].to_numpy(dtype=np.int64)
    return regress(X, np.eye(annotations.n_classes)[consensus], X_test, seed)


def activeml(name: str) -> Callable[..., NDArray[np.float64]]:
    """A classifier of scikit-activeml with our default network, epochs and optimizer on standardized features."""

    def fit(X: Any, annotations: cp.Annotations, X_test: Any, seed: int) -> NDArray[np.float64]:
        from skactiveml.classifier import multiannotator
        from sklearn.preprocessing import StandardScaler

        from crowdprism.networks.build import MLP

        torch.manual_seed(seed)
        scaler = StandardScaler().fit(X)
        model = getattr(multiannotator, name)(
            clf_module=MLP,
            classes=list(range(annotations.n_classes)),
            missing_label=np.nan,
            random_state=seed,
            neural_net_param_dict={
                "module__n_features": X.shape[1],
                "module__n_classes": annotations.n_classes,
                "max_epochs": PEER_EPOCHS,
                "batch_size": PEER_BATCH,
                "lr": PEER_RATE,
                "optimizer": torch.optim.Adam,
                "iterator_train__shuffle": True,
                "verbose": 0,
            },
        )
        model.fit(scaler.transform(X).astype(np.float32), label_table(annotations))
        return np.asarray(model.predict_proba(scaler.transform(X_test).astype(np.float32)), dtype=np.float64)

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
    "crowdlab": crowdlab,
    "ska-annot-mix": activeml("AnnotMixClassifier"),
    "ska-crowdlayer": activeml("CrowdLayerClassifier"),
    "lr-true": regression("true"),
}
PEERS = ("crowdlab", "ska-annot-mix", "ska-crowdlayer")  # what they refuse is kept as a row with the reason


def run(job: Job) -> Row:
    """Measure one method on one set with one seed."""
    torch.set_num_threads(1)
    X, annotations, X_test, truth = SETS[job["set"]](job["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.process_time()
        shown = annotations if job["method"].endswith("true") else annotations.with_gold(None)
        try:
            found = METHODS[job["method"]](X, shown, X_test, job["seed"])
        except Exception as error:
            if job["method"] not in PEERS:
                raise
            return {"job": job, "failed": f"{type(error).__name__}: {error}".splitlines()[0]}
    seconds = time.process_time() - begun
    right = found.argmax(axis=1) == truth
    error = calibration_error(found.max(axis=1), right)
    figures = {"accuracy": 100 * float(right.mean()), "error": 100 * error, "seconds": seconds}
    return {"job": job, **{name: round(value, 2) for name, value in figures.items()}}


def print_table(rows: list[Row], sets: list[str], methods: list[str]) -> None:
    """Mean accuracy / calibration error by set and method, with the number of seeds, and the means over sets."""
    print("| set | " + " | ".join(methods) + " |\n|---" + "|---" * len(methods) + "|")
    every: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    for name in sets:
        cells = []
        for method in methods:
            own = [row for row in rows if row["job"]["set"] == name and row["job"]["method"] == method]
            own = [row for row in own if "failed" not in row]
            if own:
                accuracy, error = (float(np.mean([row[key] for row in own])) for key in ("accuracy", "error"))
                every[method].append((accuracy, error))
                cells.append(f"{accuracy:.1f} / {error:.1f} ({len(own)})")
            else:
                cells.append("")
        print(f"| {name} | " + " | ".join(cells) + " |")
    means = [np.mean(every[method], axis=0) if len(every[method]) == len(sets) else None for method in methods]
    print("| mean | " + " | ".join("" if one is None else f"{one[0]:.1f} / {one[1]:.1f}" for one in means) + " |")


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    a = parser.parse_args()
    jobs = [{"set": s, "method": m, "seed": seed} for seed in range(a.seeds) for s in a.sets for m in a.methods]
    if a.table:
        done = read_rows(ROWS)
        rows = [done[key_of(job)] for job in jobs if key_of(job) in done]
    else:
        rows = measure(jobs, run, ROWS, processes=a.processes)
    print_table(rows, a.sets, a.methods)


if __name__ == "__main__":
    main()

"""The default classifier beside what one would write by hand and beside peers, on sets with features.

    CROWDPRISM_DATA=... python benchmarks/defaults.py [--seeds 5] [--methods default before-auto] [--sets music movie]

Rows go to results/defaults.jsonl: test accuracy, calibration error of the probabilities (ten equal-count bins) and
seconds. Sets without a test split are split by seed, three quarters to train. `before-auto`: features standardized one
by one, no input noise, probabilities as they come. Only the methods named `true` see clean labels. The peers cleanlab
(`crowdlab`) and scikit-activeml (`ska-*`) are installed beside crowdprism by `pip install -r
benchmarks/feature_peers.txt`. `--table` runs nothing, prints the rows that are there, and renews the tables of
docs/results/defaults.md.
"""

from __future__ import annotations

import argparse
import re
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
PAGE = Path(__file__).parents[1] / "docs" / "results" / "defaults.md"
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
HEADS = {
    "before-auto": "before",
    "five-heads": "five heads",
    "lr-true": "regression on true labels",
    "lr-votes": "votes",
    "lr-soft": "soft votes",
    "lr-ds": "Dawid-Skene labels",
    "crowdlab": "CROWDLAB",
    "ska-annot-mix": "annot-mix",
    "ska-crowdlayer": "CrowdLayer",
}
TITLES = {
    "labelme_vgg": "LabelMe, 512 VGG-16 averages",
    "labelme_eff": "LabelMe, 1280 EfficientNet-Lite0",
    "music": "Music, 124 audio features",
    "sentiment": "sentiment polarity, 1500 items",
    "amazon": "Amazon reviews",
    "movie": "film reviews, three classes",
    "cifar10s": "CIFAR-10S",
    "cifar10h": "CIFAR-10H, 3 labels per image",
    "cifar10n": "CIFAR-10N, 1500 images",
    "sim_longtail": "simulated, long tail",
    "sim_one_label": "simulated, one label per item",
    "sim_pair_flips": "simulated, pair flips",
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


def figures(rows: list[Row], set_name: str, method: str) -> list[tuple[float, float]]:
    """Accuracy and calibration error of each seed."""
    own = [row for row in rows if (row["job"]["set"], row["job"]["method"]) == (set_name, method)]
    return [(row["accuracy"], row["error"]) for row in own if "failed" not in row]


def table(rows: list[Row], sets: list[str], methods: list[str]) -> str:
    """Mean accuracy / calibration error by set and method, with the number of seeds, and the means over sets."""
    lines = [["set", *(HEADS.get(method, method) for method in methods)], ["---"] * (len(methods) + 1)]
    every: dict[str, list[NDArray[np.float64]]] = {name: [] for name in methods}
    for name in sets:
        line = [TITLES[name]]
        for method in methods:
            own = figures(rows, name, method)
            if own:
                every[method].append(np.mean(own, axis=0))
            there = any((row["job"]["set"], row["job"]["method"]) == (name, method) for row in rows)
            absent = "refused" if there else ""
            line.append("{:.1f} / {:.1f} ({})".format(*every[method][-1], len(own)) if own else absent)
        lines.append(line)
    means = []
    for found in every.values():
        told = "{:.1f} / {:.1f}".format(*np.mean(found, axis=0)) if found else ""
        means.append(told if len(found) in (0, len(sets)) else f"{told} of {len(found)}")
    lines.append(["mean", *means])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def targets(rows: list[Row]) -> str:
    """The default beside what was before: the figures that its targets are about."""
    means = {
        method: np.array([np.mean(figures(rows, name, method), axis=0) for name in SETS if figures(rows, name, method)])
        for method in ("before-auto", "default")
    }
    if any(len(found) < len(SETS) for found in means.values()):
        return "Some sets are missing.\n"
    gain = (means["default"] - means["before-auto"])[:, 0]
    worst = list(SETS)[int(gain.argmin())]
    seconds = [float(np.mean([row["seconds"] for row in rows if row["job"]["method"] == method])) for method in means]
    lines = [
        ["", "measured", "target"],
        ["---"] * 3,
        ["mean accuracy above before, points", f"{gain.mean():+.2f}", "at least 2"],
        ["mean calibration error", f"{means['default'][:, 1].mean():.2f}", "at most 6"],
        ["largest loss of a set, points", f"{-gain.min():.2f} ({TITLES[worst]})", "at most 1.5"],
        ["processor seconds of a fit, before and default", f"{seconds[0]:.1f} and {seconds[1]:.1f}", ""],
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def renew_page(rows: list[Row]) -> None:
    """Renew the blocks of the page between `<!-- table methods -->` or `<!-- targets -->` and `<!-- end -->`."""

    def block(match: re.Match[str]) -> str:
        words = match[2].split()
        text = targets(rows) if words[0] == "targets" else table(rows, list(SETS), words[1:])
        return f"{match[1]}\n{text}\n<!-- end -->"

    text = PAGE.read_text(encoding="utf-8")
    blocks = r"(<!-- ((?:table|targets)[^>]*?) -->\n).*?<!-- end -->"
    PAGE.write_text(re.sub(blocks, block, text, flags=re.DOTALL), encoding="utf-8")


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
    print(table(rows, a.sets, a.methods), targets(rows), sep="\n")
    if a.table:
        renew_page(list(read_rows(ROWS).values()))


if __name__ == "__main__":
    main()

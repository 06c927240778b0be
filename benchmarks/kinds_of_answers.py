"""Several choices, ordered classes and comparisons on simulated crowds, beside simpler methods and crowd-kit.

    python benchmarks/kinds_of_answers.py                 F1 of choices, errors of ratings, a million comparisons
    CROWDPRISM_PEER_PYTHON=.../python benchmarks/kinds_of_answers.py     and crowd-kit's BradleyTerry on the same file

Data sets of ratings (adult, weather_cf, weather_amt, relevance) are measured where CROWDPRISM_DATA has them.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import crowdprism as cp
from crowdprism.aggregators.multi_label import fit_choices
from crowdprism.annotations.choice_sets import MultiLabelAnnotations

PEER = """
import sys, time, json, pandas as pd
from crowdkit.aggregation import BradleyTerry
frame = pd.read_csv(sys.argv[1])
start = time.perf_counter()
scores = BradleyTerry(n_iter=300, tol=-1).fit_predict(frame)  # its own stopping rule ends after two iterations
print(json.dumps({"seconds": time.perf_counter() - start, "scores": scores.to_dict()}))
"""


def choices(seed: int) -> tuple[MultiLabelAnnotations, np.ndarray]:
    """400 items, 30 annotators, 10 choices of which 2 to 40 % of items have each, 4 answers per item."""
    rng = np.random.default_rng(seed)
    truth = rng.random((400, 10)) < np.exp(rng.uniform(np.log(0.02), np.log(0.4), 10))
    finds, spares = rng.normal(1.3, 1, 30), rng.normal(3, 1, 30)
    hard = rng.normal(0, 0.6, (2, 10))
    rows = []
    for item in range(400):
        for person in rng.choice(30, 4, replace=False):
            logit = np.where(truth[item], finds[person] + hard[0], -spares[person] - hard[1])
            rows.append((item, int(person), np.flatnonzero(rng.random(10) < 1 / (1 + np.exp(-logit))).tolist()))
    items, people, chosen = zip(*rows, strict=True)
    return MultiLabelAnnotations.from_triplets(items, people, chosen, choices=list(range(10))), truth


def ratings(seed: int) -> tuple[cp.Annotations, np.ndarray]:
    """300 items of 5 ordered classes, 25 annotators with a bias and a spread, 4 ratings per item."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(5, 300, p=rng.dirichlet(np.full(5, 5)))
    bias, spread = rng.normal(0, 0.6, 25), np.exp(rng.normal(-0.3, 0.5, 25))
    item = np.repeat(np.arange(300), 4)
    who = np.concatenate([rng.choice(25, 4, replace=False) for _ in range(300)])
    label = np.clip(np.round(truth[item] + bias[who] + spread[who] * rng.normal(size=1200)), 0, 4).astype(int)
    return cp.Annotations.from_triplets(item, who, label, classes=list(range(5))), truth


def f1(probabilities: np.ndarray, truth: np.ndarray) -> float:
    found = probabilities > 0.5
    return float(2 * (found & truth).sum() / (found.sum() + truth.sum()))


def absolute_error(annotations: cp.Annotations, truth: np.ndarray, known: np.ndarray, method: str) -> float:
    fitted = cp.make_aggregator(method, dependence=None).fit(annotations.with_gold(None))
    return float(np.abs(fitted.result_.class_probabilities.argmax(axis=1) - truth)[known].mean())


def measure_choices() -> dict[str, float]:
    crowds = [choices(seed) for seed in range(6)]
    options = {"shared prior": {}, "each alone": {"shared_prior": False}, "votes": {"method": "majority-vote"}}
    return {
        name: float(np.mean([f1(fit_choices(a, **how).probabilities, truth) for a, truth in crowds]))  # type: ignore[arg-type]
        for name, how in options.items()
    }


def measure_ratings() -> dict[str, dict[str, float]]:
    methods = ("dawid-skene", "ordinal-dawid-skene")
    crowds = [ratings(seed) for seed in range(8)]
    everything = np.ones(300, dtype=bool)
    found = {
        "simulated": {m: float(np.mean([absolute_error(*crowd, everything, m) for crowd in crowds])) for m in methods}
    }
    if "CROWDPRISM_DATA" in os.environ:
        for name in ("adult", "weather_cf", "weather_amt", "relevance"):
            data = cp.load_dataset(name).annotations
            known = ~np.ma.getmaskarray(data.gold) & (data.labels_per_item > 0)
            found[name] = {m: absolute_error(data, data.gold.filled(0), known, m) for m in methods}
    return found


def measure_comparisons(n: int = 1_000_000, n_items: int = 100) -> dict[str, float]:
    rng = np.random.default_rng(0)
    score = rng.normal(size=n_items)
    left = rng.integers(n_items, size=n)
    right = (left + rng.integers(1, n_items, size=n)) % n_items
    winner = np.where(rng.random(n) < 1 / (1 + np.exp(score[right] - score[left])), left, right)
    names = {"left": left, "right": right, "label": winner, "worker": rng.integers(500, size=n)}
    frame = pl.DataFrame({name: [f"i{one}" for one in column] for name, column in names.items()})
    columns = [frame[name] for name in ("left", "right", "label")]
    cp.rank(*columns)  # starts the threads of polars
    start = time.perf_counter()
    plain = cp.rank(*columns, prior=False, position_bias=False)
    middle = time.perf_counter()
    cp.rank(*columns, frame["worker"])
    found = {"plain seconds": middle - start, "with judges seconds": time.perf_counter() - middle}
    if "CROWDPRISM_PEER_PYTHON" in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "pairs.csv")
            frame.write_csv(path)
            command = [os.environ["CROWDPRISM_PEER_PYTHON"], "-c", PEER, str(path)]
            peer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        strengths = np.exp(plain.scores) / np.exp(plain.scores).sum()
        theirs = np.array([peer["scores"][name] for name in plain.items.tolist()])
        found |= {
            "crowd-kit seconds": peer["seconds"],
            "largest difference": float(np.abs(strengths / theirs - 1).max()),
        }
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({"F1 of choices": measure_choices(), "absolute error of ratings": measure_ratings()}, indent=2))
    print(json.dumps({"a million comparisons": measure_comparisons()}, indent=2))

"""Several choices, ordered classes and comparisons on simulated crowds, beside simpler methods and crowd-kit.

    python benchmarks/kinds_of_answers.py                 F1 of choices, errors of ratings, a million comparisons
    python benchmarks/kinds_of_answers.py --comparisons   the last alone
    CROWDPRISM_PEER_PYTHON=.../python benchmarks/kinds_of_answers.py     and crowd-kit's BradleyTerry, by turns

Data sets of ratings (adult, weather_cf, weather_amt, relevance) are measured where CROWDPRISM_DATA has them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import crowdprism as cp
from crowdprism.aggregators.multi_label import fit_choices
from crowdprism.annotations.choice_sets import MultiLabelAnnotations
from crowdprism.scoring import Comparisons
from measured import RESULTS, store

ROUNDING = 1e-12
PEER = """
import sys, time, json, pandas as pd
from crowdkit.aggregation import BradleyTerry
frame = pd.read_csv(sys.argv[1])
start, begun = time.perf_counter(), time.process_time()
scores = BradleyTerry(n_iter=300, tol=-1).fit_predict(frame)  # its own stopping rule ends after two iterations
seconds = {"seconds": time.perf_counter() - start, "processor": time.process_time() - begun}
print(json.dumps({**seconds, "scores": scores.to_dict()}))
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


def absolute_errors(annotations: cp.Annotations, truth: np.ndarray, known: np.ndarray, method: str) -> list[float]:
    """Mean absolute error of the most probable class, and of the median, which minimises what is expected of it."""
    name, _, form = method.partition(", ")
    likelihood: dict[str, Any] = {"prior_strength": 0.0} if form else {}
    found = cp.make_aggregator(name, dependence=None, **likelihood).fit(annotations.with_gold(None)).result_
    median = (found.class_probabilities.cumsum(axis=1) < 0.5 - ROUNDING).sum(axis=1)
    decisions = (found.class_probabilities.argmax(axis=1), median)
    return [float(np.abs(decided - truth)[known].mean()) for decided in decisions]


def measure_choices() -> dict[str, float]:
    crowds = [choices(seed) for seed in range(6)]
    options = {"shared prior": {}, "each alone": {"shared_prior": False}, "votes": {"method": "majority-vote"}}
    return {
        name: float(np.mean([f1(fit_choices(a, **how).probabilities, truth) for a, truth in crowds]))  # type: ignore[arg-type]
        for name, how in options.items()
    }


def measure_ratings() -> dict[str, dict[str, list[float]]]:
    methods = ("dawid-skene, maximum likelihood", "dawid-skene", "ordinal-dawid-skene")
    crowds = [ratings(seed) for seed in range(8)]
    everything = np.ones(300, dtype=bool)
    errors = {m: np.mean([absolute_errors(*crowd, everything, m) for crowd in crowds], axis=0) for m in methods}
    found = {"simulated": {m: values.tolist() for m, values in errors.items()}}
    if "CROWDPRISM_DATA" in os.environ:
        for name in ("adult", "weather_cf", "weather_amt", "relevance"):
            data = cp.load_dataset(name).annotations
            known = ~np.ma.getmaskarray(data.gold) & (data.labels_per_item > 0)
            found[name] = {m: absolute_errors(data, data.gold.filled(0), known, m) for m in methods}
    return found


def comparison_columns(n: int, n_items: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    score = rng.normal(size=n_items)
    left = rng.integers(n_items, size=n)
    right = (left + rng.integers(1, n_items, size=n)) % n_items
    winner = np.where(rng.random(n) < 1 / (1 + np.exp(score[right] - score[left])), left, right)
    names = {"left": left, "right": right, "label": winner, "worker": rng.integers(500, size=n)}
    return pl.DataFrame({name: [f"i{one}" for one in column] for name, column in names.items()})


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def measure_comparisons(n: int = 1_000_000, n_items: int = 100, rounds: int = 5) -> dict[str, Any]:
    """Seconds from a frame of polars in memory to scores, the peer from one of pandas, and of the fit alone; by turns.

    Seconds of processor time, in which another program's share is not counted, stand beside those of the clock.
    """
    frame = comparison_columns(n, n_items)
    columns = [frame[name] for name in ("left", "right", "label")]
    plain: dict[str, Any] = {"prior": False, "position_bias": False}
    cp.rank(*columns)  # starts the threads of polars
    from_pandas = frame.rename({"label": "winner"}).drop("worker").to_pandas()
    found: dict[str, Any] = {"plain": [], "from pandas": [], "fit alone": [], "crowd-kit": []}
    found |= {"plain, processor": [], "crowd-kit, processor": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pairs.csv")
        frame.write_csv(path)
        for _ in range(rounds):
            begun = time.process_time()
            ranking, seconds = timed(lambda: cp.rank(*columns, **plain))
            found["plain"].append(seconds)
            found["plain, processor"].append(time.process_time() - begun)
            found["from pandas"].append(timed(lambda: cp.rank(from_pandas, **plain))[1])
            codes = Comparisons.from_columns(*columns)
            found["fit alone"].append(timed(lambda codes=codes: cp.rank(codes, **plain))[1])
            if "CROWDPRISM_PEER_PYTHON" in os.environ:
                command = [os.environ["CROWDPRISM_PEER_PYTHON"], "-c", PEER, str(path)]
                peer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
                found["crowd-kit"].append(peer["seconds"])
                found["crowd-kit, processor"].append(peer["processor"])
                strengths = np.exp(ranking.scores) / np.exp(ranking.scores).sum()
                theirs = np.array([peer["scores"][name] for name in ranking.items.tolist()])
                found["largest difference"] = float(np.abs(strengths / theirs - 1).max())
    found["with judges"] = [timed(lambda: cp.rank(*columns, frame["worker"]))[1]]
    if found["crowd-kit"]:
        for kind, clock in (("", ""), (", processor", " by processor time")):
            ratio = np.median(found[f"crowd-kit{kind}"]) / np.median(found[f"plain{kind}"])
            found[f"times as fast{clock}"] = float(ratio)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    path = RESULTS / "kinds_of_answers.json"
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    record["load"] = os.getloadavg()[0]
    if "--comparisons" not in sys.argv:
        record |= {"F1 of choices": measure_choices(), "absolute error of ratings": measure_ratings()}
    record["seconds of a million comparisons"] = measure_comparisons()
    print(json.dumps(record, indent=2))
    store("kinds_of_answers", {key: value for key, value in record.items() if key not in ("machine", "versions")})

"""What the crowd costs: time of a whole fit against plain training of the same network on voted labels.

Run: python benchmarks/whole_fit.py [--rounds 5] [--threads 2] [--annotators 50 1000 20000] [--epochs 10] [--busy]

An MLP on 128 features, 20,000 items with three labels each, ten classes, ten epochs, batches as `batch_size="auto"`
makes them. "plain" is what anybody would write: majority vote, then a loop with cross-entropy and torch's fused Adam
on standardized features. Ours is `GeoCrowdNet(...).fit(X, annotations)` from start to end, without a regulariser, with
F and with W. With 20,000 annotators each has three labels, and the confusions take the form of one skill each.

All take turns, in an order drawn anew for each round, so that other load on the machine hits all alike; reported is
the median over rounds of the ratio to the plain training of the same round. Plain training runs on as many threads as
our fit chose by the size of the work, and once more on as many as torch was given ("plain, all threads").

With --busy another process keeps one core busy meanwhile. It ends by itself after a bounded time, and is ended by its
id when the measurement is over.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch.nn import functional

from crowdprism import Annotations, make_aggregator
from crowdprism.classifiers import GeoCrowdNet
from crowdprism.networks import build_network
from crowdprism.seeding import stream, torch_stream
from measured import store

N_ITEMS, N_FEATURES, N_CLASSES, LABELS, BATCH = 20_000, 128, 10, 3, 64
GOALS = {50: (1.5, 1.7, 2.0), 1000: (2.7, 2.9, 3.5), 20_000: (2.0, 2.0, 3.0)}
REGULARIZERS = (None, "F", "W")
LEARNING_RATE, WEIGHT_DECAY = 3e-3, 5e-3  # the defaults of our classifiers
LONGEST_BUSY = 3600  # seconds after which the busy process ends by itself
BUSY_LOOP = f"import time\nend = time.monotonic() + {LONGEST_BUSY}\nwhile time.monotonic() < end: pass"


def make_data(n_annotators: int) -> tuple[np.ndarray, Annotations]:
    random = stream(0, "whole fit")
    truth = random.integers(N_CLASSES, size=N_ITEMS)
    centres = random.normal(size=(N_CLASSES, N_FEATURES))
    features = (0.3 * centres[truth] + random.normal(size=(N_ITEMS, N_FEATURES))).astype(np.float32)
    item = np.repeat(np.arange(N_ITEMS), LABELS)
    annotator = random.integers(n_annotators, size=len(item))
    label = np.where(random.random(len(item)) < 0.7, truth[item], random.integers(N_CLASSES, size=len(item)))
    annotations = Annotations.from_triplets(
        item,
        annotator,
        label,
        classes=range(N_CLASSES),
        annotator_names=range(n_annotators),
        item_names=range(N_ITEMS),
    )
    return features, annotations


def train_plain(features: np.ndarray, annotations: Annotations, epochs: int, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    votes = make_aggregator("majority-vote").fit(annotations).result_.class_probabilities.argmax(axis=1)
    X, y = torch.from_numpy(features), torch.from_numpy(votes)
    X = (X - X.mean(dim=0)) / X.std(dim=0)
    network = build_network("mlp", (N_FEATURES,), N_CLASSES, generator=torch_stream(0, "weights")).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    order = torch_stream(0, "shuffle")
    for _ in range(epochs):
        for index in torch.randperm(N_ITEMS, generator=order).split(BATCH):
            loss = functional.cross_entropy(network(X[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.set_num_threads(before)


def fit_ours(features: np.ndarray, annotations: Annotations, epochs: int, regularizer: str | None) -> int:
    """Fit, and return how many threads were used."""
    used: list[int] = []
    model = GeoCrowdNet(
        regularizer=regularizer,  # type: ignore[arg-type]
        epochs=epochs,
        device="cpu",
        standardize=True,
        input_noise=0.0,
        temperature=1.0,
        callbacks=[lambda record: used.append(record.threads)],
    )
    model.fit(features, annotations)
    return used[-1]


def measure(n_annotators: int, *, rounds: int, epochs: int, threads: int) -> dict[str, dict[str, float]]:
    """Median seconds and ratio to plain training, by variant."""
    features, annotations = make_data(n_annotators)
    chosen = fit_ours(features, annotations, 1, None)  # also warms caches
    variants: dict[str, Callable[[], object]] = {
        "plain": lambda: train_plain(features, annotations, epochs, chosen),
        "plain, all threads": lambda: train_plain(features, annotations, epochs, threads),
    }
    for regularizer in REGULARIZERS:
        variants[str(regularizer)] = lambda kind=regularizer: fit_ours(features, annotations, epochs, kind)
    random = stream(1, "order")
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name in random.permutation(list(variants)).tolist():
            begun = time.perf_counter()
            variants[name]()
            seconds[name].append(time.perf_counter() - begun)
    goals = dict(zip(map(str, REGULARIZERS), GOALS.get(n_annotators, ()), strict=False))
    return {
        name: {
            "annotators": n_annotators,
            "seconds": statistics.median(taken),
            "ratio": statistics.median(a / b for a, b in zip(taken, seconds["plain"], strict=True)),
            "threads": threads if name.endswith("all threads") else chosen,
            **({"goal": goals[name]} if name in goals else {}),
        }
        for name, taken in seconds.items()
    }


@contextmanager
def busy_core(wanted: bool) -> Iterator[None]:
    """Keep one core busy by a process of our own."""
    if not wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", BUSY_LOOP])
    try:
        yield
    finally:
        process.kill()  # by its id
        process.wait()


def main() -> int:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--annotators", type=int, nargs="+", default=list(GOALS))
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--busy", action="store_true", help="while another process keeps one core busy")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    rows = []
    with busy_core(options.busy):
        print(f"{'annotators':>10} {'variant':>18} {'threads':>7} {'seconds':>8} {'ratio':>6} {'goal':>5}")
        for n_annotators in options.annotators:
            found = measure(n_annotators, rounds=options.rounds, epochs=options.epochs, threads=options.threads)
            for name, row in found.items():
                goal = row.get("goal")
                told = "" if goal is None else f"{goal:.1f}" + (" !" if row["ratio"] > goal else "")
                figures = f"{row['threads']:7} {row['seconds']:8.2f} {row['ratio']:6.2f}"
                print(f"{n_annotators:10} {name:>18} {figures} {told:>5}", flush=True)
                rows.append({"variant": name, **row})
    settings = {name: getattr(options, name) for name in ("rounds", "epochs", "threads", "busy")}
    store("whole_fit_busy" if options.busy else "whole_fit", {"rows": rows, **settings, "load": os.getloadavg()[0]})
    return int(any(row["ratio"] > row.get("goal", np.inf) for row in rows) and not options.busy)


if __name__ == "__main__":
    sys.exit(main())

"""Cost of one training step of every classifier with few and with many annotators, on the same network and batches.

Run: python benchmarks/method_step_cost.py [--rounds 10] [--threads 2] [--methods NAME ...]

LeNet-5, 128 items a batch, about 3 annotations each, 10 classes; an epoch is 32 steps. All methods take turns, one
epoch each, so that other load hits all alike. A step with M = 10 000 annotators should cost what it costs with 59.
Union-Net is an exception by definition: its normaliser sums over all annotators and labels, once a step in variant B
(10^6 numbers here) and once for each item of the batch in variant A (128 times as many), and all of them have a
gradient; these sums are taken a block at a time. annot-mix mixes annotations, not items, so its network sees three
times the rows of the others, whatever the number of annotators.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch

from crowdprism.annotations import Annotations
from crowdprism.classifiers import CLASSIFIERS, make_classifier
from crowdprism.seeding import stream
from crowdprism.training import Trainer
from measured import store

BATCH, LABELS, N_ITEMS, N_CLASSES, FEW, MANY = 128, 3, 4096, 10, 59, 10_000
LIMIT = 1.25  # of a step with many annotators against one with few
BY_DEFINITION = {"unionnet-a", "unionnet-b"}


def make_data(n_annotators: int) -> tuple[np.ndarray, Annotations]:
    random = stream(0, "step cost")
    images = random.random((N_ITEMS, 1, 28, 28), dtype=np.float32)
    truth = random.integers(N_CLASSES, size=N_ITEMS)
    item = np.repeat(np.arange(N_ITEMS), LABELS)
    annotator = random.integers(n_annotators, size=len(item))
    label = np.where(random.random(len(item)) < 0.7, truth[item], random.integers(N_CLASSES, size=len(item)))
    names = {"annotator_names": range(n_annotators), "item_names": range(N_ITEMS)}
    return images, Annotations.from_triplets(item, annotator, label, classes=range(N_CLASSES), **names)


def method_epoch(name: str, n_annotators: int) -> Callable[[], object]:
    """One epoch of a method's own training, as `fit` would take it."""
    images, annotations = make_data(n_annotators)
    model = make_classifier(name, network="lenet5", batch_size=BATCH, epochs=1, warm_start=0.0, device="cpu")
    run = model.make_run(model.prepare(images, annotations).problem)

    def epoch() -> None:
        Trainer(run.network, run.head, run.problem.items, run.problem.flat, run.settings).run()

    return epoch


def measure(names: list[str], rounds: int) -> dict[str, tuple[float, float]]:
    """Median processor milliseconds of a step with few and with many annotators, by method."""
    epochs = {(name, size): method_epoch(name, size) for name in names for size in (FEW, MANY)}
    taken: dict[tuple[str, int], list[float]] = {key: [] for key in epochs}
    for _ in range(rounds):
        for key, epoch in epochs.items():
            begun = time.process_time()
            epoch()
            taken[key].append(1e3 * (time.process_time() - begun) * BATCH / N_ITEMS)
    return {name: (statistics.median(taken[name, FEW]), statistics.median(taken[name, MANY])) for name in names}


def main() -> int:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--methods", nargs="+", default=[name for name in CLASSIFIERS if name != "two-stage"])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    print(f"{'method':20} {f'ms M={FEW}':>9} {f'ms M={MANY}':>11} {'growth':>7}")
    rows, grown = [], []
    for name, (few, many) in measure(options.methods, options.rounds).items():
        note = " (sums over all annotators by definition)" if name in BY_DEFINITION else ""
        if many / few > LIMIT and not note:
            grown.append(name)
            note = " !"
        print(f"{name:20} {few:9.2f} {many:11.2f} {many / few:7.2f}{note}")
        rows.append({"method": name, "few": few, "many": many, "growth": many / few})
    store("method_step_cost", {"rows": rows, "annotators": [FEW, MANY], **vars(options)})
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())

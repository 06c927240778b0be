"""Cost of one training step of every classifier with few and with many annotators, on the same network and batches.

Run: python benchmarks/method_step_cost.py [--rounds 30] [--threads 2] [--methods NAME ...] [--output FILE]

LeNet-5, 128 items a batch, about 3 annotations each, 10 classes. All methods take turns, one step each, so that other
load hits all alike. A step with M = 10 000 annotators should cost what it costs with 59. Union-Net is an exception
by definition: its normaliser sums over all annotators and labels, once a step in variant B (10^6 numbers here) and
once for each item of the batch in variant A (128 times as many), and all of them have a gradient; these sums are
taken a block at a time. annot-mix mixes annotations, not items, so its network sees three times the rows of the
others, whatever the number of annotators.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path

import numpy as np
import torch

from crowdprism.annotations import Annotations
from crowdprism.classifiers import CLASSIFIERS, make_classifier
from crowdprism.classifiers.fitting import Problem
from crowdprism.files import replacing_file
from crowdprism.training import FlatAnnotations, InputScaling, TensorItems, Trainer
from step_cost import BATCH, CPU, Variant, interleaved, make_data, plain_step

N_CLASSES, FEW, MANY = 10, 59, 10_000
LIMIT = 1.25  # of a step with many annotators against one with few, both divided by plain cross-entropy
BY_DEFINITION = {"unionnet-a", "unionnet-b"}


def method_step(name: str, images: torch.Tensor, annotations: Annotations) -> Variant:
    """One optimiser step of a method's own training, as `fit` would take it."""
    model = make_classifier(name, network="lenet5", batch_size=BATCH, epochs=1000, warm_start=0.0, device="cpu")
    flat = FlatAnnotations.of(annotations)
    items = TensorItems(images, InputScaling.identity(), CPU)
    problem = Problem(annotations, flat, items, BATCH, CPU, seed=0)
    run = model.make_run(problem)
    trainer = Trainer(run.network, run.head, items, flat, run.settings)
    trainer.network.train()
    trainer.head.train()
    trainer.head.start_epoch(0)
    random, lent = np.random.default_rng(0), torch.Generator()

    def step(index: np.ndarray) -> None:
        batch = flat.batch(index, next(iter(items.batches([index], None))))
        trainer._step(trainer.head.transform(batch, random), 0, 0, lent)

    return Variant(None, step)


def measure(names: list[str], n_annotators: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Median milliseconds of a step and its ratio (by processor time) to plain cross-entropy, by method."""
    images, truth, annotations = make_data(n_annotators, N_CLASSES)
    variants = {"plain": plain_step(images, truth, N_CLASSES)}
    variants |= {name: method_step(name, images, annotations) for name in names}
    medians = {name: np.median(taken, axis=0) for name, taken in interleaved(variants, rounds).items()}
    return {name: (1e3 * float(taken[0]), float(taken[1] / medians["plain"][1])) for name, taken in medians.items()}


def main() -> int:
    """Measure, print and store; the exit code tells whether a method grew beyond the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--methods", nargs="+", default=[name for name in CLASSIFIERS if name != "two-stage"])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "method_step_cost.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    few, many = (measure(options.methods, n_annotators, options.rounds) for n_annotators in (FEW, MANY))
    print(f"{'method':20} {'ms M=59':>9} {'x plain':>8} {'ms M=10000':>11} {'x plain':>8} {'growth':>7}")
    rows, grown = [], []
    for name in options.methods:
        growth = many[name][1] / few[name][1]
        note = " (sums over all annotators by definition)" if name in BY_DEFINITION else ""
        if growth > LIMIT and not note:
            grown.append(name)
            note = " !"
        (ms_few, x_few), (ms_many, x_many) = few[name], many[name]
        print(f"{name:20} {ms_few:9.2f} {x_few:8.2f} {ms_many:11.2f} {x_many:8.2f} {growth:7.2f}{note}")
        rows.append({"method": name, "few": few[name], "many": many[name], "growth": growth})
    record = {
        "rows": rows,
        "annotators": [FEW, MANY],
        "rounds": options.rounds,
        "threads": options.threads,
        "load": os.getloadavg()[0],
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    with replacing_file(options.output) as path:
        path.write_text(json.dumps(record, indent=1), encoding="utf-8")
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())

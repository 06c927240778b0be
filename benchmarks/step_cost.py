"""What the crowd costs: time of one training step against plain cross-entropy, with the same network and optimiser.

Run: python benchmarks/step_cost.py [--rounds 100] [--threads 2] [--output benchmarks/results/step_cost.json]

LeNet-5, batches of 128 items with about 3 annotations each, whole steps (gather the batch, forward, loss, backward,
optimiser). The variants take turns, one step each, so that other load on the machine hits all alike; reported is the
median over rounds of the ratio to the plain step of the same round, by wall clock and by processor time.

"plain" is what anybody would write, with torch's fused Adam; "lean" is the same with the Adam of our loop, and shows
how much of the crowd's cost that saves. "dense" is the form that published code uses: the confusions of all annotators
times the predictions of all items, masked afterwards, with Adam on every logit. Off the clock, all networks get the
weights of the plain one after each round: max pooling branches on its inputs and takes up to 0.4 ms longer for the
weights that F learns from these random images, which would be counted as the crowd's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from crowdprism.annotations import Annotations
from crowdprism.files import replacing_file
from crowdprism.networks import GeometricHead, build_network, diagonal_confusions, make_annotator_layer
from crowdprism.seeding import torch_stream
from crowdprism.training import (
    FlatAnnotations,
    InputScaling,
    TensorItems,
    Trainer,
    TrainingSettings,
    make_optimizer,
)

BATCH, LABELS, N_ITEMS = 128, 3, 4096
LIMITS = {5: 1.05, 59: 1.05, 500: 1.05, 2571: 1.10, 10_000: 1.10, 100_000: 1.10}
LIMIT_W, LIMIT_MANY_CLASSES = 1.25, 2.0
LARGEST_DENSE = 10_000
MOST_ROUNDS, WARM = 300, 5  # the first rounds warm caches and are not counted
CPU = torch.device("cpu")


@dataclass
class Variant:
    """One way to take a step on the items of a batch, and the network that it trains where that is just LeNet-5."""

    network: nn.Module | None
    step: Callable[[np.ndarray], None]


@dataclass
class Row:
    """One measured variant."""

    n_classes: int
    n_annotators: int
    variant: str
    milliseconds: float
    ratio: float
    processor_ratio: float
    limit: float | None


def make_data(n_annotators: int, n_classes: int) -> tuple[torch.Tensor, torch.Tensor, Annotations]:
    random = np.random.default_rng(0)
    images = torch.from_numpy(random.random((N_ITEMS, 1, 28, 28), dtype=np.float32))
    truth = random.integers(n_classes, size=N_ITEMS)
    item = np.repeat(np.arange(N_ITEMS), LABELS)
    annotator = random.integers(n_annotators, size=len(item))
    label = np.where(random.random(len(item)) < 0.7, truth[item], random.integers(n_classes, size=len(item)))
    annotations = Annotations.from_triplets(
        item, annotator, label, classes=range(n_classes), annotator_names=range(n_annotators), item_names=range(N_ITEMS)
    )
    return images, torch.from_numpy(truth), annotations


def batches() -> list[np.ndarray]:
    """Items of each round, the same for every variant."""
    random = np.random.default_rng(1)
    return [random.permutation(N_ITEMS)[:BATCH] for _ in range(MOST_ROUNDS + WARM)]


def lenet(n_classes: int) -> nn.Module:
    return build_network("lenet5", (1, 28, 28), n_classes, generator=torch_stream(0, "weights"))


def plain_step(images: torch.Tensor, truth: torch.Tensor, n_classes: int, *, lean: bool = False) -> Variant:
    network = lenet(n_classes).train()
    trained = list(network.parameters())
    optimizer: Any = make_optimizer("adam", [(trained, 1e-3, 0.0)], compiled=lean)

    def clear() -> None:
        for parameter in trained:
            parameter.grad = None

    forget = clear if lean else optimizer.zero_grad

    def step(index: np.ndarray) -> None:
        chosen = torch.from_numpy(index)
        loss = functional.cross_entropy(network(images.index_select(0, chosen)), truth.index_select(0, chosen))
        loss.item()
        forget()
        loss.backward()
        optimizer.step()

    return Variant(network, step)


def our_step(images: torch.Tensor, annotations: Annotations, *, regularizer: str | None, form: str = "free") -> Variant:
    flat = FlatAnnotations.of(annotations)
    layer = make_annotator_layer(form, diagonal_confusions(annotations.n_annotators, annotations.n_classes, 0.6))
    head = GeometricHead(
        layer,
        regularizer=regularizer,  # type: ignore[arg-type]
        strength=0.01,
        n_annotations=annotations.n_annotations,
        touch_rate=torch.from_numpy(flat.touch_rate(BATCH)),
    )
    items = TensorItems(images, InputScaling.identity(), CPU)
    settings = TrainingSettings(
        epochs=1000, batch_size=BATCH, learning_rate=1e-3, annotator_learning_rate=1e-2, device="cpu"
    )
    trainer = Trainer(lenet(annotations.n_classes), head, items, flat, settings)
    trainer.network.train()
    head.start_epoch(0)
    lent = torch.Generator()
    order = batches()
    gathered = zip(trainer._gathered(order), items.batches(order), strict=True)

    def step(index: np.ndarray) -> None:
        gather, features = next(gathered)
        trainer._step(gather(features), 0, 0, lent)

    return Variant(trainer.network, step)


def dense_step(images: torch.Tensor, annotations: Annotations) -> Variant:
    """The form of published code: einsum over all annotators, NLL with ignored cells, Adam on all logits."""
    network = lenet(annotations.n_classes).train()
    eye = torch.eye(annotations.n_classes)
    logits = nn.Parameter(eye.expand(annotations.n_annotators, -1, -1).clone())
    optimizer = torch.optim.Adam([*network.parameters(), logits], lr=1e-3, fused=True)

    def step(index: np.ndarray) -> None:
        labels = torch.from_numpy(annotations[index].to_dense().astype(np.int64))
        probs = network(images.index_select(0, torch.from_numpy(index))).softmax(-1)
        predicted = torch.einsum("bk,mkl->bml", probs, logits.softmax(-1))
        loss = functional.nll_loss(predicted.log().flatten(0, 1), labels.flatten(), ignore_index=-1)
        loss.item()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return Variant(network, step)


def interleaved(variants: dict[str, Variant], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Take turns: in each round every variant takes one step on the same batch, in an order drawn anew."""
    random = np.random.default_rng(2)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    names = list(variants)
    for turn, index in enumerate(batches()[: rounds + WARM]):
        for name in random.permutation(names):
            begun, begun_processor = time.perf_counter(), time.process_time()
            variants[name].step(index)
            if turn >= WARM:
                times[name].append((time.perf_counter() - begun, time.process_time() - begun_processor))
        equalize([variant.network for variant in variants.values() if variant.network is not None])
    return times


@torch.no_grad()
def equalize(networks: list[nn.Module]) -> None:
    """Give all networks the weights of the first, in place."""
    for network in networks[1:]:
        for own, first in zip(network.parameters(), networks[0].parameters(), strict=True):
            own.copy_(first)


def measure(n_annotators: int, n_classes: int, rounds: int) -> list[Row]:
    images, truth, annotations = make_data(n_annotators, n_classes)
    variants = {"plain": plain_step(images, truth, n_classes), "lean": plain_step(images, truth, n_classes, lean=True)}
    variants |= {str(kind): our_step(images, annotations, regularizer=kind) for kind in (None, "F", "W")}
    if n_classes > 10:
        variants["skill"] = our_step(images, annotations, regularizer=None, form="skill")
    if n_annotators <= LARGEST_DENSE:
        variants["dense"] = dense_step(images, annotations)
    times = interleaved(variants, rounds)
    medians = {name: np.median(taken, axis=0) for name, taken in times.items()}
    paired = {name: np.median(np.divide(taken, times["plain"]), axis=0) for name, taken in times.items()}
    return [
        Row(
            n_classes,
            n_annotators,
            name,
            1e3 * float(median[0]),
            float(paired[name][0]),
            float(paired[name][1]),
            limit_of(name, n_annotators, n_classes),
        )
        for name, median in medians.items()
    ]


def limit_of(variant: str, n_annotators: int, n_classes: int) -> float | None:
    if variant in ("plain", "lean", "dense"):
        return None
    if n_classes > 10:
        return LIMIT_MANY_CLASSES
    return LIMIT_W if variant == "W" else LIMITS[n_annotators]


def peak_memory() -> dict[str, float]:
    """Megabytes that fits of 1000 and 100 000 annotators add, against the table they would need if dense."""
    found = {}
    our_step(*make_data(10, 10)[::2], regularizer="F").step(batches()[0])  # what the first step of a process loads
    for n_annotators in (1000, 100_000):
        images, _, annotations = make_data(n_annotators, 10)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        variant = our_step(images, annotations, regularizer="F")
        for index in batches()[:3]:
            variant.step(index)
        found[f"added_mb_{n_annotators}"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
        found[f"items_x_annotators_mb_{n_annotators}"] = N_ITEMS * n_annotators * 4 / 2**20
        found[f"annotator_state_mb_{n_annotators}"] = 3 * n_annotators * 100 * 4 / 2**20
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "step_cost.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    memory = peak_memory()
    rows: list[Row] = []
    print(f"{'classes':>7} {'annotators':>10} {'variant':>8} {'ms':>8} {'ratio':>6} {'cpu':>6} {'limit':>6}")
    for n_annotators, n_classes in [*((n, 10) for n in LIMITS), (500, 100)]:
        for row in measure(n_annotators, n_classes, options.rounds):
            rows.append(row)
            limit = "" if row.limit is None else f"{row.limit:.2f}" + ("" if row.ratio <= row.limit else " !")
            print(
                f"{row.n_classes:7} {row.n_annotators:10} {row.variant:>8} {row.milliseconds:8.2f} "
                f"{row.ratio:6.3f} {row.processor_ratio:6.3f} {limit:>6}",
                flush=True,
            )
    print(json.dumps(memory, indent=1))
    record: dict[str, Any] = {
        "rows": [vars(row) for row in rows],
        "memory": memory,
        "rounds": options.rounds,
        "threads": options.threads,
        "load": os.getloadavg()[0],
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    with replacing_file(options.output) as path:
        path.write_text(json.dumps(record, indent=1), encoding="utf-8")
    return int(any(row.limit is not None and row.ratio > row.limit for row in rows))


if __name__ == "__main__":
    sys.exit(main())

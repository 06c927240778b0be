"""What processes gain: steps per second of LeNet-5 in one process and in two that torchrun starts, one thread each.

Run: python benchmarks/two_processes.py [--rounds 3] [--items 4096] [--batch 256]

Both train the same `GeoCrowdNet("F")` on the same images of 28 x 28 pixels with three labels each, in batches of the
same size, so that both take the same steps. They take turns; reported is the best of all rounds, because other load
on the machine only ever makes a run slower. The time is that of the steps alone: from the end of the first epoch to
the end of the last, by the first process, without start and compilation. The goal is 1.6 times the steps on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from crowdprism.classifiers import GeoCrowdNet
from crowdprism.seeding import stream
from crowdprism.simulate import one_coin, per_item, simulate_annotations
from crowdprism.training.distributed import process_group
from measured import store

GOAL, EPOCHS, LABELS, N_CLASSES = 1.6, 4, 3, 10
LAUNCHER = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


def train(n_items: int, batch_size: int, output: Path) -> None:
    """Fit, and let the first process write the steps per second."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    random = stream(0, "two processes")
    truth = random.integers(N_CLASSES, size=n_items)
    images = random.random((n_items, 1, 28, 28), dtype=np.float32)
    accuracies = random.uniform(0.5, 0.9, size=20)
    crowd = simulate_annotations(truth, one_coin(accuracies, N_CLASSES), per_item(n_items, 20, labels=LABELS))
    ends: list[float] = []
    given = {"standardize": False, "input_noise": 0.0, "temperature": 1.0, "device": "cpu", "dependence": None}
    model = GeoCrowdNet(regularizer="F", network="lenet5", epochs=EPOCHS, batch_size=batch_size, **given)
    model.callbacks = [lambda record: ends.append(time.perf_counter())]
    with process_group("cpu") as processes:
        model.fit(images, crowd.with_gold(None))
        if processes.rank == 0:
            n_steps = (EPOCHS - 1) * -(-n_items // batch_size)
            output.write_text(json.dumps(n_steps / (ends[-1] - ends[0])), encoding="utf-8")


def steps_per_second(n_processes: int, options: argparse.Namespace) -> float:
    """Run this file in processes of its own."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "steps.json"
        sizes = ["--items", str(options.items), "--batch", str(options.batch)]
        command = [sys.executable] if n_processes == 1 else [*LAUNCHER, str(n_processes)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([*command, __file__, *sizes, "--output", str(output)], check=True, env=environment)
        return float(json.loads(output.read_text(encoding="utf-8")))


def main() -> int:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--items", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)  # of the processes that train
    options = parser.parse_args()
    if options.output is not None:
        train(options.items, options.batch, options.output)
        return 0
    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for n_processes, rates in found.items():
            rates.append(steps_per_second(n_processes, options))
            print(f"{n_processes} process{'es' * (n_processes > 1)}: {rates[-1]:.1f} steps/s", flush=True)
    ratio = max(found[2]) / max(found[1])
    print(f"two processes take {ratio:.2f} times the steps of one (goal {GOAL})")
    settings = {"items": options.items, "batch": options.batch, "rounds": options.rounds}
    store("two_processes", {"steps_per_second": found, "ratio": ratio, "goal": GOAL, **settings})
    return int(ratio < GOAL)


if __name__ == "__main__":
    sys.exit(main())

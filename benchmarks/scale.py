"""Growth beyond memory: time per annotation and peak memory of Dawid-Skene on a store and in memory.

    python benchmarks/scale.py 1e6 1e7 1e8        five labels per item, ten classes, a thousand labels per annotator

Targets: at most 3 GiB on a store of 1e8, at most twice the time per annotation of memory, and at most 1.3 times that of
1e6. Each fit runs in a process of its own, whose peak memory the system tells; memory is measured up to 2e7. Times are
of one iteration over all annotations, from two fits of different lengths, so that opening files and the last pass do
not count: seconds on the clock, and of the processor, which other programs disturb less. Results go to
benchmarks/results/scale.json.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from crowdprism.aggregators import DawidSkene
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import name_array
from crowdprism.shards import Shards, aggregate_shards
from crowdprism.shards.writing import StoreWriter, replacing_store, shard_size
from measured import store

N_CLASSES, PER_ITEM, PER_ANNOTATOR = 10, 5, 1000
WORK = 2 * 10**8  # annotations passed in the iterations that are timed
MOST_IN_MEMORY = 2 * 10**7


def generate(n_annotations: int, folder: Path) -> Shards:
    """Simulate a crowd shard by shard: accuracies between .4 and .95, wrong labels equally likely."""
    n_annotators = max(100, n_annotations // PER_ANNOTATOR)
    accuracy = np.random.default_rng(0).uniform(0.4, 0.95, n_annotators)
    names = name_array(np.arange(n_annotators)), name_array(np.arange(N_CLASSES))
    with replacing_store(folder, force=False) as fresh:
        writer = StoreWriter(fresh, *names, weighted=False)
        n_items, first = n_annotations // PER_ITEM, 0
        size = shard_size(n_annotations) // PER_ITEM
        while first < n_items:
            items = np.arange(first, min(first + size, n_items))
            random = np.random.default_rng([1, first])
            truth = np.repeat(random.integers(0, N_CLASSES, len(items)), PER_ITEM)
            step = random.integers(1, n_annotators // PER_ITEM, (len(items), PER_ITEM)).cumsum(axis=1)
            annotator = np.sort(
                (random.integers(0, n_annotators, (len(items), 1)) + step) % n_annotators, axis=1
            ).ravel()
            other = (truth + random.integers(1, N_CLASSES, len(truth))) % N_CLASSES
            label = np.where(random.random(len(truth)) < accuracy[annotator], truth, other)
            start = np.arange(0, len(truth) + 1, PER_ITEM)
            codes = annotator.astype(np.int32), label.astype(np.int16)
            writer.write(Annotations(start, *codes, name_array(items), *names))
            first += size
        writer.finish()
    return Shards(folder)


def measure(kind: str, folder: str) -> None:
    """Fit in this process and print the seconds of an iteration and the peak memory."""
    opened = Shards(folder)
    method = DawidSkene(prior="crowd", tolerance=0, dependence=None)
    annotations = opened.to_annotations() if kind == "memory" else None
    clock, processor = [], []
    more = max(2, WORK // opened.n_annotations)
    for iterations in (1, 1, 1 + more):  # the first reads and checks all files
        method.set_params(max_iter=iterations)
        begun = time.perf_counter(), time.process_time()
        if annotations is not None:
            method.fit(annotations)
        else:
            with tempfile.TemporaryDirectory(dir=Path(folder).parent) as there:
                aggregate_shards(method, opened, Path(there) / "run")
        clock.append(time.perf_counter() - begun[0])
        processor.append(time.process_time() - begun[1])
    each = {f"{name}_seconds": (two - one) / more for name, (_, one, two) in (("clock", clock), ("cpu", processor))}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**each, "fit_seconds": clock[2], "peak_bytes": peak}))


def main() -> None:
    """Measure all sizes that were asked for."""
    if sys.argv[1] in ("memory", "store"):
        measure(*sys.argv[1:])
        return
    rows: dict[str, Any] = {}
    for size in (int(float(text)) for text in sys.argv[1:]):
        with tempfile.TemporaryDirectory(prefix="scale-") as there:
            opened = generate(size, Path(there) / "store")
            row: dict[str, Any] = {"items": opened.n_items, "annotators": opened.n_annotators}
            for kind in ("store", "memory")[: 1 + (size <= MOST_IN_MEMORY)]:
                command = [sys.executable, __file__, kind, str(opened.folder)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                row[kind] = json.loads(done.stdout.splitlines()[-1])
                found = row[kind]
                print(
                    f"{size:>12,} in {kind}: {found['clock_seconds'] / size * 1e9:.0f} ns per annotation and step, "
                    f"{found['cpu_seconds'] / size * 1e9:.0f} of the processor, {found['peak_bytes'] / 2**30:.2f} GiB",
                    flush=True,
                )
            rows[str(size)] = row
    store("scale", {"sizes": rows})


if __name__ == "__main__":
    main()

"""Fit again and again in one process: memory, threads and open files must stay as they are.

    python benchmarks/soak.py --partial-fits 2000 --fits 300

Resident memory is taken a hundred times. The highest of the last tenth is compared with that of the second tenth (the
first one warms up); they may differ by 2 %. Threads and open files must be the same from the second tenth on.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdprism.aggregators import AGGREGATORS, make_aggregator
from crowdprism.classifiers import CLASSIFIERS, make_classifier
from crowdprism.comparison.contract import sample_data

GROWTH_ALLOWED = 0.02
N_SAMPLES = 100  # of each loop
LINEAR = ("raykar", "gaussian-process")  # methods without a network to choose
SMALL: dict[str, Any] = {"epochs": 1, "batch_size": 60, "network_options": {"hidden": (8,)}}


@dataclass(frozen=True)
class State:
    """What a process holds at one moment."""

    memory: int  # bytes resident
    threads: int
    files: int


def state() -> State:
    """What this process holds now."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return State(int(fields["VmRSS"].split()[0]) * 1024, int(fields["Threads"]), len(os.listdir("/proc/self/fd")))


def soak(title: str, n_steps: int, step: Callable[[int], object]) -> bool:
    """Repeat a step, print how memory, threads and files developed, and tell whether they stayed."""
    states = []
    for place in range(n_steps):
        step(place)
        if place % max(1, n_steps // N_SAMPLES) == 0:
            gc.collect()
            states.append(state())
    tenth = max(1, len(states) // 10)
    second, last = states[tenth : 2 * tenth], states[-tenth:]
    before, after = (max(one.memory for one in part) for part in (second, last))
    growth = after / before - 1
    counts = {
        name: sorted({getattr(one, name) for one in second} | {getattr(one, name) for one in last})
        for name in ("threads", "files")
    }
    flat = growth <= GROWTH_ALLOWED and all(len(found) == 1 for found in counts.values())
    print(
        f"{title}: {n_steps} steps, {before / 2**20:.1f} MB in the second tenth, {after / 2**20:.1f} MB in the last "
        f"({growth:+.2%}); threads {counts['threads']}, open files {counts['files']}: {'flat' if flat else 'NOT FLAT'}",
        flush=True,
    )
    return flat


def main() -> int:
    """Soak `partial_fit`, then `fit` of every classifier and aggregator in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partial-fits", type=int, default=2000)
    parser.add_argument("--fits", type=int, default=300)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    data = sample_data(n_items=120)
    model = make_aggregator("dawid-skene")
    answers = data.annotations
    flat = [
        soak(
            "partial_fit of two items",
            given.partial_fits,
            lambda place: model.partial_fit(answers[place % 118 : place % 118 + 2]),
        )
    ]
    names = sorted(CLASSIFIERS)

    def fit_classifier(place: int) -> None:
        name = names[place % len(names)]
        options = {key: value for key, value in SMALL.items() if name not in LINEAR or key != "network_options"}
        make_classifier(name, **options).fit(data.features, data.annotations)

    flat.append(soak("fit, classifiers in turn", given.fits, fit_classifier))
    methods = sorted(AGGREGATORS)

    def aggregate(place: int) -> None:
        make_aggregator(methods[place % len(methods)]).fit(data.annotations)

    flat.append(soak("fit, aggregators in turn", given.fits, aggregate))
    return 0 if all(flat) else 1


if __name__ == "__main__":
    sys.exit(main())

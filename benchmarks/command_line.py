"""How long the installed command takes, from typing to the prompt; results/command_line.json.

    python benchmarks/command_line.py

Every measurement is a fresh process, beside a bare `python -c pass` and the import of NumPy and polars, without which
no file is read. The first call of each kind is not counted: it fills the file cache and compiles what is compiled once.
On a machine that has other work, the least processor time tells more than the seconds.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from measured import store

REPEATS = 5
TARGETS = {  # on a machine without other work
    "help seconds": 0.3,
    "aggregate seconds, 10k annotations": 0.6,
    "aggregate seconds, 100k annotations with report.html": 2.0,
    "report seconds": 5,
    "report megabytes": 3,
}
# Users' machines keep compiled modules; where this is set, every call would compile all of ours again.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def write_crowd(path: Path, *, n_items: int, n_annotators: int, per_item: int, n_classes: int) -> None:
    """A CSV file of annotations with names as people have them."""
    random = np.random.default_rng(0)
    truth = random.integers(0, n_classes, n_items)
    item = np.repeat(np.arange(n_items), per_item)
    annotator = random.integers(0, n_annotators, len(item))
    right = random.random(len(item)) < random.uniform(0.5, 0.95, n_annotators)[annotator]
    label = np.where(right, truth[item], random.integers(0, n_classes, len(item)))
    with path.open("w", encoding="utf-8") as file:
        file.write("item,annotator,label\n")
        file.writelines(f"item{i},person{a},class{c}\n" for i, a, c in zip(item, annotator, label, strict=True))


def processor_seconds() -> float:
    """Processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_of(words: Sequence[str], folder: Path, repeats: int = REPEATS) -> dict[str, float]:
    """Median and least wall time and least processor time of a command, after one call that is not counted."""
    taken, used = [], []
    for _ in range(repeats + 1):
        begun, before = time.perf_counter(), processor_seconds()
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT)
        taken.append(time.perf_counter() - begun)
        used.append(processor_seconds() - before)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr}")
    found = {"median": statistics.median(taken[1:]), "least": min(taken[1:]), "processor": min(used[1:])}
    return {name: round(value, 3) for name, value in found.items()}


def measure(folder: Path) -> dict[str, Any]:
    """All measurements."""
    command = [str(Path(sys.executable).with_name("crowdprism"))]
    write_crowd(folder / "ten.csv", n_items=2000, n_annotators=50, per_item=5, n_classes=5)
    write_crowd(folder / "labels.csv", n_items=20_000, n_annotators=200, per_item=5, n_classes=5)
    write_crowd(folder / "large.csv", n_items=100_000, n_annotators=1000, per_item=5, n_classes=10)
    found: dict[str, Any] = {
        "python -c pass": seconds_of([sys.executable, "-c", "pass"], folder),
        "import numpy, polars": seconds_of([sys.executable, "-c", "import numpy, polars"], folder),
        "crowdprism --help": seconds_of([*command, "--help"], folder),
        "aggregate, 10k annotations, labels to standard output": seconds_of(
            [*command, "-q", "aggregate", "ten.csv"], folder, repeats=9
        ),
        "aggregate, 100k annotations, labels to standard output": seconds_of(
            [*command, "-q", "aggregate", "labels.csv"], folder
        ),
        "aggregate, 100k annotations, run folder, --no-report": seconds_of(
            [*command, "aggregate", "labels.csv", "-o", "run", "--no-report"], folder
        ),
        "aggregate, 100k annotations, run folder with report.html": seconds_of(
            [*command, "aggregate", "labels.csv", "-o", "run"], folder, repeats=3
        ),
    }
    make_run = [*command, "-q", "aggregate", "large.csv", "-o", "large", "--no-report"]
    subprocess.run(make_run, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    name = "report, 1000 annotators x 100k items, 500k annotations"
    found[name] = seconds_of([*command, "report", "large", "large.csv"], folder, repeats=2)
    found[name]["megabytes"] = round((folder / "large" / "report.html").stat().st_size / 1e6, 3)
    return found


def main() -> None:
    """Measure, tell and store."""
    load = round(os.getloadavg()[0], 1)  # other work makes the seconds longer
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    bare = found["python -c pass"]["median"]
    for name, row in found.items():
        row["times python -c pass"] = round(row["median"] / bare, 1)
        print(f"{name}: {row}", flush=True)
    store("command_line", {"cores": os.cpu_count(), "load before": load, "targets": TARGETS, "measured": found})


if __name__ == "__main__":
    main()

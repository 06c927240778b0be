"""Time and memory of reading a long CSV beside the table engine's bare read; see results/read_annotations.json.

    python benchmarks/read_annotations.py [--rows 10000000] [--runs 3] [--folder FOLDER]

Both read the same file (string ids; rows shuffled, and grouped by item as most exports are), interleaved, each run in
a fresh process so that the peak of its memory is its own. Polars is imported before the clock starts, on both sides;
all that is ours is counted: importing our modules, loading the compiled kernels, whose machine code a first run has
left on disk, and reading. What importing and loading take is told apart too. Then: bytes per annotation, ten thousand
random slices of 128 items beside one indexing call over the same items, and building from a data frame, from NumPy
arrays and from lists.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

RESULTS = Path(__file__).parent / "results" / "read_annotations.json"
CLASSES = ["cat", "dog", "horse", "frog", "bird", "deer", "ship", "truck", "plane", "automobile"]
N_ANNOTATORS = 10_000
PER_ITEM = 5
N_SLICES, SLICE_ITEMS = 10_000, 128
TARGETS = {"time": 2.0, "memory": 3.0, "bytes per annotation": 12.0, "slices": 3.0}
ORDERS = ("shuffled", "grouped")


def write_file(path: Path, n_rows: int, order: str) -> None:
    """Write the CSV: items in random order of rows, or all annotations of an item together."""
    rng = np.random.default_rng(0)
    n_items = n_rows // PER_ITEM
    item = rng.integers(0, n_items, n_rows)
    if order == "grouped":
        item.sort()
    frame = pl.DataFrame(
        {"item": item, "annotator": rng.integers(0, N_ANNOTATORS, n_rows), "label": rng.integers(0, 10, n_rows)}
    )
    frame.select(
        pl.format("item_{}", pl.col("item").cast(pl.String).str.zfill(7)).alias("item"),
        pl.format("annotator_{}", pl.col("annotator").cast(pl.String).str.zfill(5)).alias("annotator"),
        pl.Series("label", CLASSES).gather(frame["label"]).alias("label"),
    ).write_csv(path)


def peak_bytes() -> int:
    """Largest resident size of this program so far (the figure of getrusage would be inherited from the parent)."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed(work: Any) -> tuple[float, float, Any]:
    """Seconds by the clock, seconds of processor time, and the result."""
    begun, spent = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - begun, time.process_time() - spent, result


def measure_bare(path: str) -> dict[str, Any]:
    """The bare read by polars."""
    seconds, cpu, frame = timed(lambda: pl.read_csv(path))
    return {"seconds": seconds, "cpu": cpu, "peak": peak_bytes(), "rows": frame.height}


def measure_ours(path: str) -> dict[str, Any]:
    """The same file into Annotations, from importing our modules on."""
    loading = {}

    def work() -> Any:
        loading["importing"], _, read = timed(import_reader)
        loading["loading kernels"] = timed(load_kernels)[0]
        return read(path)

    seconds, cpu, a = timed(work)
    found = {"seconds": seconds, "cpu": cpu, "peak": peak_bytes(), "rows": a.n_annotations, **loading}
    return found | {"numba": "numba" in sys.modules, "bytes per annotation": a.nbytes / a.n_annotations}


def import_reader() -> Any:
    """The function to read with."""
    from crowdprism.formats import read_annotations

    return read_annotations


def load_kernels() -> None:
    """What the first large table of a process would load on its way."""
    from crowdprism.annotations.annotation_kernels import KERNELS

    KERNELS.load()


def measure_slices(path: str) -> dict[str, Any]:
    """Ten thousand random slices of 128 items, and one indexing call over the same items, interleaved."""
    from crowdprism.formats import read_annotations

    a = read_annotations(path)
    chosen = np.random.default_rng(1).integers(0, a.n_items, (N_SLICES, SLICE_ITEMS))
    slices, whole = [], []
    for _ in range(3):
        whole.append(timed(lambda: a[chosen.reshape(-1)])[0])
        slices.append(timed(lambda: [a[part].n_annotations for part in chosen])[0])
    return {"slices": statistics.median(slices), "one pass": statistics.median(whole)}


def measure_building(path: str) -> dict[str, Any]:
    """Building from what is in memory already: a polars frame of text, a million rows of ints, of text in lists."""
    from crowdprism.annotations import Annotations

    frame = pl.read_csv(path)
    found = {"from a polars frame": timed(lambda: Annotations.from_frame(frame))[0]}
    part = frame.head(1_000_000)
    lists = [part[name].to_list() for name in ("item", "annotator", "label")]
    rng = np.random.default_rng(0)
    ints = [rng.integers(0, size, 1_000_000) for size in (200_000, 10_000, 10)]
    found["from 1e6 text in lists"] = timed(lambda: Annotations.from_triplets(*lists))[0]
    found["from 1e6 NumPy ints"] = timed(lambda: Annotations.from_triplets(*ints))[0]
    dense = rng.integers(-1, 10, (10_000, 100))
    found["from a dense table of 1e6 cells"] = timed(lambda: Annotations.from_dense(dense))[0]
    return found


MEASURES = {"bare": measure_bare, "ours": measure_ours, "slices": measure_slices, "building": measure_building}


def in_fresh_process(measure: str, path: Path) -> dict[str, Any]:
    """Run one measurement by itself."""
    command = [sys.executable, __file__, "--measure", measure, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{measure} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(path: Path, n_runs: int) -> dict[str, Any]:
    """Medians of interleaved runs on one file."""
    in_fresh_process("ours", path)  # leaves the machine code on disk
    runs: dict[str, list[dict[str, Any]]] = {"bare": [], "ours": []}
    for _ in range(n_runs):
        for name, found in runs.items():
            found.append(in_fresh_process(name, path))
    median = {
        name: {key: statistics.median(run[key] for run in found) for key in ("seconds", "cpu", "peak")}
        for name, found in runs.items()
    }
    return {
        "file bytes": path.stat().st_size,
        "runs": runs,
        "median": median,
        "time ratio": median["ours"]["seconds"] / median["bare"]["seconds"],
        "processor time ratio": median["ours"]["cpu"] / median["bare"]["cpu"],
        "memory ratio": median["ours"]["peak"] / path.stat().st_size,
        "bytes per annotation": runs["ours"][0]["bytes per annotation"],
    }


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    packages = ("crowdprism", "polars", "numpy", "numba")
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def show(found: dict[str, Any]) -> None:
    """Print the table: measured beside target."""
    print(f"{'':34}{'bare':>10}{'ours':>10}{'ratio':>8}{'target':>8}")
    for order in ORDERS:
        one = found[order]
        bare, ours = one["median"]["bare"], one["median"]["ours"]
        print(f"{order + ': seconds':34}{bare['seconds']:10.2f}{ours['seconds']:10.2f}", end="")
        print(f"{one['time ratio']:8.2f}{TARGETS['time']:8.1f}")
        print(f"{order + ': processor seconds':34}{bare['cpu']:10.2f}{ours['cpu']:10.2f}", end="")
        print(f"{one['processor time ratio']:8.2f}{'':8}")
        print(f"{order + ': peak MB (ratio: to file)':34}{bare['peak'] / 1e6:10.0f}{ours['peak'] / 1e6:10.0f}", end="")
        print(f"{one['memory ratio']:8.2f}{TARGETS['memory']:8.1f}")
        print(f"{order + ': bytes per annotation':34}{'':10}{one['bytes per annotation']:10.2f}", end="")
        print(f"{'':8}{TARGETS['bytes per annotation']:8.1f}")
        for part in ("importing", "loading kernels"):
            seconds = statistics.median(run[part] for run in one["runs"]["ours"])
            print(f"{order + ': of it ' + part:34}{'':10}{seconds:10.2f}")
    slices = found["slices"]
    print(f"{'10,000 slices / one pass, seconds':34}{slices['one pass']:10.2f}{slices['slices']:10.2f}", end="")
    print(f"{slices['slices'] / slices['one pass']:8.2f}{TARGETS['slices']:8.1f}")
    for name, seconds in found["building"].items():
        print(f"{name + ', seconds':34}{'':10}{seconds:10.2f}")


def main() -> None:
    """Measure and store, or run one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write the files (default: a temporary folder)")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(MEASURES[options.measure[0]](options.measure[1])))
        return
    found: dict[str, Any] = {"machine": machine(), "rows": options.rows, "targets": TARGETS}
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        for order in ORDERS:
            path = folder / f"annotations_{order}.csv"
            if not path.exists():
                write_file(path, options.rows, order)
            found[order] = compare(path, options.runs)
        path = folder / "annotations_shuffled.csv"
        found["slices"] = in_fresh_process("slices", path)
        found["building"] = in_fresh_process("building", path)
    show(found)
    RESULTS.parent.mkdir(exist_ok=True)
    fresh = RESULTS.with_suffix(".tmp")
    fresh.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    fresh.replace(RESULTS)


if __name__ == "__main__":
    main()

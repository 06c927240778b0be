"""Time and memory of reading a long CSV beside pandas doing the same; see results/read_annotations.json.

    python benchmarks/read_annotations.py [--rows 10000000] [--runs 3] [--folder FOLDER]

Both read the same file (string ids; rows shuffled, and grouped by item as most exports are), turn names into codes in
the order of the names and sort the rows by item, annotator and label; interleaved, each run in a fresh process so that
the peak of its memory is its own. Polars and pandas are imported before the clock starts; importing our modules is
counted. Then: a polars frame of the same rows beside the file, bytes per annotation, ten thousand random slices of 128
items beside one indexing call over the same items, and building from NumPy arrays and from lists.
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
TARGETS = {"time": 0.7, "memory": 5.0, "bytes per annotation": 12.0, "slices": 3.0, "frame": 1.0}
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


def measure_pandas(path: str) -> dict[str, Any]:
    """Read, codes in the order of the names, and sort, by pandas."""
    import pandas as pd

    def work() -> Any:
        frame = pd.read_csv(path)
        codes = {name: pd.factorize(frame[name], sort=True)[0] for name in frame.columns}
        return pd.DataFrame(codes).sort_values(list(codes), ignore_index=True)

    seconds, cpu, frame = timed(work)
    return {"seconds": seconds, "cpu": cpu, "peak": peak_bytes(), "rows": len(frame)}


def measure_ours(path: str) -> dict[str, Any]:
    """The same file into Annotations, from importing our modules on."""

    def work() -> Any:
        from crowdprism.formats import read_annotations

        return read_annotations(path)

    seconds, cpu, a = timed(work)
    found = {"seconds": seconds, "cpu": cpu, "peak": peak_bytes(), "rows": a.n_annotations}
    return found | {"bytes per annotation": a.nbytes / a.n_annotations}


def measure_frame(path: str) -> dict[str, Any]:
    """A polars frame of the same rows into Annotations, its reading included."""
    from crowdprism.annotations import Annotations

    seconds, cpu, a = timed(lambda: Annotations.from_frame(pl.read_csv(path)))
    return {"seconds": seconds, "cpu": cpu, "peak": peak_bytes(), "rows": a.n_annotations}


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
    """Building from what is in memory already: a million rows of ints, of text in lists, and a dense table."""
    from crowdprism.annotations import Annotations

    part = pl.read_csv(path, n_rows=1_000_000)
    lists = [part[name].to_list() for name in ("item", "annotator", "label")]
    rng = np.random.default_rng(0)
    ints = [rng.integers(0, size, 1_000_000) for size in (200_000, 10_000, 10)]
    found = {"from 1e6 text in lists": timed(lambda: Annotations.from_triplets(*lists))[0]}
    found["from 1e6 NumPy ints"] = timed(lambda: Annotations.from_triplets(*ints))[0]
    dense = rng.integers(-1, 10, (10_000, 100))
    found["from a dense table of 1e6 cells"] = timed(lambda: Annotations.from_dense(dense))[0]
    return found


MEASURES = {
    "pandas": measure_pandas,
    "ours": measure_ours,
    "frame": measure_frame,
    "slices": measure_slices,
    "building": measure_building,
}


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
    runs: dict[str, list[dict[str, Any]]] = {"pandas": [], "ours": [], "frame": []}
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
        "time ratio": median["ours"]["seconds"] / median["pandas"]["seconds"],
        "processor time ratio": median["ours"]["cpu"] / median["pandas"]["cpu"],
        "frame ratio": median["frame"]["seconds"] / median["ours"]["seconds"],
        "memory ratio": median["ours"]["peak"] / path.stat().st_size,
        "bytes per annotation": runs["ours"][0]["bytes per annotation"],
    }


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    packages = ("crowdprism", "polars", "numpy", "pandas")
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def show(found: dict[str, Any]) -> None:
    """Print the table: measured beside target."""
    print(f"{'':34}{'pandas':>10}{'ours':>10}{'ratio':>8}{'target':>8}")
    for order in ORDERS:
        one = found[order]
        peer, ours = one["median"]["pandas"], one["median"]["ours"]
        print(f"{order + ': seconds':34}{peer['seconds']:10.2f}{ours['seconds']:10.2f}", end="")
        print(f"{one['time ratio']:8.2f}{TARGETS['time']:8.1f}")
        print(f"{order + ': processor seconds':34}{peer['cpu']:10.2f}{ours['cpu']:10.2f}", end="")
        print(f"{one['processor time ratio']:8.2f}{'':8}")
        print(f"{order + ': peak MB (ratio: to file)':34}{peer['peak'] / 1e6:10.0f}{ours['peak'] / 1e6:10.0f}", end="")
        print(f"{one['memory ratio']:8.2f}{TARGETS['memory']:8.1f}")
        print(f"{order + ': bytes per annotation':34}{'':10}{one['bytes per annotation']:10.2f}", end="")
        print(f"{'':8}{TARGETS['bytes per annotation']:8.1f}")
        frame = one["median"]["frame"]["seconds"]
        print(
            f"{order + ': from a polars frame':34}{'':10}{frame:10.2f}{one['frame ratio']:8.2f}{TARGETS['frame']:8.1f}"
        )
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

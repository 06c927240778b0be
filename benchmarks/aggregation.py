"""Time and memory of aggregators beside crowd-kit's, interleaved in one run, written to results/aggregation.json.

    python benchmarks/aggregation.py --peer /path/to/python-with-crowd-kit [--only dawid-skene ...] [--large]

crowd-kit may need other versions of packages than this project, so it runs in its own Python: `--peer` or the
environment variable CROWDPRISM_PEER_PYTHON names it (the bench extra installs it beside crowdprism where versions
allow). Every measurement is a fresh process. Memory is the peak of the whole process, imports and data included, on
both sides. "-scipy" ends the name of the form that runs where the install found no compiler.
`--large` adds 10^7 annotations, which take crowd-kit some ten minutes and 4 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "aggregation.json"
PER_ITEM = 5  # annotations per item
N_CLASSES = 10
# task: annotations, annotators, iterations of the fits in one process. The first fit loads what is needed; the
# difference of the last two gives the time of one iteration.
# "dawid-skene" is the default: prior centred at each annotator's own skill, copies looked for; "dawid-skene-crowd" is
# the plain climb with the crowd's prior.
TASKS: dict[str, dict[str, Any]] = {
    "dawid-skene": {"n": 1_000_000, "annotators": 1000, "iterations": (1, 5, 10), "target": 35},
    "dawid-skene-crowd": {"n": 1_000_000, "annotators": 1000, "iterations": (1, 5, 10), "target": 50},
    "dawid-skene-crowd-scipy": {"n": 1_000_000, "annotators": 1000, "iterations": (1, 5, 10), "target": 10},
    "one-coin": {"n": 500_000, "annotators": 1000, "iterations": (1, 5, 20), "target": 200},
    "mace": {"n": 1_000_000, "annotators": 1000, "iterations": (11, 12, 24), "target": 200},
    "glad": {"n": 60_000, "annotators": 200, "iterations": (1, 1, 2), "target": 50},
    "krippendorff-alpha": {"n": 200_000, "annotators": 400, "iterations": (1, 1), "target": 20},
}
IN_SCIPY = "-scipy"  # ends the name of a task that does without the compiled expectation step
PLAIN = "-crowd"  # ends the name of a task with the crowd's prior and without a search for copies
LARGE: dict[str, Any] = {"n": 10_000_000, "annotators": 1000, "iterations": (20,), "target": 60}
SMALL: dict[str, Any] = {"n": 100_000, "annotators": 1000, "iterations": (1, 5, 100)}


def simulated(n: int, annotators: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Item, annotator, label of each annotation, and true classes; annotators are right with 0.5 to 0.9."""
    rng = np.random.default_rng(0)
    n_items = n // PER_ITEM
    truth = rng.integers(0, N_CLASSES, n_items, dtype=np.int16)
    item = np.repeat(np.arange(n_items, dtype=np.int32), PER_ITEM)
    annotator = rng.integers(0, annotators, n, dtype=np.int32)
    right = rng.random(n, dtype=np.float32) < rng.uniform(0.5, 0.9, annotators).astype(np.float32)[annotator]
    label = np.where(right, truth[item], rng.integers(0, N_CLASSES, n, dtype=np.int16))
    return item, annotator, label, truth


def memory(name: str) -> int:
    """Resident bytes of this process as Linux reports them: VmRSS now, VmHWM at most since `forget_peak`, RssAnon of
    its own, RssFile of libraries and files."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


def forget_peak() -> None:
    """Let VmHWM start anew from the present size."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def memory_figures(imported: int, before: int, earlier_peak: int) -> dict[str, int]:
    """Bytes: after the imports, at the peak, above what was there before the fits; and at the end, of its own and of
    libraries."""
    found = {"imported": imported, "peak": max(earlier_peak, memory("VmHWM")), "rise": memory("VmHWM") - before}
    return found | {"end_anonymous": memory("RssAnon"), "end_libraries": memory("RssFile")}


def ours(task: str, n: int, annotators: int, iterations: list[int]) -> dict[str, Any]:
    """Fit with crowdprism."""
    from crowdprism.aggregators import blocks, make_aggregator
    from crowdprism.annotations import Annotations

    if task.endswith(IN_SCIPY):
        task, blocks.COMPILED = task.removesuffix(IN_SCIPY), False
    plain, task = task.endswith(PLAIN), task.removesuffix(PLAIN)
    imported = memory("VmRSS")
    item, annotator, label, truth = simulated(n, annotators)
    data = Annotations.from_triplets(item, annotator, label, classes=range(N_CLASSES))
    del item, annotator, label
    seconds, cpu, accuracy, peak = [], [], float("nan"), memory("VmHWM")
    forget_peak()
    before = memory("VmRSS")
    for max_iter in iterations:
        params: dict[str, Any] = {"max_iter": max_iter, "tolerance": 0.0}
        params |= {"mace": {"n_restarts": 1}, "glad": {"n_sweeps": 25}}.get(task, {})
        params |= {"prior": "crowd", "dependence": None} if plain else {}
        begun, begun_cpu = time.perf_counter(), time.process_time()
        if task == "krippendorff-alpha":
            from crowdprism.diagnostics.agreement import krippendorff_alpha

            krippendorff_alpha(data)
        else:
            labels = make_aggregator(task, **params).fit(data).result_.labels()
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - begun_cpu)
    if task != "krippendorff-alpha":
        accuracy = float(np.mean(labels == truth))
    return {"seconds": seconds, "cpu": cpu, "accuracy": accuracy, **memory_figures(imported, before, peak)}


def peer(task: str, n: int, annotators: int, iterations: list[int]) -> dict[str, Any]:
    """Fit with crowd-kit."""
    import pandas as pd
    from crowdkit import aggregation

    task = task.removesuffix(IN_SCIPY).removesuffix(PLAIN)
    imported = memory("VmRSS")
    item, annotator, label, truth = simulated(n, annotators)
    data = pd.DataFrame({"task": item, "worker": annotator, "label": label})
    del item, annotator, label
    seconds, cpu, accuracy, peak = [], [], float("nan"), memory("VmHWM")
    forget_peak()
    before = memory("VmRSS")
    for max_iter in iterations:
        never = -1e9  # tolerance that no iteration falls below: all iterations run
        begun, begun_cpu = time.perf_counter(), time.process_time()
        if task == "krippendorff-alpha":
            from crowdkit.metrics.data import alpha_krippendorff

            alpha_krippendorff(data)
        elif task == "mace":
            labels = aggregation.MACE(n_restarts=1, n_iter=max_iter).fit_predict(data)
        else:
            kind = {"dawid-skene": "DawidSkene", "one-coin": "OneCoinDawidSkene", "glad": "GLAD"}[task]
            labels = getattr(aggregation, kind)(n_iter=max_iter, tol=never).fit_predict(data)
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - begun_cpu)
    if task != "krippendorff-alpha":
        accuracy = float(np.mean(labels.sort_index().to_numpy() == truth))
    return {"seconds": seconds, "cpu": cpu, "accuracy": accuracy, **memory_figures(imported, before, peak)}


def measured(python: str, side: str, task: str, setting: dict[str, Any], **environment: str) -> dict[str, Any]:
    """Run one side in a fresh process."""
    command = [python, __file__, "--worker", side, task, str(setting["n"]), str(setting["annotators"])]
    command += [str(count) for count in setting["iterations"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    if done.returncode:
        raise RuntimeError(f"{side} {task}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def per_iteration(run: dict[str, Any], iterations: tuple[int, ...], clock: str = "seconds") -> float:
    """Seconds of one iteration: by the difference of two fits, or of the whole call where that is all there is."""
    if len(iterations) < 3:
        return float(run[clock][-1]) / iterations[-1]
    return float(run[clock][-1] - run[clock][-2]) / (iterations[-1] - iterations[-2])


def compare(task: str, setting: dict[str, Any], peer_python: str, repeats: int) -> dict[str, Any]:
    """Interleave both sides and give medians and ratios."""
    pairs = []
    for _ in range(repeats):
        pairs.append((measured(sys.executable, "ours", task, setting), measured(peer_python, "peer", task, setting)))
    iterations = setting["iterations"]
    own = [per_iteration(a, iterations) for a, _ in pairs]
    other = [per_iteration(b, iterations) for _, b in pairs]
    return {
        **setting,
        "seconds_per_iteration": statistics.median(own),
        "peer_seconds_per_iteration": statistics.median(other),
        "ratio": statistics.median(b / a for a, b in zip(own, other, strict=True)),
        "processor_seconds_ratio": statistics.median(
            per_iteration(b, iterations, "cpu") / per_iteration(a, iterations, "cpu") for a, b in pairs
        ),
        "whole_call_seconds": statistics.median(a["seconds"][-1] for a, _ in pairs),
        "peer_whole_call_seconds": statistics.median(b["seconds"][-1] for _, b in pairs),
        "whole_call_ratio": statistics.median(b["seconds"][-1] / a["seconds"][-1] for a, b in pairs),
        **memory_ratios(pairs),
        "accuracy": pairs[0][0]["accuracy"],
        "peer_accuracy": pairs[0][1]["accuracy"],
    }


def memory_ratios(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, float]:
    """Medians in megabytes of both sides, and the ratios: of the whole process, above the imports, of the fits."""
    found: dict[str, float] = {}
    for side, prefix in ((0, ""), (1, "peer_")):
        runs = [pair[side] for pair in pairs]
        found[f"{prefix}peak_megabytes"] = statistics.median(run["peak"] for run in runs) / 1e6
        found[f"{prefix}imports_megabytes"] = statistics.median(run["imported"] for run in runs) / 1e6
        found[f"{prefix}fit_megabytes"] = statistics.median(run["rise"] for run in runs) / 1e6
        found[f"{prefix}end_anonymous_megabytes"] = statistics.median(run["end_anonymous"] for run in runs) / 1e6
        found[f"{prefix}end_libraries_megabytes"] = statistics.median(run["end_libraries"] for run in runs) / 1e6
    above, peer_above = (found[f"{p}peak_megabytes"] - found[f"{p}imports_megabytes"] for p in ("", "peer_"))
    found["peak_ratio"] = found["peak_megabytes"] / found["peer_peak_megabytes"]
    found["above_imports_ratio"] = above / peer_above
    found["fit_megabytes_ratio"] = found["fit_megabytes"] / found["peer_fit_megabytes"]
    return found


def linearity() -> dict[str, Any]:
    """Seconds per annotation and iteration at 10^5 and 10^7 annotations, of ours alone, compiled and in SciPy."""
    large = {**LARGE, "iterations": (1, 2, 20)}
    found: dict[str, Any] = {"target": 1.5}
    for name, task in (("compiled", "dawid-skene-crowd"), ("scipy", "dawid-skene-crowd-scipy")):
        small_run, large_run = (measured(sys.executable, "ours", task, setting) for setting in (SMALL, large))
        seconds = {
            "small": per_iteration(small_run, SMALL["iterations"]) / SMALL["n"],
            "large": per_iteration(large_run, large["iterations"]) / large["n"],
        }
        found[name] = {"seconds_per_annotation": seconds, "ratio": seconds["large"] / seconds["small"]}
    return found


def first_result(python: str) -> dict[str, Any]:
    """Seconds from the start of a process to Dawid-Skene's labels of a file of 10^4 annotations."""
    import tempfile

    item, annotator, label, _ = simulated(10_000, 100)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "annotations.csv"
        rows = "\n".join(f"{i},{a},{c}" for i, a, c in zip(item, annotator, label, strict=True))
        path.write_text(f"item,annotator,label\n{rows}\n", encoding="utf-8")
        program = (
            "import sys, crowdprism as cp; a = cp.read_annotations(sys.argv[1]); "
            "cp.make_aggregator('dawid-skene').fit(a).result_.labels()"
        )
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            subprocess.run([python, "-c", program, str(path)], check=True)
            times.append(time.perf_counter() - begun)
    return {"seconds": statistics.median(times), "fastest": min(times), "target": 0.6}


def versions(python: str, packages: tuple[str, ...]) -> dict[str, str]:
    """Versions installed for a Python."""
    if python == sys.executable:
        found = {}
        for package in packages:
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                continue
        return found
    program = (
        "import json; from importlib.metadata import version; "
        f"print(json.dumps({{p: version(p) for p in {packages!r}}}))"
    )
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=os.environ.get("CROWDPRISM_PEER_PYTHON", sys.executable))
    parser.add_argument("--only", nargs="*", help="only these tasks")
    parser.add_argument("--large", action="store_true", help="also 10^7 annotations")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        side, task, n, annotators, *iterations = options.worker
        run = {"ours": ours, "peer": peer}[side]
        print(json.dumps(run(task, int(n), int(annotators), [int(count) for count in iterations])))
        return
    stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    todo = [task for task in TASKS if not options.only or task in options.only]
    for task in todo:
        stored[task] = compare(task, TASKS[task], options.peer, options.repeats)
        print(task, json.dumps(stored[task], indent=1), flush=True)
    if not options.only or "linearity" in options.only:
        stored["linearity"] = linearity()
        print("linearity", stored["linearity"], flush=True)
    if not options.only or "first-result" in options.only:
        stored["first-result"] = first_result(sys.executable)
        print("first-result", stored["first-result"], flush=True)
    if options.large:
        stored["dawid-skene-large"] = compare("dawid-skene-crowd", LARGE, options.peer, 1)
        print("large", json.dumps(stored["dawid-skene-large"], indent=1), flush=True)
    stored["machine"] = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    stored["versions"] = versions(sys.executable, ("crowdprism", "numpy", "scipy"))
    stored["peer_versions"] = versions(options.peer, ("crowd-kit", "numpy", "pandas", "scikit-learn"))
    RESULTS.parent.mkdir(exist_ok=True)
    fresh = RESULTS.with_suffix(".new")
    text = json.dumps(stored, indent=1, sort_keys=True).replace("NaN", "null")  # alpha has no accuracy
    fresh.write_text(text + "\n", encoding="utf-8")
    fresh.replace(RESULTS)


if __name__ == "__main__":
    main()

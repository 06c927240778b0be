"""Label quality beside cleanlab's, time of `examine`, and labels saved by `suggest`; results/diagnostics.json.

    python benchmarks/diagnostics.py --peer /path/to/python-with-cleanlab [--only quality examine suggest]

cleanlab runs in its own Python: `--peer` or the environment variable CROWDPRISM_PEER_PYTHON names it. Every timed
measurement is a fresh process, and both sides begin from the same columns of items, annotators and labels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

N_ITEMS, N_ANNOTATORS, N_CLASSES, PER_ITEM = 50_000, 1000, 10, 5
SEEDS = (0, 1, 2)
REPEATS = 3
TARGETS = {"times as fast": 50, "times less memory": 10, "examine seconds": 60, "share of labels saved": 0.25}


def simulated(n_items: int, n_annotators: int) -> dict[str, np.ndarray]:
    """Columns of annotations, a classifier's probabilities, and true classes."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, N_CLASSES, n_items)
    item = np.repeat(np.arange(n_items), PER_ITEM)
    annotator = rng.random((n_items, n_annotators)).argpartition(PER_ITEM, axis=1)[:, :PER_ITEM].reshape(-1)
    right = rng.random(len(item)) < rng.uniform(0.4, 0.95, n_annotators)[annotator]
    label = np.where(right, truth[item], rng.integers(0, N_CLASSES, len(item)))
    # A weak classifier: with a strong one every method finds the same consensus and agreement would prove little.
    shares = 0.15 * np.eye(N_CLASSES)[truth] + 0.85 * rng.dirichlet(np.ones(N_CLASSES), n_items)
    return {"item": item, "annotator": annotator, "label": label, "shares": shares, "truth": truth}


def memory(name: str) -> int:
    """Resident bytes as Linux reports them: VmRSS now, VmHWM at most."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


def child_ours(data: Any) -> dict[str, Any]:
    """Score with crowdprism."""
    from crowdprism.annotations import Annotations
    from crowdprism.diagnostics import label_quality

    begun = time.perf_counter()
    annotations = Annotations.from_triplets(data["item"], data["annotator"], data["label"])
    scoring = time.perf_counter()
    found = label_quality(annotations, data["shares"])
    done = time.perf_counter()
    return {
        "seconds": done - begun,
        "scoring": done - scoring,
        "accuracy": float(np.mean(found.consensus == data["truth"])),
        "annotator_quality": found.annotator_quality.tolist(),
    }


def child_cleanlab(data: Any) -> dict[str, Any]:
    """Score with cleanlab, which takes a dense table of items and annotators."""
    import pandas as pd
    from cleanlab.multiannotator import get_label_quality_multiannotator

    begun = time.perf_counter()
    table = np.full((len(data["truth"]), int(data["annotator"].max()) + 1), np.nan)
    table[data["item"], data["annotator"]] = data["label"]
    frame = pd.DataFrame(table)
    scoring = time.perf_counter()
    found = get_label_quality_multiannotator(frame, data["shares"], verbose=False)
    done = time.perf_counter()
    return {
        "seconds": done - begun,
        "scoring": done - scoring,
        "accuracy": float(np.mean(found["label_quality"]["consensus_label"].to_numpy() == data["truth"])),
        "annotator_quality": found["annotator_stats"].sort_index()["annotator_quality"].tolist(),
    }


def run_child(which: str, path: str) -> None:
    """Measure one side in this process and print what was found."""
    with np.load(path) as stored:
        data = {name: stored[name] for name in stored.files}
    before = memory("VmRSS")
    work = child_ours if which == "crowdprism" else child_cleanlab
    record = work(data)
    record |= {"peak_bytes": memory("VmHWM"), "extra_bytes": memory("VmHWM") - before}
    print(json.dumps(record))


def measure(python: str, which: str, path: Path) -> dict[str, Any]:
    """One side in a fresh process."""
    done = subprocess.run([python, __file__, "--child", which, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{which} failed in {python}:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def quality(peer: str) -> dict[str, Any]:
    """Scores of 250 000 annotations by 1000 annotators, both sides in turn."""
    from scipy.stats import spearmanr

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **simulated(N_ITEMS, N_ANNOTATORS))
        ours, theirs = [], []
        for repeat in range(REPEATS):
            ours.append(measure(sys.executable, "crowdprism", path))
            if repeat == 0 or theirs[0]["seconds"] < 30:
                theirs.append(measure(peer, "cleanlab", path))
    best, other = min(ours, key=lambda r: r["seconds"]), min(theirs, key=lambda r: r["seconds"])
    alike = float(spearmanr(best.pop("annotator_quality"), other.pop("annotator_quality"))[0])
    record = {
        "annotations": N_ITEMS * PER_ITEM,
        "annotators": N_ANNOTATORS,
        "crowdprism": best,
        "cleanlab": other,
        "times as fast": other["seconds"] / best["seconds"],
        "times as fast, scoring alone": other["scoring"] / best["scoring"],
        "times less memory, whole process": other["peak_bytes"] / best["peak_bytes"],
        "times less memory, beyond the input": other["extra_bytes"] / best["extra_bytes"],
        "rank correlation of annotator quality": alike,
    }
    print(json.dumps(record, indent=2))
    return record


def examination() -> dict[str, Any]:
    """Time of `examine` on 10 000 items, 1000 annotators, 10 classes."""
    from crowdprism.aggregators import make_aggregator
    from crowdprism.diagnostics.identifiability import examine
    from crowdprism.simulate import one_coin, per_item, simulate_annotations

    rng = np.random.default_rng(0)
    crowd = one_coin(rng.uniform(0.4, 0.95, 1000), 10)
    annotations = simulate_annotations(rng.integers(10, size=10_000), crowd, per_item(10_000, 1000, labels=5))
    result = make_aggregator("dawid-skene", use_gold=False).fit(annotations).result_
    begun = time.perf_counter()
    findings = examine(result, annotations)
    record = {"examine seconds": time.perf_counter() - begun, "findings": len(findings)}
    print(json.dumps(record, indent=2))
    return record


def pools(seed: int) -> dict[str, Any]:
    """Sets whose labels are hidden and revealed on request: two simulated, and a real one where the data are there."""
    from crowdprism.annotations import Annotations
    from crowdprism.simulate import demo_crowd, each_with_probability, one_coin, per_item, simulate_annotations

    rng = np.random.default_rng(seed)
    crowd = one_coin(rng.uniform(0.3, 0.9, 30), 4)
    found = {
        "30 annotators, 4 classes": (
            simulate_annotations(
                rng.integers(4, size=600), crowd, each_with_probability(600, 30, probability=0.5, seed=seed), seed=seed
            ),
            1,
        ),
        "demo crowd, 10 classes": (
            simulate_annotations(
                rng.integers(10, size=600), demo_crowd(seed=seed).confusions, per_item(600, 40, labels=12, seed=seed)
            ),
            2,
        ),
    }
    folder = Path(os.environ.get("CROWDPRISM_DATA", "")) / "truth_inference" / "rte"
    if not folder.exists():
        print("CROWDPRISM_DATA names no folder with truth_inference/rte: the real set is left out")
        return found
    import polars as pl

    rows, gold = pl.read_csv(folder / "annotations.csv.gz"), pl.read_csv(folder / "gold.csv.gz")
    truth = dict(zip(gold["item"].to_list(), gold["label"].to_list(), strict=True))
    found["textual entailment (rte)"] = (
        Annotations.from_triplets(rows["item"], rows["annotator"], rows["label"], gold=truth),
        1,
    )
    return found


def labels_saved() -> dict[str, Any]:
    """Labels that suggestions and ActiveLab-style scores need to be as accurate as random labelling."""
    import labelling_rounds as rounds
    from crowdprism.aggregators import make_aggregator

    policies = {
        "random": rounds.at_random,
        "suggest": rounds.by_suggestion,
        "uncertain items, any annotator": rounds.by_suggested_item,
        "ActiveLab-style items": rounds.by_active_label_score,
    }
    curves: dict[str, dict[str, list[Any]]] = {}
    for seed in SEEDS:
        for name, (pool, first) in pools(seed).items():
            for policy, choose in policies.items():
                curve = rounds.replay(
                    pool,
                    lambda a: make_aggregator("dawid-skene").fit(a).result_,
                    choose,
                    first=first,
                    batch=pool.n_items // 8,
                    n_rounds=40,
                    seed=seed,
                )
                curves.setdefault(name, {}).setdefault(policy, []).append(curve)
    record: dict[str, Any] = {}
    for name, by_policy in curves.items():
        mean = {
            policy: rounds.LabellingCurve(found[0].n_labels, np.mean([c.accuracy for c in found], axis=0))
            for policy, found in by_policy.items()
        }
        record[name] = [compared(mean, at) for at in (16, 24, 32)]
    print(json.dumps(record, indent=2))
    return record


def compared(mean: dict[str, Any], at: int) -> dict[str, Any]:
    """Labels needed by each policy to reach what random labelling has after some rounds."""
    level = float(mean["random"].accuracy[at - 1 : at + 2].mean())
    needed = {policy: curve.labels_needed(level) for policy, curve in mean.items()}
    return {
        "accuracy": level,
        "labels": needed,
        "saved": {policy: 1 - labels / needed["random"] for policy, labels in needed.items()},
    }


def main() -> None:
    """Measure what was asked for and store it with machine and versions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=os.environ.get("CROWDPRISM_PEER_PYTHON", sys.executable))
    parser.add_argument("--only", nargs="*", choices=("quality", "examine", "suggest"))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(*options.child)
        return
    sys.path.insert(0, str(Path(__file__).parent))
    from measured import RESULTS, store

    warnings.simplefilter("ignore")  # fits on few labels do not all settle
    path = RESULTS / "diagnostics.json"
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    wanted = options.only or ("quality", "examine", "suggest")
    record |= {"targets": TARGETS}
    if "quality" in wanted:
        record["quality"] = quality(options.peer)
    if "examine" in wanted:
        record["examine"] = examination()
    if "suggest" in wanted:
        record["suggest"] = labels_saved()
    record = {name: part for name, part in record.items() if name not in ("machine", "versions")}
    print(f"wrote {store('diagnostics', record)}")


if __name__ == "__main__":
    main()

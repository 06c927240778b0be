"""Store what crowdprism computes today, and compare it with what it computes after a change.

    export OMP_NUM_THREADS=1 CROWDPRISM_THREADS=1 CROWDPRISM_DATA=...
    python benchmarks/frozen_behaviour.py store before.json [--parts formats,aggregators,classifiers] [--seeds 5]
    python benchmarks/frozen_behaviour.py compare before.json after.json

`store` runs the crowdprism of the Python that runs it, through its public names and its command line only, so that the
same script works before and after the modules move. Arrays go to before.npz. Parts that are not run again are kept.
`compare` prints three tables and exits with 1 if anything is beyond the limits in `frozen_comparison.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crowdprism as cp
from format_samples import Sample, format_samples, long_table, odd_samples
from frozen_comparison import PARTS, compare

MOST_NUMBERS = 200_000  # of a larger array, a fixed choice of rows and the means of the columns are stored
SECONDS_ALLOWED = 60  # of the processor, for one fit of an aggregator
MOST_TRAINING_ITEMS, MOST_TEST_ITEMS = 600, 1000
ARRAYS = ("class_probabilities", "confusions", "annotator_accuracy", "skills", "class_prior")

# Names that users type today. A name that is gone later is stored as an error and so shows up in the comparison.
AGGREGATORS = (
    "majority-vote", "weighted-vote", "dawid-skene", "fast-dawid-skene", "one-coin", "zencrowd", "glad", "mace",
    "ibcc", "ebcc", "kos", "mmsr", "spectral-em", "multispa", "multispa-kl", "symnmf",
)  # fmt: skip
CLASSIFIERS = (
    "geocrowdnet", "geocrowdnet-f", "geocrowdnet-w", "crowdlayer", "tracereg", "speelfc", "unionnet-a", "unionnet-b",
    "conal", "max-mig", "mbem", "doctornet", "doctornet-weighted", "aggnet", "raykar", "two-stage", "nn-mv",
    "nn-dsem", "coinnet", "annot-mix",
)  # fmt: skip


@dataclass(frozen=True)
class Crowd:
    """Sizes of a simulated data set, which stands in for a real one that is not on this computer."""

    n_items: int
    n_annotators: int
    n_classes: int
    labels_per_item: int


@dataclass(frozen=True)
class Task:
    """Training items with annotations, and the names of the true classes of the items that are judged.

    These are test items, or without `test_features` the training items with their corrected labels.
    """

    features: NDArray[Any]
    annotations: Any
    test_features: NDArray[Any] | None
    true_classes: list[Any]


AGGREGATOR_SETS = {
    "bluebird": Crowd(108, 39, 2, 39),
    "labelme": Crowd(1000, 59, 8, 3),
    "music": Crowd(700, 44, 10, 4),
    "adult": Crowd(11_000, 825, 4, 8),
    "digits": Crowd(1350, 40, 10, 3),
}
# Large enough for compiled kernels at the time of freezing: annotations x classes x 30 beyond 10^8, annotations x 30
# beyond 10^7.
SIMULATED_SETS = {"large": Crowd(60_000, 150, 8, 8), "large binary": Crowd(60_000, 150, 2, 6)}
CLASSIFIER_SETS = {
    "labelme": Crowd(600, 59, 8, 3),
    "music": Crowd(600, 44, 10, 4),
    "amazon_isbook": Crowd(600, 100, 2, 5),
    "rte": Crowd(600, 164, 2, 10),
    "digits": Crowd(600, 40, 10, 3),
    "simulated": Crowd(600, 12, 4, 2),
}


class TooSlowError(Exception):
    """A fit used up its processor time."""


# -- data sets ----------------------------------------------------------------------------------------------


def simulated_labels(truth: NDArray[Any], crowd: Crowd, random: np.random.Generator) -> Any:
    """Return annotations of items by annotators who are right with their own probability."""
    least = 1 / crowd.n_classes
    skill = least + (1 - least) * random.uniform(0.1, 0.9, crowd.n_annotators)
    start = random.integers(0, crowd.n_annotators, crowd.n_items)
    step = random.integers(1, max(2, crowd.n_annotators // crowd.labels_per_item), crowd.n_items)
    who = ((start[:, None] + step[:, None] * np.arange(crowd.labels_per_item)) % crowd.n_annotators).ravel()
    item = np.repeat(np.arange(crowd.n_items), crowd.labels_per_item)
    is_right = random.random(len(item)) < skill[who]
    wrong = (truth[item] + random.integers(1, crowd.n_classes, len(item))) % crowd.n_classes
    return cp.Annotations.from_triplets(item, who, np.where(is_right, truth[item], wrong))


def aggregator_set(name: str, crowd: Crowd) -> Any:
    """Return the annotations of a data set, or simulated ones where it is simulated or not on this computer."""
    if name in AGGREGATOR_SETS:
        try:
            return cp.load_dataset(name, fetch=False).annotations
        except FileNotFoundError:
            print(f"{name}: not on this computer, simulated instead", flush=True)
    random = np.random.default_rng(1)
    return simulated_labels(random.integers(0, crowd.n_classes, crowd.n_items), crowd, random)


def cloud_task(crowd: Crowd) -> Task:
    """Return Gaussian clouds with a simulated crowd."""
    random = np.random.default_rng(2)
    truth = random.integers(0, crowd.n_classes, 2 * crowd.n_items)
    features = random.normal(size=(len(truth), 16)) + 2.2 * np.eye(crowd.n_classes, 16)[truth]
    annotations = simulated_labels(truth[: crowd.n_items], crowd, random)
    return Task(features[: crowd.n_items], annotations, features[crowd.n_items :], truth[crowd.n_items :].tolist())


def classifier_task(name: str, crowd: Crowd) -> Task:
    """Return a random choice of training items, and the test items where the set has a test split."""
    try:
        dataset = cp.load_dataset(name, fetch=False)
    except FileNotFoundError:
        print(f"{name}: not on this computer, simulated instead", flush=True)
        return cloud_task(crowd)
    train: Any = dataset.part("train")
    chosen = np.sort(np.random.default_rng(3).permutation(len(train.items))[:MOST_TRAINING_ITEMS])
    features, annotations = train.features[chosen].astype(np.float32), train.annotations[chosen]
    if "test" not in dataset.splits:
        return Task(features, annotations, None, [dataset.classes[code] for code in np.asarray(train.gold[chosen])])
    test = dataset.part("test")
    classes = [dataset.classes[code] for code in np.asarray(test.gold[:MOST_TEST_ITEMS])]
    return Task(features, annotations, test.features[:MOST_TEST_ITEMS].astype(np.float32), classes)


# -- what is stored -----------------------------------------------------------------------------------------


def digest(rows: Iterable[Any]) -> str:
    """Return the SHA-256 of the rows as Python writes them, one per line."""
    return hashlib.sha256("\n".join(map(str, rows)).encode()).hexdigest()[:16]


def described(annotations: Any) -> dict[str, Any]:
    """Return numbers and digests of all that annotations hold, by the names of items, annotators and classes."""
    names = (annotations.items[annotations.item], annotations.annotators[annotations.annotator])
    triplets = list(zip(*(part.tolist() for part in (*names, annotations.classes[annotations.label])), strict=True))
    record: dict[str, Any] = {"n_annotations": len(triplets), "triplets": digest(sorted(map(repr, triplets)))}
    for role in ("items", "annotators", "classes"):
        record[role] = digest(map(repr, getattr(annotations, role).tolist()))
    for role in ("weight", "duration", "timestamp"):
        values = getattr(annotations, role)
        if values is not None:
            rounded = [round(float(value), 3) for value in values]
            record[role] = digest(sorted(f"{row!r} {value}" for row, value in zip(triplets, rounded, strict=True)))
    if annotations.gold is not None:
        known = np.flatnonzero(~np.ma.getmaskarray(annotations.gold))
        classes = annotations.classes[np.asarray(annotations.gold[known])]
        rows = zip(annotations.items[known].tolist(), classes.tolist(), strict=True)
        record["gold"] = digest(sorted(map(repr, rows)))
    return record


def reading_record(source: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Read a file and describe the annotations, skipped rows and warnings, or name the class of the error."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logger = logging.getLogger("crowdprism")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            record = described(cp.read_annotations(source, **options))
    except Exception as error:
        return {"error": type(error).__name__}
    finally:
        logger.removeHandler(handler)
    found = re.findall(r"skipped.*?: (\d+)", log.getvalue(), flags=re.IGNORECASE)
    return {**record, "n_skipped": sum(map(int, found)), "warnings": sorted({one.category.__name__ for one in caught})}


def sample_records(sample: Sample, folder: Path) -> dict[str, Any]:
    """Write a sample into an empty folder and read it, once by its content and once by the name of its format."""
    for name, content in sample.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    source = folder if len(sample.files) > 1 else folder / next(iter(sample.files))
    records = {sample.name: reading_record(source, sample.options)}
    if sample.format is not None:
        named = {**sample.options, "format": sample.format}
        records[f"{sample.name} (format named)"] = reading_record(source, named)
    return records


def run_command(arguments: list[str], folder: Path) -> dict[str, Any]:
    """Run the command line and return its exit code and a digest of its standard output."""
    program = Path(sys.executable).with_name("crowdprism")
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, check=False)
    return {"exit": done.returncode, "stdout": digest([done.stdout.decode()]), "bytes": len(done.stdout)}


def command_records(folder: Path) -> dict[str, Any]:
    """Run commands on the same table, and read back what `convert` writes."""
    rows = [(i, f"w{(i + k) % 5}", "xyz"[(i + k // 2) % 3], "xyz"[i % 3]) for i in range(30) for k in range(4)]
    (folder / "sample.csv").write_bytes(long_table(*rows, more=["gold"]))
    commands = [f"aggregate sample.csv --method {name}" for name in ("dawid-skene", "majority-vote", "glad", "list")]
    commands += ["aggregate sample.csv", "aggregate sample.csv --json", "train sample.csv --method list"]
    commands += ["aggregate nowhere.csv", "aggregate sample.csv --method nothing"]
    records = {f"crowdprism {command}": run_command(command.split(), folder) for command in commands}
    targets = {name: f"out.{name}" for name in ("csv", "tsv", "parquet", "jsonl", "npz", "json", "csv.gz")}
    for name, target in [*targets.items(), ("wide-csv", "wide.csv"), ("crowd-kit", "kit.csv"), ("peerannot", "p.json")]:
        chosen = [] if name in targets else ["--to", name]
        done = run_command(["convert", "sample.csv", target, *chosen], folder)
        records[f"crowdprism convert to {name}"] = {**done, **reading_record(folder / target, {})}
    return records


def freeze_formats() -> dict[str, Any]:
    """Read every sample and run the command line."""
    records: dict[str, Any] = {}
    for sample in [*format_samples(), *odd_samples()]:
        with tempfile.TemporaryDirectory() as folder:
            records |= sample_records(sample, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        records |= command_records(Path(folder))
    return records


def limited(array: Any) -> dict[str, NDArray[np.float64]]:
    """Return an array as it is stored: whole, or chosen rows and the means of the columns."""
    whole = np.asarray(array, dtype=np.float64)
    if whole.size <= MOST_NUMBERS:
        return {"": whole}
    n_rows = MOST_NUMBERS * len(whole) // whole.size
    rows = np.sort(np.random.default_rng(0).choice(len(whole), n_rows, replace=False))
    return {" rows": whole[rows], " mean": whole.mean(axis=0)}


def stop_fit(*_: Any) -> None:
    """End a fit that takes too long; called by the timer."""
    raise TooSlowError


def fit_aggregator(name: str, annotations: Any) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Fit at the defaults; return the record and the arrays by name."""
    started = time.process_time()
    signal.signal(signal.SIGPROF, stop_fit)
    signal.setitimer(signal.ITIMER_PROF, SECONDS_ALLOWED)
    try:
        result = cp.make_aggregator(name).fit(annotations.with_gold(None)).result_
    except TooSlowError:
        return {"skipped": f"more than {SECONDS_ALLOWED} s"}, {}
    except Exception as error:
        return {"error": type(error).__name__}, {}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = round(time.process_time() - started, 2)
    names = digest(repr(getattr(result, role).tolist()) for role in ("items", "annotators", "classes"))
    arrays: dict[str, NDArray[np.float64]] = {}
    for part in ARRAYS:
        if getattr(result, part, None) is not None:
            arrays |= {part + kind: kept for kind, kept in limited(getattr(result, part)).items()}
    return {"names": names, "arrays": sorted(arrays), "seconds": seconds}, arrays


def print_progress(method: str, records: Mapping[str, Any]) -> None:
    """Print the seconds that a method took on each data set, or the error."""
    done = (f"{name} {one.get('seconds', one)}" for name, one in records.items())
    print(f"{method}: {', '.join(done)}", flush=True)


def freeze_aggregators() -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
    """Fit every aggregator to every data set."""
    sets = {name: aggregator_set(name, crowd) for name, crowd in (AGGREGATOR_SETS | SIMULATED_SETS).items()}
    records: dict[str, Any] = {"sets": {name: described(labels) for name, labels in sets.items()}}
    kept: dict[str, NDArray[np.float64]] = {}
    for method in AGGREGATORS:
        records[method] = {}
        for name in sets:
            records[method][name], arrays = fit_aggregator(method, sets[name])
            kept |= {f"{method}/{name}/{part}": array for part, array in arrays.items()}
        print_progress(method, records[method])
    return records, kept


def accuracy_of(method: str, task: Task, seed: int) -> float:
    """Train with one seed and return the share of judged items that get their true class."""
    shown = task.annotations.with_gold(None)  # the true classes are for measuring
    model = cp.make_classifier(method, random_state=seed).fit(task.features, shown)
    given = model.result_.labels() if task.test_features is None else model.predict(task.test_features)
    pairs = zip(np.asarray(given).tolist(), task.true_classes, strict=True)
    return float(np.mean([label == true_class for label, true_class in pairs]))


def fit_classifier(method: str, task: Task, n_seeds: int) -> dict[str, Any]:
    """Return the accuracy for each seed, at default parameters."""
    started = time.process_time()
    try:
        accuracy = [accuracy_of(method, task, seed) for seed in range(n_seeds)]
    except Exception as error:
        return {"error": type(error).__name__}
    return {"accuracy": accuracy, "seconds": round(time.process_time() - started, 2)}


def freeze_classifiers(n_seeds: int) -> dict[str, Any]:
    """Train every classifier on every data set."""
    tasks = {name: classifier_task(name, crowd) for name, crowd in CLASSIFIER_SETS.items()}
    records: dict[str, Any] = {"sets": {name: described(task.annotations) for name, task in tasks.items()}}
    for method in CLASSIFIERS:
        records[method] = {name: fit_classifier(method, task, n_seeds) for name, task in tasks.items()}
        print_progress(method, records[method])
    return records


def store(path: Path, *, parts: list[str], n_seeds: int) -> None:
    """Run the parts and put them beside those that the file already has."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    threads = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "CROWDPRISM_THREADS")}
    packages = {name: version(name) for name in ("crowdprism", "numpy", "scipy", "polars", "torch")}
    record["settings"] = {"threads": threads, "versions": packages}
    for part in parts:
        started = time.monotonic()
        if part == "formats":
            record[part] = freeze_formats()
        elif part == "aggregators":
            record[part], arrays = freeze_aggregators()
            np.savez_compressed(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
        else:
            record[part] = freeze_classifiers(n_seeds)
        record.setdefault("minutes", {})[part] = round((time.monotonic() - started) / 60, 2)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Store or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    storing = commands.add_parser("store", help="run everything and store the results")
    storing.add_argument("out", type=Path)
    storing.add_argument("--parts", default=",".join(PARTS), help="parts to run, with commas")
    storing.add_argument("--seeds", type=int, default=5, help="training runs per classifier and data set")
    comparing = commands.add_parser("compare", help="compare two stored files")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        sys.exit(compare(options.before, options.after) > 0)
    parts = options.parts.split(",")
    if not set(parts) <= set(PARTS):
        parser.error(f"--parts takes {', '.join(PARTS)}")
    warnings.simplefilter("ignore")
    store(options.out, parts=parts, n_seeds=options.seeds)


if __name__ == "__main__":
    main()

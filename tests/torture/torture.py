"""Kill commands with SIGKILL, before every call that changes files and at random moments; `make torture` runs it.

    python tests/torture/torture.py --moments 60

After each kill the folder must hold the old run or store or the new one, and the command repeated (with --resume where
it left a state) must end with the same bits as one that was never killed, without leftovers. Every run is a fork of one
interpreter that has imported everything, killed like any process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from killing import killed_after, killed_before

import crowdprism as cp
from crowdprism import classifiers, report  # noqa: F401  (imported before the forks)
from crowdprism.cli import main
from crowdprism.experiments import RowStore
from crowdprism.training.checkpoint import has_checkpoint

AGGREGATE = ("aggregate", "labels.csv", "-o", "run", "--no-report")
TRAIN = (
    *("train", "labels.csv", "-x", "features.csv", "--network", "linear"),
    *("-o", "run", "--no-report", "--epochs", "3"),
)
REPORT = ("report", "run", "labels.csv")
REPRODUCE = ("reproduce", "mine.toml", "-o", "out")
SHARD = ("shard", "labels.csv", "-o", "store", "--force")
FROM_STORE = ("aggregate", "store", "-o", "run", "--no-report")
STUDY = """
name = "mine"
title = "Two methods"
source = "us"
[parameters]
epochs = 1
network = "linear"
[[cells]]
name = "digits"
title = "Digits"
data = { dataset = "digits", n_items = 200 }
[methods.vote]
title = "NN-MV"
classifier = "nn-mv"
[methods.crowd-layer]
title = "CrowdLayer"
classifier = "crowdlayer"
[budgets.quick]
reduces = "everything"
seeds = [1]
"""
SAME_BITS = ("labels.csv", "annotators.csv", "arrays.npz", "weights.safetensors")


def make_inputs(folder: Path) -> None:
    """Annotations and features of 40 items."""
    draws = np.random.default_rng(0)
    truth = np.arange(40) % 2
    people = ("ann", "bob", "cy")
    rows = [f"{i},{who},{'ny'[truth[i] ^ int(draws.random() < 0.2)]}" for i in range(40) for who in people]
    (folder / "labels.csv").write_text("\n".join(["item,annotator,label", *rows, ""]))
    (folder / "earlier.csv").write_text("\n".join(["item,annotator,label", *rows[:60], ""]))
    cells = [f"{i},{x:.3f},{y:.3f}" for i, (x, y) in enumerate(truth[:, None] * 3 + draws.normal(size=(40, 2)))]
    (folder / "features.csv").write_text("\n".join(["item,x,y", *cells, ""]))
    (folder / "mine.toml").write_text(STUDY)


def command(*words: str) -> Callable[[], None]:
    """The command line as a function that prints nothing."""

    def call() -> None:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        sys.argv = ["crowdprism", *words]
        main()

    return call


def preload(*commands: tuple[str, ...]) -> None:
    """Import what the commands import, so that no fork has to; the modules are found by running them in forks."""
    with tempfile.TemporaryDirectory() as place:
        make_inputs(Path(place))
        os.chdir(place)
        for words in commands:
            reading, writing = os.pipe()
            if os.fork() == 0:
                try:
                    command(*words)()
                finally:
                    with os.fdopen(writing, "w") as names:
                        names.write("\n".join(name for name in sys.modules if "." not in name or "crowdprism" in name))
                    os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as names:
                for name in names.read().split():
                    with suppress(ImportError):
                        import_module(name)
            os.wait()
        os.chdir("/")


def finished(*words: str) -> None:
    """Run a command to its end in a fork."""
    assert not killed_before(-1, command(*words))


def bits() -> dict[str, object]:
    """What the same command writes with the same bits: files of the run, and rows of experiments but for their time."""
    found: dict[str, object] = {
        name: Path("run", name).read_bytes() for name in SAME_BITS if Path("run", name).exists()
    }
    for key, row in RowStore("out/rows.jsonl").read().items():
        found[key] = {name: value for name, value in row.items() if name != "seconds"}
    found |= {path.name: path.stat().st_size for path in Path("out").glob("*.md")}
    return found | {path.name: path.read_bytes() for path in Path("store").glob("*/*.parquet")}


def what_is_there() -> dict[str, str]:
    """The method of the run and the files of the store in the current folder, those that there are, checked whole.

    The store is checked without polars: its threads would not live on in forks.
    """
    found = {}
    if Path("run/manifest.json").exists():
        loaded = cp.load("run")
        found["run"] = str(getattr(loaded, "result_", loaded).method)
    if Path("store/manifest.json").exists():
        manifest = json.loads(Path("store/manifest.json").read_text())
        for name, (size, digest) in manifest["files"].items():
            data = Path("store", manifest["part"], name).read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (size, digest), f"{name} is not whole"
        found["store"] = json.dumps(manifest["files"])
    return found


def check(words: tuple[str, ...], expected: dict[str, object], old: dict[str, str], new: dict[str, str]) -> None:
    """After a kill in the current folder: old or new is there, and the repeated command ends as if never killed."""
    found = what_is_there()
    assert old.keys() <= found.keys(), f"{old} is gone"
    assert all(found[name] in (old.get(name), new[name]) for name in found)
    if "run" in old:
        assert Path("run/mine.txt").read_text() == "kept"
    resumable = words[0] == "train" and has_checkpoint(Path("run.checkpoint"))
    finished(*words, *(["--resume"] if resumable or Path("run.unfinished").exists() else []))
    assert bits() == expected, "the repeated command gave other bits"
    left = [
        str(path) for path in [*Path().rglob(".*"), Path("run.checkpoint"), Path("run.unfinished")] if path.exists()
    ]
    assert not left, f"leftovers: {left}"


def torture(words: tuple[str, ...], before: tuple[tuple[str, ...], ...], n_moments: int) -> tuple[int, int]:
    """Kill a command after these earlier ones before every call, and at random moments; count the kills."""
    with tempfile.TemporaryDirectory() as place:
        start = Path(place) / "start"
        start.mkdir()
        make_inputs(start)
        os.chdir(start)
        for earlier in before:
            finished(*earlier)
        old = what_is_there()
        if "run" in old:
            Path("run/mine.txt").write_text("kept")
        whole = Path(shutil.copytree(start, Path(place) / "whole"))
        os.chdir(whole)
        begun = time.monotonic()
        finished(*words)
        took = time.monotonic() - begun
        expected, new = bits(), what_is_there()

        def fresh_start() -> None:
            os.chdir(place)
            shutil.rmtree(Path(place) / "work", ignore_errors=True)
            os.chdir(shutil.copytree(start, Path(place) / "work"))

        n_calls = 0
        while True:
            fresh_start()
            if not killed_before(n_calls + 1, command(*words)):
                break
            check(words, expected, old, new)
            n_calls += 1
        n_killed = 0
        moments = random.Random(0)
        for _ in range(n_moments):
            fresh_start()
            killed = killed_after(moments.uniform(0, 1.1 * took), command(*words))
            n_killed += killed
            took *= 1 if killed else 0.9  # the first run was slower than the others
            check(words, expected, old, new)
        os.chdir("/")
        return n_calls, n_killed


def run() -> None:
    """Kill aggregate, train, report, reproduce and shard, over an earlier run or store and without one."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--moments", type=int, default=60, help="random moments per case")
    options.add_argument("--only", default="", help="part of the title of the cases to run")
    given = options.parse_args()
    preload(AGGREGATE, TRAIN, (*REPORT, "-o", "page.html"), REPRODUCE, SHARD, FROM_STORE)
    earlier = ("aggregate", "labels.csv", "-o", "run", "--no-report", "-m", "majority-vote")
    untrained = (*TRAIN[:-1], "1", "-m", "nn-mv")
    cases = [
        ("aggregate into no folder", AGGREGATE, ()),
        ("aggregate over a run", AGGREGATE, (earlier,)),
        ("train into no folder", TRAIN, ()),
        ("train over a run", TRAIN, (untrained,)),
        ("report into a run", REPORT, (earlier,)),
        ("reproduce into no folder", REPRODUCE, ()),
        ("reproduce over a part", REPRODUCE, ((*REPRODUCE, "--methods", "vote"),)),
        ("shard into no folder", SHARD, ()),
        ("shard over a store", SHARD, (("shard", "earlier.csv", "-o", "store"),)),
        ("aggregate a store into no folder", FROM_STORE, (SHARD,)),
        ("aggregate a store over a run", FROM_STORE, (SHARD, earlier)),
        ("aggregate over a run of a store", AGGREGATE, (SHARD, (*FROM_STORE, "-m", "majority-vote"))),
    ]
    for title, words, before in cases:
        if given.only not in title:
            continue
        n_calls, n_killed = torture(words, before, given.moments)
        print(f"{title}: {n_calls} kills before calls, {n_killed} at {given.moments} random moments", flush=True)


if __name__ == "__main__":
    run()

"""Annotators who answer as one voice: are they found, and does an independent crowd stay as it is?

    python benchmarks/dependence.py [--crowds 300] [--seeds 10] [--data FOLDER] [--time]

Juries with copies of a bad judge are measured with and without `dependence="auto"`. Independent crowds and the public
sets must keep every bit. `--time` fits 10^6 annotations. Results go to results/dependence.json.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from crowdprism import Annotations, make_aggregator
from crowdprism.errors import ConvergenceWarning
from crowdprism.simulate import one_coin, per_item, simulate_annotations
from measured import store
from outside_view import gold_sets

FIDELITY = 0.97
REPEATS = 5


def jury(
    seed: int,
    honest: list[float],
    cliques: list[tuple[int, float]],  # members, accuracy of the one they copy
    *,
    n_items: int,
    n_classes: int,
    labels: int | None = None,
) -> Annotations:
    """Honest judges, and cliques whose members repeat one judge in `FIDELITY` of cases and guess otherwise."""
    random = np.random.default_rng([seed, 5])
    truth = random.integers(n_classes, size=n_items)

    def answers(accuracy: float) -> np.ndarray:
        wrong = (truth + random.integers(1, n_classes, n_items)) % n_classes
        return np.where(random.random(n_items) < accuracy, truth, wrong)

    columns = [answers(one) for one in honest]
    for size, accuracy in cliques:
        voice = answers(accuracy)
        faithful = random.random((size, n_items)) < FIDELITY
        columns += list(np.where(faithful, voice, random.integers(n_classes, size=(size, n_items))))
    table = np.stack(columns, axis=1)
    if labels is not None:
        kept = np.argsort(random.random(table.shape), axis=1)[:, :labels]
        sparse = np.full_like(table, -1)
        np.put_along_axis(sparse, kept, np.take_along_axis(table, kept, axis=1), axis=1)
        table = sparse
    return Annotations.from_dense(table, classes=list(range(n_classes))).with_gold(dict(enumerate(truth.tolist())))


JURIES: dict[str, dict[str, Any]] = {
    "3 of .76-.80, 4 copies of .70, 2 classes": {
        "honest": [0.8, 0.78, 0.76], "cliques": [(4, 0.7)], "n_items": 1797, "n_classes": 2,
    },
    "4 of .72-.80, 5 copies of .62, 3 classes": {
        "honest": [0.72, 0.75, 0.78, 0.8], "cliques": [(5, 0.62)], "n_items": 1000, "n_classes": 3,
    },
    "3 of .80, two cliques of 3": {
        "honest": [0.8, 0.8, 0.8], "cliques": [(3, 0.62), (3, 0.6)], "n_items": 1000, "n_classes": 3,
    },
    "40 annotators, 16 copies, 6 labels per item": {
        "honest": [0.75] * 24, "cliques": [(16, 0.6)], "n_items": 3000, "n_classes": 3, "labels": 6,
    },
}  # fmt: skip


def accuracy(annotations: Annotations, dependence: str | None) -> float:
    """Share of right labels of the default Dawid-Skene, which sees no gold."""
    result = make_aggregator("dawid-skene", use_gold=False, dependence=dependence).fit(annotations).result_
    return float(np.ma.mean(annotations.gold == result.class_probabilities.argmax(axis=1)))


def independent(seed: int) -> Annotations:
    """A crowd of independent annotators of any size, skill and number of labels."""
    random = np.random.default_rng([seed, 9])
    n_classes, n_annotators = int(random.integers(2, 8)), int(random.integers(3, 60))
    n_items, labels = int(random.integers(50, 800)), int(random.integers(2, min(n_annotators, 12) + 1))
    skills = random.uniform(random.uniform(0.2, 0.7), random.uniform(0.75, 0.99), n_annotators)
    truth = random.choice(n_classes, size=n_items, p=random.dirichlet(np.full(n_classes, 3.0)))
    pairs = per_item(n_items, n_annotators, labels=labels, seed=seed)
    return simulate_annotations(truth, one_coin(skills, n_classes), pairs, seed=seed).with_gold(None)


def is_changed(annotations: Annotations) -> bool:
    """Whether looking for voices changes any bit of the class probabilities."""
    both = [
        make_aggregator("dawid-skene", dependence=dependence, max_iter=3).fit(annotations).result_.class_probabilities
        for dependence in ("auto", None)
    ]
    return bool((both[0] != both[1]).any())


def seconds(annotations: Annotations) -> dict[str, float]:
    """Least processor time of a whole call with ten iterations, with the search and without it, and their ratio."""
    taken: dict[str, list[float]] = {"auto": [], "none": []}
    for _ in range(REPEATS):
        for name, dependence in (("auto", "auto"), ("none", None)):
            begun = time.process_time()
            make_aggregator("dawid-skene", dependence=dependence, max_iter=10, tolerance=0.0).fit(annotations)
            taken[name].append(time.process_time() - begun)
    least = {name: min(times) for name, times in taken.items()}
    return {**least, "ratio": least["auto"] / least["none"]}


def timed() -> dict[str, dict[str, float]]:
    """Whole calls at 10^6 annotations: few labels per item, and hundreds."""
    random = np.random.default_rng(3)
    found = {}
    for name, (n_items, n_annotators, labels) in {
        "5 labels per item": (200_000, 2_000, 5),
        "400 labels per item": (2_500, 500, 400),
    }.items():
        skills = one_coin(random.uniform(0.5, 0.9, n_annotators), 4)
        truth = random.integers(4, size=n_items)
        a = simulate_annotations(truth, skills, per_item(n_items, n_annotators, labels=labels)).with_gold(None)
        found[name] = seconds(a)
    return found


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crowds", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data", type=Path, default=os.environ.get("CROWDPRISM_DATA"))
    parser.add_argument("--time", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    record: dict[str, Any] = {"juries": {}}
    for name, kind in JURIES.items():
        crowds = [jury(seed, **kind) for seed in range(arguments.seeds)]
        found = {str(kind): [accuracy(one, kind) for one in crowds] for kind in ("auto", None)}
        record["juries"][name] = {kind: {"mean": np.mean(v), "least": min(v)} for kind, v in found.items()}
        print(name, record["juries"][name], flush=True)
    record["independent crowds"] = arguments.crowds
    record["independent crowds changed"] = sum(is_changed(independent(seed)) for seed in range(arguments.crowds))
    if arguments.data is not None:
        sets = gold_sets(Path(arguments.data) / "truth_inference")
        record["public sets changed"] = [data.name for data in sets if is_changed(data.annotations)]
    if arguments.time:
        record["seconds at 10^6 annotations"] = timed()
    for name, value in list(record.items())[1:]:
        print(name, value)
    print("wrote", store("dependence", record))


if __name__ == "__main__":
    main()

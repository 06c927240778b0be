"""Dawid-Skene's two priors on simulated crowds and public sets: `crowd`, and the default, each annotator's own skill.

    python benchmarks/dawid_skene_prior.py [--seeds 1] [--data FOLDER]

Crowds have 2 to 50 classes, 5 to 500 labels per annotator and 3 to 10 per item, and are of eight kinds. Also checked:
the objective never decreases within a round, and crowds with one label per item get that label. Results go to
results/dawid_skene_prior.json.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from crowdprism import Annotations, make_aggregator
from crowdprism.errors import ConvergenceWarning
from crowdprism.simulate import one_per_item, per_item, simulate_annotations
from measured import store
from outside_view import gold_sets

CLASSES, PER_ANNOTATOR, PER_ITEM = (2, 3, 5, 10, 50), (5, 15, 50, 500), (3, 5, 10)
KINDS = ("one skill", "own rows", "pair flips", "spammers", "hammers", "one label", "hard classes", "imbalanced")
METHODS = {"majority": "majority-vote", "one-coin": "one-coin", "crowd": "dawid-skene", "own skill": "dawid-skene"}
LEAST_ITEMS, ITEMS_PER_CLASS = 300, 12
DECREASE = 1e-9  # of the objective, relative: rounding


def confusions_of(kind: str, n_annotators: int, n_classes: int, random: np.random.Generator) -> np.ndarray:
    """(n_annotators, true class, given label) of a kind of crowd."""
    chance, eye = 1.0 / n_classes, np.eye(n_classes)
    mean = random.uniform(0.45, 0.75)  # of this crowd
    right = np.repeat(random.beta(9 * mean, 9 * (1 - mean), n_annotators)[:, None], n_classes, axis=1)
    if kind == "own rows":
        right = random.beta(8 * mean, 8 * (1 - mean), (n_annotators, n_classes))
    elif kind == "spammers":
        right[random.random(n_annotators) < 0.3] = chance
    elif kind == "hammers":
        right = np.repeat(np.where(random.random(n_annotators) < 0.5, 0.95, chance + 0.05)[:, None], n_classes, axis=1)
    elif kind == "hard classes":
        right = np.clip(right + random.normal(0, 0.2, n_classes), chance + 0.02, 0.97)
    towards = (1 - eye) / (n_classes - 1)
    if kind == "pair flips":
        towards = 0.3 * towards + 0.7 * np.roll(eye, 1, axis=1)
    confusions = (1 - right)[:, :, None] * towards + right[:, :, None] * eye
    if kind == "one label":  # some lean to the first label
        lean = np.where(random.random(n_annotators) < 0.4, 0.4, 0.0)[:, None, None]
        confusions = (1 - lean) * confusions + lean * eye[0]
    return np.asarray(confusions)


def crowds(seed: int) -> Iterator[tuple[dict[str, Any], Annotations]]:
    """Every combination once."""
    for n_classes, per_annotator, labels, kind in product(CLASSES, PER_ANNOTATOR, PER_ITEM, KINDS):
        place = [seed, n_classes, per_annotator, labels, KINDS.index(kind)]
        random = np.random.default_rng(place)
        n_items = max(LEAST_ITEMS, ITEMS_PER_CLASS * n_classes)
        n_annotators = max(n_items * labels // per_annotator, labels + 2)
        shares = random.dirichlet(np.full(n_classes, 1.0 if kind == "imbalanced" else 30.0))
        truth = random.choice(n_classes, size=n_items, p=shares)
        pairs = per_item(n_items, n_annotators, labels=labels, seed=int(random.integers(2**31)))
        confusions = confusions_of(kind, n_annotators, n_classes, random)
        drawn = int(random.integers(2**31))
        row = {"classes": n_classes, "per annotator": per_annotator, "per item": labels, "kind": kind}
        yield row, simulate_annotations(truth, confusions, pairs, seed=drawn)


def options_of(method: str) -> dict[str, Any]:
    """The same for both priors but for the prior."""
    return {"prior": "crowd"} if method == "crowd" else {}


def accuracies(annotations: Annotations) -> dict[str, float]:
    """Share of right labels of each method, which see no gold."""
    found = {}
    for name, method in METHODS.items():
        result = make_aggregator(method, use_gold=False, **options_of(name)).fit(annotations).result_
        found[name] = float(np.ma.mean(annotations.gold == result.class_probabilities.argmax(axis=1)))
        if name == "own skill":
            found["decreases"] = float(n_decreases(result.history))
    return found


def n_decreases(history: Any) -> int:
    """How often the objective fell within a round."""
    objective = np.array(history["objective"])
    same_round = np.diff(history.get("stage", np.zeros(len(objective)))) == 0
    return int((np.diff(objective) < -DECREASE * np.abs(objective[1:]))[same_round].sum())


def on_public_sets(root: Path) -> dict[str, dict[str, float]]:
    """Accuracy on each set; items with tied classes count by the share of the right one."""
    found = {}
    for data in gold_sets(root):
        known = data.gold >= 0
        rows = {}
        for name in ("crowd", "own skill"):
            shares = (
                make_aggregator("dawid-skene", **options_of(name)).fit(data.annotations).result_.class_probabilities
            )
            best = shares >= shares.max(axis=1, keepdims=True) - 1e-9
            right = best[known, data.gold[known]] / best[known].sum(axis=1)
            rows[name] = float(right.sum() / (data.gold != -1).sum())
        found[data.name] = rows
    return found


def singles_that_differ(n_crowds: int) -> int:
    """Of crowds with one label per item, those whose labels are not these labels."""
    differ = 0
    for seed in range(n_crowds):
        random = np.random.default_rng([seed, 77])
        n_classes = int(random.integers(2, 11))
        truth = random.integers(n_classes, size=300)
        confusions = confusions_of(KINDS[seed % len(KINDS)], 20, n_classes, random)
        annotations = simulate_annotations(truth, confusions, one_per_item(300, 20, seed=seed), seed=seed)
        result = make_aggregator("dawid-skene", use_gold=False).fit(annotations).result_
        differ += bool((result.class_probabilities.argmax(axis=1) != annotations.label).any())
    return differ


def means(rows: list[dict[str, Any]], by: str) -> dict[str, dict[str, float]]:
    """Mean accuracies by a property of the crowds."""
    values = dict.fromkeys(str(row[by]) for row in rows)
    return {
        value: {name: float(np.mean([row[name] for row in rows if str(row[by]) == value])) for name in METHODS}
        for value in values
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data", type=Path, default=os.environ.get("CROWDPRISM_DATA"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = [{**row, **accuracies(crowd)} for seed in range(arguments.seeds) for row, crowd in crowds(1000 + seed)]
    record: dict[str, Any] = {
        "crowds": len(rows),
        "mean": {name: float(np.mean([row[name] for row in rows])) for name in METHODS},
        "by": {by: means(rows, by) for by in ("per annotator", "per item", "classes", "kind")},
        "crowds whose objective fell": sum(row["decreases"] > 0 for row in rows),
        "single labels that differ": singles_that_differ(40),
    }
    if arguments.data is not None:
        sets = on_public_sets(Path(arguments.data) / "truth_inference")
        record["sets"] = sets
        record["sets mean"] = {
            name: float(np.mean([one[name] for one in sets.values()])) for name in ("crowd", "own skill")
        }
    for name, value in record.items():
        print(name, value)
    print("wrote", store("dawid_skene_prior", record))


if __name__ == "__main__":
    main()

"""Does `compare` choose well without seeing gold? Measured where gold is known; results/choice_of_method.json.

    CROWDPRISM_DATA=... python benchmarks/choice_of_method.py

For each data set: the accuracy of the recommended method beside majority vote, Dawid-Skene, the mean of the methods
compared and the best of them in hindsight, on items with gold that somebody labelled.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from crowdprism import load_dataset
from crowdprism.comparison import compare
from crowdprism.comparison.running import found_classes, gold_hits
from crowdprism.datasets import catalogue
from crowdprism.errors import CrowdprismError, CrowdprismWarning
from measured import store

MOST_ANNOTATIONS = 60_000  # larger sets take minutes each and change nothing


def chosen_on(name: str) -> dict[str, Any] | None:
    """Accuracies on one data set, or None where it is not here or has no gold."""
    try:
        annotations = load_dataset(name).annotations
    except CrowdprismError:
        return None
    if annotations is None or annotations.gold is None or annotations.n_annotations > MOST_ANNOTATIONS:
        return None
    outcome = compare(replace(annotations, gold=None))
    hits = {method: gold_hits(found_classes(result), annotations) for method, result in outcome.results.items()}
    accuracy = {method: float(hit.mean()) for method, hit in hits.items() if hit is not None}
    if not accuracy or outcome.recommended is None:
        return None
    return {
        "data set": name,
        "recommended": outcome.recommended,
        "accuracy": round(accuracy[outcome.recommended], 4),
        "majority-vote": round(accuracy["majority-vote"], 4),
        "dawid-skene": round(accuracy["dawid-skene"], 4),
        "mean of methods": round(float(np.mean(list(accuracy.values()))), 4),
        "best in hindsight": round(max(accuracy.values()), 4),
    }


def main() -> None:
    """Measure and store."""
    warnings.simplefilter("ignore", CrowdprismWarning)
    rows = []
    for name, entry in catalogue().items():
        row = chosen_on(name) if entry.n_annotations and entry.n_gold else None
        if row is not None:
            print(row, flush=True)
            rows.append(row)
    columns = ("accuracy", "majority-vote", "dawid-skene", "mean of methods", "best in hindsight")
    means = {column: round(float(np.mean([row[column] for row in rows])), 4) for column in columns}
    print(means)
    store("choice_of_method", {"data sets": len(rows), "means": means, "rows": rows})


if __name__ == "__main__":
    main()

"""Compare two files that `frozen_behaviour.py store` wrote: what is the same, what differs, and by how much."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

AGGREGATOR_LIMIT = 1e-9  # largest difference of a probability, an accuracy or a skill
ERRORS_LIMIT, POINTS_LIMIT = 3.0, 1.0  # a classifier is flagged beyond both: standard errors and percentage points
PARTS = ("formats", "aggregators", "classifiers")


def difference(before: NDArray[Any], after: NDArray[Any]) -> float:
    """Return the largest difference; infinite where shapes differ or only one side is not a number."""
    if before.shape != after.shape or not np.array_equal(np.isnan(before), np.isnan(after)):
        return float("inf")
    return float(np.nanmax(np.abs(before - after), initial=0.0))


def aggregator_cell(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return what keeps two fits from being compared by their numbers, with * for a difference; empty if nothing."""
    if "skipped" in before or "skipped" in after:
        return "too slow"
    if "error" in before or "error" in after:
        return "refused" if before == after else f" {before.get('error', 'fits')} -> {after.get('error', 'fits')}*"
    if before["names"] != after["names"]:
        return "other names*"
    return "" if before["arrays"] == after["arrays"] else "other arrays*"


def compare_aggregators(before: dict[str, Any], after: dict[str, Any], files: tuple[Path, Path]) -> int:
    """Print the largest difference by method and data set; return how many are beyond the limit."""
    n_beyond = print_other_sets(before, after)
    print(f"{'largest difference':18}" + "".join(f"{name:>14}" for name in before["sets"]))
    with np.load(files[0]) as old, np.load(files[1]) as new:
        for method in methods_of(before):
            row = f"{method:18}"
            for name, record, other in pairs(before, after, method):
                cell = aggregator_cell(record, other)
                if cell == "":
                    keys = [f"{method}/{name}/{part}" for part in record["arrays"]]
                    largest = max(difference(old[key], new[key]) for key in keys)
                    cell = f"{largest:.1e}" + ("*" if largest > AGGREGATOR_LIMIT else "")
                row += f"{cell:>14}"
                n_beyond += cell.endswith("*")
            print(row)
    return n_beyond


def pairs(before: dict[str, Any], after: dict[str, Any], method: str) -> list[tuple[str, Any, Any]]:
    """Return each data set's name with the records of a method on both sides."""
    there = after.get(method, {})
    return [(name, record, there.get(name, {"error": "absent"})) for name, record in before[method].items()]


def methods_of(part: dict[str, Any]) -> list[str]:
    """Return the names of the methods in a part."""
    return [name for name in part if name != "sets"]


def print_other_sets(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Name the data sets that are not the same on both sides, and return how many there are."""
    others = [name for name, record in before["sets"].items() if after["sets"].get(name) != record]
    print("".join(f"* data set {name} is another one, or is read otherwise\n" for name in others), end="")
    return len(others)


def spread(accuracy: list[float]) -> tuple[float, float]:
    """Return mean and standard deviation in percentage points."""
    points = 100 * np.array(accuracy)
    return float(points.mean()), float(points.std(ddof=1)) if len(points) > 1 else 0.0


def classifier_row(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, bool]:
    """Return accuracies before and after as text, and whether they differ beyond the limits."""
    if "error" in before or "error" in after:
        errors = before.get("error", "fits"), after.get("error", "fits")
        return " -> ".join(errors), errors[0] != errors[1]
    (mean, deviation), (new_mean, new_deviation) = spread(before["accuracy"]), spread(after["accuracy"])
    error = float(np.hypot(deviation / len(before["accuracy"]) ** 0.5, new_deviation / len(after["accuracy"]) ** 0.5))
    gap = new_mean - mean
    text = f"{mean:6.2f} ± {deviation:4.2f} {new_mean:9.2f} ± {new_deviation:4.2f} {gap:+9.2f} {error:9.2f}"
    return text, abs(gap) > max(POINTS_LIMIT, ERRORS_LIMIT * error)


def compare_classifiers(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print accuracies by method and data set; return how many differ beyond the limits."""
    n_beyond = print_other_sets(before, after)
    print(f"{'accuracy, %':20}{'':14}  before            after     difference  its error")
    for method in methods_of(before):
        for name, record, other in pairs(before, after, method):
            text, is_beyond = classifier_row(record, other)
            print(f"{method:20}{name:14}{text}{' *' if is_beyond else ''}")
            n_beyond += is_beyond
    return n_beyond


def compare_formats(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print which samples are read otherwise, and in what; return how many."""
    n_different = 0
    for name, record in before.items():
        other = after.get(name, {})
        changed = [key for key in sorted({*record, *other}) if record.get(key) != other.get(key)]
        n_different += bool(changed)
        told = ", ".join(f"{key} {record.get(key)} -> {other.get(key)}" for key in changed)
        print(f"{name:45} {'different * ' + told if changed else 'equal'}")
    print(f"{len(before) - n_different} of {len(before)} equal")
    return n_different


def compare(before: Path, after: Path) -> int:
    """Print what differs, part by part; return how many comparisons are beyond the limits (marked with *)."""
    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (before, after))
    print(f"before: {old['settings']}\nafter:  {new['settings']}")
    files = (before.with_suffix(".npz"), after.with_suffix(".npz"))
    counts = {}
    for part in [part for part in PARTS if part in old and part in new]:
        print(f"\n== {part}, {old['minutes'][part]} and {new['minutes'][part]} minutes")
        if part == "aggregators":
            counts[part] = compare_aggregators(old[part], new[part], files)
        else:
            counts[part] = (compare_formats if part == "formats" else compare_classifiers)(old[part], new[part])
    print("\nbeyond the limits: " + ", ".join(f"{count} {part}" for part, count in counts.items()))
    return sum(counts.values())

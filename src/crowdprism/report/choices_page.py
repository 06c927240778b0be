"""The page about answers with several choices: how right each choice is, who ticks well, what to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from crowdprism.aggregators.multi_label import MultiLabelResult
from crowdprism.annotations.choice_sets import MultiLabelAnnotations
from crowdprism.diagnostics.agreement import krippendorff_alpha, masi_alpha
from crowdprism.errors import UnsuitableDataError, counted
from crowdprism.report.tables_page import table_of, tables_page

N_ITEMS = 30


def choice_columns(result: MultiLabelResult, annotations: MultiLabelAnnotations) -> dict[str, Any]:
    """By choice: items it applies to, share of answers that tick it, expected accuracy, alpha; NaN where unknown."""
    expected = [one.expected_accuracy for one in result.results.values()]
    return {
        "choice": result.choices,
        "items": (result.probabilities > 0.5).sum(axis=0),
        "ticked": np.array([(problem.label == 1).mean() for _, problem in annotations]),
        "expected_accuracy": np.array([np.nan if one is None else one.value for one in expected]),
        "low": np.array([np.nan if one is None else one.low for one in expected]),
        "high": np.array([np.nan if one is None else one.high for one in expected]),
        "alpha": np.array([alpha_of(krippendorff_alpha, problem) for _, problem in annotations]),
    }


def alpha_of(measure: Callable[[Any], float], annotations: Any) -> float:
    try:
        return float(measure(annotations))
    except UnsuitableDataError:  # no item has two answers
        return np.nan


def annotator_columns(result: MultiLabelResult, annotations: MultiLabelAnnotations) -> dict[str, Any]:
    """By annotator: answers, how often they tick a choice that applies, and leave out one that does not."""
    true = result.probabilities[annotations.sets.item]
    ticked = annotations.members[annotations.sets.label]
    n, who = annotations.sets.n_annotators, annotations.sets.annotator
    sums = [np.bincount(who, part.sum(axis=1), n) for part in (true * ticked, true, (1 - true) * ~ticked, 1 - true)]
    found, absent = sums[0] / np.maximum(sums[1], 1e-9), sums[2] / np.maximum(sums[3], 1e-9)
    names, counts = annotations.sets.annotators, annotations.sets.labels_per_annotator
    return {"annotator": names, "answers": counts, "finds": found, "leaves_out": absent}


def gold_f1(result: MultiLabelResult, annotations: MultiLabelAnnotations) -> float | None:
    """F1 over all choices of items with gold, by fits that have not seen it; None without gold."""
    gold = annotations.sets.gold
    if gold is None or not gold.count():
        return None
    known = ~np.ma.getmaskarray(gold)
    true = annotations.members[gold.filled(0)[known]]
    found = np.stack([one.blind.class_probabilities[known, 1] > 0.5 for one in result.results.values()], axis=1)
    return float(2 * (found & true).sum() / max(found.sum() + true.sum(), 1))


def choice_lines(result: MultiLabelResult, annotations: MultiLabelAnnotations) -> Iterator[str]:
    labels = result.labels()
    mean, empty = np.mean([len(one) for one in labels]), sum(not one for one in labels)
    yield f"{mean:.2f} of {len(result.choices)} choices apply to an item on average; items without any: {empty}."
    alpha = alpha_of(masi_alpha, annotations)
    if alpha == alpha:
        yield f"Agreement on whole answers (MASI alpha): {alpha:.2f}."
    measured = gold_f1(result, annotations)
    if measured is not None:
        yield f"F1 against gold, which the fit did not see: {measured:.2f}."
    expected = {choice: one.expected_accuracy for choice, one in result.results.items()}
    known = {choice: one.value for choice, one in expected.items() if one is not None}
    if known:
        worst = min(known, key=lambda choice: known[choice])
        yield f"Least certain choice: {worst}, right on about {known[worst]:.0%} of items."
    yield from dict.fromkeys(note for one in result.results.values() for note in one.warnings)


def choices_page(result: MultiLabelResult, annotations: MultiLabelAnnotations) -> str:
    distance = np.abs(result.probabilities - 0.5)
    unclear = np.argsort(distance.min(axis=1), kind="stable")[:N_ITEMS]
    which = distance.argmin(axis=1)
    choices, people = choice_columns(result, annotations), annotator_columns(result, annotations)
    interval = np.column_stack([choices.pop(name) for name in ("low", "expected_accuracy", "high")])
    right = {"": interval, "right": interval[:, 1]} if np.isfinite(interval).all() else {"right": interval[:, 1]}
    tables = [
        table_of(
            "Choices: items they apply to, share of answers that tick them, Krippendorff's alpha, how often yes and no "
            "are right (with 95 % interval)",
            {**choices, **right},
        ),
        table_of(
            "Annotators: how often they tick what applies, and leave out what does not",
            {name.replace("_", " "): column for name, column in people.items()},
            np.argsort(people["finds"], kind="stable"),
        ),
        table_of(
            "Items to look at: the least certain first",
            {
                "item": result.items,
                "labels": [", ".join(map(str, one)) for one in result.labels()],
                "unclear choice": result.choices[which],
                "probability": result.probabilities[np.arange(len(which)), which],
            },
            unclear,
        ),
    ]
    return tables_page(
        f"{counted(len(result.items), 'item')}, {counted(len(result.choices), 'choice')}",
        eyebrow=f"Several choices, by {result.method}",
        lines=choice_lines(result, annotations),
        tables=tables,
    )

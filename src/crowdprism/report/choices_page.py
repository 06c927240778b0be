"""The page about answers with several choices: how right each choice is, who ticks well, what to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from crowdprism.aggregators.multi_label import MultiLabelResult
from crowdprism.annotations.choice_sets import MultiLabelAnnotations
from crowdprism.diagnostics.agreement import krippendorff_alpha, masi_alpha
from crowdprism.errors import UnsuitableDataError, counted
from crowdprism.report.tables_page import PageTable, Span, table_of, tables_page

N_ITEMS = 30


def choice_rows(result: MultiLabelResult, annotations: MultiLabelAnnotations) -> list[dict[str, Any]]:
    """One row per choice: items it applies to, share of answers that tick it, expected accuracy, alpha."""
    rows = []
    for at, (choice, problem) in enumerate(annotations):
        expected = result.results[choice].expected_accuracy
        rows.append(
            {
                "choice": choice,
                "items": int((result.probabilities[:, at] > 0.5).sum()),
                "ticked": float((problem.label == 1).mean()),
                "expected_accuracy": None if expected is None else expected.value,
                "low": None if expected is None else expected.low,
                "high": None if expected is None else expected.high,
                "alpha": alpha_of(krippendorff_alpha, problem),
            }
        )
    return rows


def alpha_of(measure: Callable[[Any], float], annotations: Any) -> float | None:
    try:
        return float(measure(annotations))
    except UnsuitableDataError:  # no item has two answers
        return None


def annotator_rows(result: MultiLabelResult, annotations: MultiLabelAnnotations) -> list[dict[str, Any]]:
    """One row per annotator: answers, how often they tick a choice that applies, and leave out one that does not."""
    true = result.probabilities[annotations.sets.item]
    ticked = annotations.members[annotations.sets.label]
    n, who = annotations.sets.n_annotators, annotations.sets.annotator
    sums = [np.bincount(who, part.sum(axis=1), n) for part in (true * ticked, true, (1 - true) * ~ticked, 1 - true)]
    found, absent = sums[0] / np.maximum(sums[1], 1e-9), sums[2] / np.maximum(sums[3], 1e-9)
    names, counts = annotations.sets.annotators, annotations.sets.labels_per_annotator
    rows = zip(*(column.tolist() for column in (names, counts, found, absent)), strict=True)
    return [dict(zip(("annotator", "answers", "finds", "leaves_out"), row, strict=True)) for row in rows]


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
    if alpha is not None:
        yield f"Agreement on whole answers (MASI alpha): {alpha:.2f}."
    measured = gold_f1(result, annotations)
    if measured is not None:
        yield f"F1 against gold, which the fit did not see: {measured:.2f}."
    scores = [row for row in choice_rows(result, annotations) if row["expected_accuracy"] is not None]
    if scores:
        worst = min(scores, key=lambda row: row["expected_accuracy"])
        yield f"Least certain choice: {worst['choice']}, right on about {worst['expected_accuracy']:.0%} of items."
    yield from dict.fromkeys(note for one in result.results.values() for note in one.warnings)


def choices_page(result: MultiLabelResult, annotations: MultiLabelAnnotations) -> str:
    distance = np.abs(result.probabilities - 0.5)
    unclear = np.argsort(distance.min(axis=1), kind="stable")[:N_ITEMS]
    which = distance.argmin(axis=1)
    tables = [
        PageTable(
            "Choices: items they apply to, share of answers that tick them, how often yes and no are right (with 95 % "
            "interval), Krippendorff's alpha",
            ["choice", "items", "ticked", "", "right", "alpha"],
            [
                [row["choice"], row["items"], row["ticked"],
                 "" if row["low"] is None else Span(row["low"], row["expected_accuracy"], row["high"]),
                 row["expected_accuracy"], row["alpha"]]
                for row in choice_rows(result, annotations)
            ],
        ),
        PageTable(
            "Annotators: how often they tick what applies, and leave out what does not",
            ["annotator", "answers", "finds", "leaves out"],
            [list(row.values()) for row in sorted(annotator_rows(result, annotations), key=lambda row: row["finds"])],
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
    ]  # fmt: skip
    return tables_page(
        f"{counted(len(result.items), 'item')}, {counted(len(result.choices), 'choice')}",
        eyebrow=f"Several choices, by {result.method}",
        lines=choice_lines(result, annotations),
        tables=tables,
    )

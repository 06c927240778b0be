"""Parts of a page beside the table: which methods stay below what was published, and how long a fit takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crowdprism.experiments.spec import Published
from crowdprism.experiments.summary import Measured, TableResult

UNKNOWN_SPREAD = 1.0  # stands in for a spread that was not published, unless ours is larger


def allowed_spread(ours: Measured, published: Published) -> float:
    """By how much a mean may lie below the published one: the published spread.

    Examples
    --------
    >>> allowed_spread(Measured({1: 60.0, 2: 66.0}, 2, ()), Published(70.0))
    3.0
    """
    return max(ours.spread, UNKNOWN_SPREAD) if published.spread is None else published.spread


def shortfall_parts(result: TableResult) -> list[str]:
    """Methods whose mean is below the published one by more than its spread, with where the reason stands."""
    if result.study.figure != "accuracy" or not result.plan.budget.comparable or not result.study.published:
        return []
    lines = list(shortfall_lines(result)) or ["- none"]
    told = (
        "A spread that was not published is taken as the larger of ours and "
        f"{UNKNOWN_SPREAD}. Variants of a method are left out."
    )
    return ["## Below the published mean by more than its spread", told, "\n".join(lines)]


def shortfall_lines(result: TableResult) -> Iterator[str]:
    """One line for each method and column."""
    for cell in result.plan.cells:
        for method in result.plan.methods:
            ours = result.measured(cell.name, method.name)
            published = result.study.published_for(cell.name, method.name)
            if ours is None or published is None or method.variant_of:
                continue
            spread = allowed_spread(ours, published)
            if ours.mean >= published.mean - spread:
                continue
            explained = any(
                (one.methods or one.cells)  # what concerns everything explains nothing in particular
                and (not one.methods or method.name in one.methods)
                and (not one.cells or cell.name in one.cells)
                for one in result.study.deviations
            )
            reason = "the reason is among the known deviations" if explained else "no reason is known"
            yield (
                f"- {method.title}, {cell.title}: {ours.mean:.2f} ({ours.n_trials} trials) against "
                f"{published.mean:.2f} - {spread:.2f}; {reason}."
            )


def time_parts(result: TableResult) -> list[str]:
    """Median seconds of the chosen fits, by method and column."""
    cells = result.plan.cells
    lines = []
    for method in result.plan.methods:
        found = [result.measured(cell.name, method.name) for cell in cells]
        if any(found):
            shown = ["" if one is None else f"{np.median([row['seconds'] for row in one.rows]):.1f}" for one in found]
            lines.append(f"| {method.title} | {' | '.join(shown)} |")
    if not lines:
        return []
    head = [f"| method | {' | '.join(cell.title for cell in cells)} |", "|---" * (1 + len(cells)) + "|"]
    told = (
        "Processor seconds of one fit on one thread, median over trials. Rows that were stored before this was so hold "
        "seconds on the clock, of a machine that did other work too."
    )
    return ["## Seconds per fit", told, "\n".join([*head, *lines])]

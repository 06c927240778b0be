"""The outcome of a comparison: measured rows, their order, and which method to take and why.

The rule: take the method with the best score. Among methods within one standard error of it, which the data cannot
tell apart, take the one whose labels are most stable, then the fastest. The score is accuracy on gold if there is
enough of it, otherwise the likelihood of held-out annotations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations.frames import frame_of_columns
from crowdprism.results import FitResult

MIN_GOLD = 30  # with fewer items, one item changes accuracy by more than methods usually differ
STABILITY_DIGITS = 2  # smaller differences are noise of the few seeds
SMALLEST_GAP = 5e-4  # of mean scores; less is not seen in the table, and nobody's labels are better for it
COLUMNS = {  # attribute of a row -> heading of its column, in order
    "method": "method",
    "accuracy": "accuracy on gold",
    "log_likelihood": "held-out log-likelihood",
    "held_out_agreement": "held-out agreement",
    "agreement_with_others": "agreement with others",
    "stability": "stability",
    "seconds": "seconds",
}


@dataclass(frozen=True)
class MethodRow:
    """What was measured of one method; None where it could not be measured."""

    method: str
    accuracy: float | None = None  # share of items with gold that are labelled correctly
    log_likelihood: float | None = None  # mean over held-out annotations; closer to zero is better
    held_out_agreement: float | None = None  # share of held-out annotations that equal the label found for their item
    agreement_with_others: float | None = None  # share of items that get the same label from another method
    stability: float | None = None  # share of items that keep their label when seed and held-out annotations change
    seconds: float | None = None  # median time of a fit
    failed: str = ""  # why nothing was measured
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods, best first and failed ones last, and which one to take (None if nothing was measured).

    `interrupted` says that not every method was measured; `results` are what each learned from all annotations.
    """

    rows: tuple[MethodRow, ...]
    recommended: str | None
    reason: str
    interrupted: bool = False
    results: Mapping[str, FitResult] = field(default_factory=dict, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Attributes that were measured of at least one method."""
        return tuple(name for name in COLUMNS if any(getattr(row, name) is not None for row in self.rows))

    def to_records(self) -> list[dict[str, Any]]:
        """One dict per method, best first, by column heading; a last column says why a method failed."""
        records = [{COLUMNS[name]: getattr(row, name) for name in self.columns} for row in self.rows]
        if any(row.failed for row in self.rows):
            for record, row in zip(records, self.rows, strict=True):
                record["remark"] = row.failed or None
        return records

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per method; `kind` as in `Annotations.to_frame`."""
        names = [*self.columns, "failed"]
        return frame_of_columns({name: [getattr(row, name) for row in self.rows] for name in names}, kind)

    def __str__(self) -> str:
        records = self.to_records()
        cells = [list(records[0])] if records else [[""]]
        for record in records:
            values = ["-" if value is None else value for value in record.values()]
            cells.append([f"{value:.3f}" if isinstance(value, float) else str(value) for value in values])
        widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
        return "\n".join([*(line.rstrip() for line in lines), "", self.reason])


def rank(rows: Sequence[MethodRow], *, by_gold: bool) -> tuple[MethodRow, ...]:
    """Best first: by accuracy on gold or held-out likelihood, then by agreement with held-out labels; failures last."""

    def order(row: MethodRow) -> tuple[bool, float, float, str]:
        score = row.accuracy if by_gold else row.log_likelihood
        last = [float("inf") if value is None else -value for value in (score, row.held_out_agreement)]
        return bool(row.failed), last[0], last[1], row.method

    return tuple(sorted(rows, key=order))


def recommend(
    rows: Sequence[MethodRow], scores: Mapping[str, NDArray[np.float64]], *, by_gold: bool
) -> tuple[str | None, str]:
    """Name of the method to take, and why, from rows with the best first and scores that are paired over methods."""
    measured = [row for row in rows if not row.failed]
    if not measured:
        return None, "No method could be measured, so none is recommended."
    scored = [row for row in measured if row.method in scores]
    if not scored:
        best = measured[0]
        return best.method, (
            f"Take {best.method}: its labels agree with the most held-out annotations "
            f"({best.held_out_agreement:.1%}). None of the methods measured has a likelihood, so this is weak evidence."
        )
    best = scored[0]
    if len(scored) == 1:
        return best.method, f"{best.method} is the only method that could be measured, so there was no choice."
    tied = [row for row in scored if row is best or indistinguishable(scores[best.method], scores[row.method])]
    chosen = min(tied, key=lambda row: (-rounded_stability(row), row.seconds or 0.0))
    return chosen.method, explain(chosen, tied, by_gold=by_gold, n_scores=len(scores[best.method]))


def indistinguishable(best: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether two methods differ by at most one standard error of the paired difference, or hardly at all."""
    gap = best - other
    error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.inf
    return bool(gap.mean() <= max(error, SMALLEST_GAP))


def rounded_stability(row: MethodRow) -> float:
    return round(row.stability or 0.0, STABILITY_DIGITS)


def explain(chosen: MethodRow, tied: Sequence[MethodRow], *, by_gold: bool, n_scores: int) -> str:
    """Why a method was chosen; `tied` are the methods that the data cannot tell apart, best first."""
    best = tied[0]
    if by_gold:
        score = f"it labels {chosen.accuracy:.1%} of {n_scores:,} items with gold correctly"
        caution = ""
    else:
        well = "best" if chosen is best else "as well as any"
        likelihood = f"mean log-likelihood {chosen.log_likelihood:.3f}"
        score = f"it predicts {n_scores:,} held-out annotations {well} ({likelihood})"
        caution = (
            " Predicting what annotators say is evidence of finding the truth, not proof: check a few labels yourself, "
            "or give gold for some items."
        )
    *most, last = [row.method for row in tied if row is not chosen] or [""]
    if not last:
        return f"Take {chosen.method}: {score}, clearly better than every other method measured.{caution}"
    if chosen is best:
        reason = "it has the best score by a small margin and is no less stable."
    elif rounded_stability(chosen) > rounded_stability(best):
        reason = "its labels are the most stable of these."
    else:
        reason = "it is the fastest of these."
    others = f"{', '.join(most)} and {last}" if most else last
    return f"Take {chosen.method}: {score}. The data cannot tell it from {others}; {reason}{caution}"

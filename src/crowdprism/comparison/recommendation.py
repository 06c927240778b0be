"""Which method to take, and why, in words.

The rule: take the method that scores best; of those within one standard error of it, which the data cannot tell apart
from the best, the one whose labels are most stable, and of these the quickest. The score is accuracy on gold where
there is enough of it, else the likelihood of annotations that were held out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from crowdprism.comparison.comparison_records import MethodRow

LEAST_GOLD = 30  # with fewer, one item moves accuracy by more than methods usually differ
STABILITY_DIGITS = 2  # differences below a percent of the items are noise of the few seeds


def in_order_of_merit(rows: Sequence[MethodRow], *, by_gold: bool) -> tuple[MethodRow, ...]:
    """Best first: by accuracy on gold or by held-out likelihood, then agreement with held-out labels; failures last."""
    lowest = float("-inf")

    def merit(row: MethodRow) -> tuple[bool, float, float, str]:
        score = row.accuracy if by_gold else row.log_likelihood
        agreed = row.held_out_agreement
        return (
            bool(row.failed),
            -(lowest if score is None else score),
            -(lowest if agreed is None else agreed),
            row.method,
        )

    return tuple(sorted(rows, key=merit))


def recommend(
    rows: Sequence[MethodRow], scores: Mapping[str, NDArray[np.float64]], *, by_gold: bool
) -> tuple[str | None, str]:
    """Name of the method to take and the reason.

    Parameters
    ----------
    rows
        In order of merit.
    scores
        For each method that has a score, one number per held-out annotation (log-likelihood) or per item with gold
        (1 right, 0 wrong), the same ones in the same order.
    """
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
    alike = [row for row in scored if row is best or indistinguishable(scores[best.method], scores[row.method])]
    chosen = min(alike, key=lambda row: (-round(row.stability or 0.0, STABILITY_DIGITS), row.seconds or 0.0))
    if len(scored) == 1:
        return chosen.method, f"{chosen.method} is the only method that could be measured, so there was no choice."
    return chosen.method, reason_for(chosen, best, alike, by_gold=by_gold, n_scores=len(scores[best.method]))


def indistinguishable(best: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether two methods differ by no more than one standard error of the paired difference.

    Examples
    --------
    >>> indistinguishable(np.array([1.0, 0.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0, 0.0]))
    True
    >>> indistinguishable(np.zeros(4), np.array([-1.0, -1.1, -0.9, -1.0]))
    False
    """
    gap = best - other
    error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.inf
    return bool(gap.mean() <= error)


def reason_for(chosen: MethodRow, best: MethodRow, alike: Sequence[MethodRow], *, by_gold: bool, n_scores: int) -> str:
    """The reason in words."""
    score = score_of(chosen, by_gold=by_gold, n_scores=n_scores, is_best=chosen is best)
    others = [row.method for row in alike if row is not chosen]
    if not others:
        return f"Take {chosen.method}: {score}, clearly better than every other method measured.{caution(by_gold)}"
    if chosen is best:
        text = (
            f"Take {chosen.method}: {score}. The data cannot tell it from {listed(others)}; it is the best by a little"
        )
        text += " and no less stable."
    else:
        text = f"Take {chosen.method}: {score}. The data cannot tell it from {listed(others)}"
        more_stable = round(chosen.stability or 0, STABILITY_DIGITS) > round(best.stability or 0, STABILITY_DIGITS)
        text += "; of these its labels are the most stable." if more_stable else "; of these it is the quickest."
    return text + caution(by_gold)


def score_of(row: MethodRow, *, by_gold: bool, n_scores: int, is_best: bool) -> str:
    """What speaks for a method, in words."""
    if by_gold:
        return f"it labels {row.accuracy:.1%} of {n_scores:,} items with gold right"
    well = "best" if is_best else "as well as any"
    return f"it predicts {n_scores:,} held-out annotations {well} (mean log-likelihood {row.log_likelihood:.3f})"


def caution(by_gold: bool) -> str:
    """What the score does not show."""
    if by_gold:
        return ""
    return (
        " Predicting what annotators say is evidence of finding the truth, not proof: check a few labels yourself, or "
        "give gold for some items."
    )


def listed(names: Sequence[str]) -> str:
    """Names as in a sentence.

    Examples
    --------
    >>> listed(["glad"]), listed(["glad", "mace", "ibcc"])
    ('glad', 'glad, mace and ibcc')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

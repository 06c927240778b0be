"""May this judge replace a person? The alternative annotator test of Calderon, Reichart and Dror (ACL 2025).

Each person in turn is left out. On every item, judge and person are scored by the share of the other people who gave
the same label; the one with the higher score has the advantage, in a tie both have it. The judge wins against the
person if their advantage exceeds the judge's by less than epsilon, by a one-sided t-test; false discoveries among the
people are controlled as by Benjamini and Yekutieli. The judge may replace people if it wins against at least half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.errors import InvalidParameterError

MIN_HUMANS = 2  # who labelled an item, the one left out included
MIN_ITEMS = 30  # of a person, so that the mean is near normal
FALSE_DISCOVERIES = 0.05
EPSILONS = (0.1, 0.15, 0.2)  # advised for crowd workers, trained people and experts
WINS = 0.5


@dataclass(frozen=True)
class AlternativeTest:
    """Outcome of the test for one judge."""

    passed: bool | None  # whether the judge wins against at least half of the people; None if nobody has enough items
    winning_rate: float  # share of the people against whom the judge wins, at the chosen epsilon
    winning_rates: Mapping[float, float]  # the same at 0.1, 0.15 and 0.2
    advantage: float  # mean over people of the share of items on which the judge scores at least as high
    epsilon: float
    p_values: NDArray[np.float64]  # (human,) of the test against each; NaN with fewer than 30 items
    n_humans: int  # people with enough items


def alternative_annotator_test(
    judge: NDArray[Any],  # (item,) class codes, -1 where the judge said nothing
    humans: NDArray[Any],  # (item, human) class codes, -1 where a person said nothing
    *,
    epsilon: float = 0.2,
) -> AlternativeTest:
    """Test one judge against the people.

    Examples
    --------
    >>> truth = np.arange(60) % 3
    >>> people = np.stack([np.where(np.arange(60) % 5 == shift, (truth + 1) % 3, truth) for shift in range(4)], axis=1)
    >>> alternative_annotator_test(truth, people).winning_rate
    1.0
    >>> alternative_annotator_test((truth + 1) % 3, people).passed
    False
    """
    if not 0 <= epsilon <= 1:
        raise InvalidParameterError(f"epsilon must lie between 0 and 1, not {epsilon}.", parameter="epsilon")
    given = humans >= 0
    usable = (judge >= 0) & (given.sum(axis=1) >= MIN_HUMANS)
    differences, advantages = [], []
    for at in range(humans.shape[1]):
        rows = np.flatnonzero(usable & given[:, at])
        others = np.delete(humans[rows], at, axis=1)
        person_score = (others == humans[rows, at][:, None]).sum(axis=1)  # over the same people, so counts will do
        judge_score = (others == judge[rows][:, None]).sum(axis=1)
        differences.append((person_score >= judge_score).astype(float) - (judge_score >= person_score))
        advantages.append(float((judge_score >= person_score).mean()) if len(rows) else np.nan)
    enough = np.array([len(one) >= MIN_ITEMS for one in differences], dtype=bool)
    rates = {one: winning_rate(p_values(differences, enough, one)) for one in (*EPSILONS, epsilon)}
    return AlternativeTest(
        passed=bool(rates[epsilon] >= WINS) if enough.any() else None,
        winning_rate=rates[epsilon],
        winning_rates={one: rates[one] for one in EPSILONS},
        advantage=float(np.mean(np.array(advantages)[enough])) if enough.any() else float("nan"),
        epsilon=epsilon,
        p_values=p_values(differences, enough, epsilon),
        n_humans=int(enough.sum()),
    )


def p_values(differences: list[NDArray[Any]], enough: NDArray[np.bool_], epsilon: float) -> NDArray[np.float64]:
    """(human,) p-value of a mean difference below epsilon; NaN without enough items."""
    from scipy.special import stdtr

    found = np.full(len(differences), np.nan)
    for at in np.flatnonzero(enough):
        values = differences[at]
        spread = values.std(ddof=1)
        shift = values.mean() - epsilon
        if spread == 0:  # the same on every item
            found[at] = 0.0 if shift < 0 else 1.0
        else:
            found[at] = stdtr(len(values) - 1, shift / (spread / np.sqrt(len(values))))
    return found


def winning_rate(p: NDArray[np.float64]) -> float:
    """Share of the known p-values that the procedure of Benjamini and Yekutieli rejects; NaN without any."""
    known = np.sort(p[np.isfinite(p)])
    if not len(known):
        return float("nan")
    rank = np.arange(1, len(known) + 1)
    below = np.flatnonzero(known <= rank / len(known) * FALSE_DISCOVERIES / (1 / rank).sum())
    return float((below[-1] + 1) / len(known)) if len(below) else 0.0

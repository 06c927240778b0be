"""A share among all items, from answers to a stratified random sample of them, with an interval.

The interval rests on the random draw alone. It inverts a test: a candidate share stays in the interval unless an
estimate as extreme as the observed one would be improbable under it. Where one stratum is everything this is the
interval of Clopper and Pearson. With several strata a share leaves open how it is spread over them; the test takes the
spread that fits the answers best, with a few answers added to each stratum that are right as often as the candidate
says: few answers make strata look more different than they are. (Strata that are known to differ get one answer each,
half right.) Of estimates equal to the observed one, half count as extreme (mid-P) where there are several strata;
otherwise intervals would hold more often, and be wider, than stated.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdprism.results.intervals import require_level

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

PSEUDO_ANSWERS = 6.0  # per stratum; chosen and measured with benchmarks/audit_coverage.py
LATTICE = 2048  # steps between 0 and 1 on which the distribution of the estimate is computed
N_BISECTIONS = 13  # halvings of [0, 1]: finer than a step of the lattice
LARGE = 20  # a stratum this many times its answers is as good as endless
STEEPEST = 25.0  # the multiplier is searched on sinh(-25..25)


class Share(NamedTuple):
    """A share with its interval, and how many answers it rests on."""

    value: float
    low: float
    high: float
    n_answers: int


def stratified_share(
    right: Any,  # (stratum,) right answers
    asked: Any,  # (stratum,) answers
    size: Any,  # (stratum,) items
    *,
    level: float = 0.95,
    default: Any = None,  # (stratum,) what an unasked stratum counts in the value; its interval is [0, 1] anyway
    alike: bool = True,  # whether strata are expected to differ little
) -> Share:
    """Share of right items among all, where each stratum was asked at random."""
    require_level(level)
    right, asked, size = (np.asarray(values, dtype=np.int64) for values in (right, asked, size))
    total = size.sum()
    counted = asked >= size  # everything in the stratum is known
    sampled = (asked > 0) & ~counted
    known = float(right[counted].sum()) / total
    unasked = float(size[asked == 0].sum()) / total
    low = high = value = 0.0
    if sampled.any():
        weight = size[sampled] / total
        value = float((weight * right[sampled] / asked[sampled]).sum())
        low, high = _sampled_interval(right[sampled], asked[sampled], size[sampled], weight, level=level, alike=alike)
    value += known
    if unasked:
        if default is None:
            value /= 1 - unasked if unasked < 1 else 1.0
        else:
            value += float((size * np.asarray(default, dtype=float))[asked == 0].sum()) / total
    certain = right.sum() / total, 1 - (asked - right).sum() / total  # what the answers themselves leave possible
    low, high = max(known + low, certain[0]), min(known + high + unasked, certain[1])
    value, low, high = (round(float(end), 12) for end in (value, low, high))
    return Share(value, low, high, int(asked.sum()))


def _sampled_interval(
    right: IntArray, asked: IntArray, size: IntArray, weight: FloatArray, *, level: float, alike: bool
) -> tuple[float, float]:
    """Interval of the weighted sum of the strata's shares."""
    largest = float(weight.sum())
    estimate = float((weight * right / asked).sum())
    # Rounding to the lattice moves a stratum by at most half a step: estimates that close count as equal.
    slack = (len(weight) + 1) / 2 if len(weight) > 1 else 0.5
    place = np.arange(2 * LATTICE)
    position = estimate * LATTICE
    equal = 0.5 if len(weight) > 1 else 1.0
    at_least, at_most = (
        np.select([away > slack, away >= -slack], [1.0, equal]) for away in (place - position, position - place)
    )

    def tail(candidate: float, extreme: FloatArray) -> float:
        spread = best_spread(candidate, right, asked, weight, alike=alike)
        return float(estimate_distribution(spread, asked, size, weight) @ extreme)

    def end(outer: float, extreme: FloatArray) -> float:
        inner = estimate
        for _ in range(N_BISECTIONS):
            middle = (outer + inner) / 2
            outer, inner = (outer, middle) if tail(middle, extreme) > (1 - level) / 2 else (middle, inner)
        return outer

    low = end(0.0, at_least) if right.any() else 0.0
    return low, end(largest, at_most) if (right < asked).any() else largest


def best_spread(
    candidate: float, right: IntArray, asked: IntArray, weight: FloatArray, *, alike: bool = True
) -> FloatArray:
    """(stratum,) shares that fit the answers best among those whose weighted sum is the candidate.

    Maximises the sum of x log p + (n - x) log(1 - p). With a multiplier m, m w p^2 - (m w + n) p + x = 0 for each
    stratum; the sum falls as m grows, so that m is found by bisection.
    """
    n_added = PSEUDO_ANSWERS if alike else 1.0
    right_added = n_added * candidate / float(weight.sum()) if alike else 0.5
    cells = zip(right.tolist(), asked.tolist(), weight.tolist(), strict=True)
    strata = [(x + right_added, n + n_added, w) for x, n, w in cells]
    low, high = -STEEPEST, STEEPEST
    shares: list[float] = []
    for _ in range(50):  # few strata: plain numbers are faster than arrays
        multiplier = math.sinh((low + high) / 2)
        shares = []
        for x, n, w in strata:
            centre = multiplier * w + n
            shares.append(2 * x / (centre + math.sqrt(max(centre * centre - 4 * multiplier * w * x, 0.0))))
        total = sum(w * share for (_, _, w), share in zip(strata, shares, strict=True))
        low, high = ((low + high) / 2, high) if total > candidate else (low, (low + high) / 2)
    return np.array([min(max(share, 0.0), 1.0) for share in shares])


def estimate_distribution(share: FloatArray, asked: IntArray, size: IntArray, weight: FloatArray) -> FloatArray:
    """(2 LATTICE,) probability that the estimate is at each step of the lattice, given the strata's shares."""
    transform: Any = 1.0
    for p, n, items, w in zip(share.tolist(), asked.tolist(), size.tolist(), weight.tolist(), strict=True):
        count = np.arange(n + 1)
        mass = binomial(count, n, p) if items > LARGE * n else hypergeometric(count, n, round(p * items), items)
        step = np.rint(count * (w / n * LATTICE)).astype(np.int64)
        transform = transform * np.fft.rfft(np.bincount(step, weights=mass, minlength=2 * LATTICE))
    return np.maximum(np.fft.irfft(transform, 2 * LATTICE), 0.0)


def binomial(count: IntArray, n: int, p: float) -> FloatArray:
    """(count,) probability of each number of right answers among n, each right with probability p."""
    from scipy.special import xlog1py, xlogy

    return np.asarray(np.exp(log_choose(n, count) + xlogy(count, p) + xlog1py(n - count, -p)))


def hypergeometric(count: IntArray, n: int, right: int, items: int) -> FloatArray:
    """(count,) probability of each number of right answers among n drawn without replacement."""
    possible = (count <= right) & (n - count <= items - right)
    drawn = np.where(possible, count, max(0, n - items + right))
    logs = log_choose(right, drawn) + log_choose(items - right, n - drawn) - log_choose(items, n)
    return np.where(possible, np.exp(logs), 0.0)


def log_choose(n: Any, k: Any) -> Any:
    """Logarithm of the number of ways to choose k of n."""
    from scipy.special import gammaln

    return gammaln(n + 1.0) - gammaln(np.asarray(k) + 1.0) - gammaln(n - np.asarray(k) + 1.0)


def answers_to_halve(right: Any, asked: Any, size: Any) -> int | None:
    """How many more answers, spread as before, would make the interval about half as wide; None if none are left."""
    right, asked, size = (np.asarray(values, dtype=np.float64) for values in (right, asked, size))
    sampled = (asked > 0) & (asked < size)
    if not sampled.any():
        return None
    n, items = asked[sampled], size[sampled]
    share = (right[sampled] + 0.5) / (n + 1)  # ten right answers do not make a stratum certain
    spread = np.square(items / size.sum()) * share * (1 - share)
    drawn, endless = float((spread / n).sum()), float((spread / items).sum())
    times = drawn / ((drawn - endless) / 4 + endless)  # without replacement the last answers count most
    return int(np.ceil(asked.sum() * (times - 1)))

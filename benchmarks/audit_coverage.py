"""Do the intervals of an audit hold, whatever the model, and are they narrower than those of a simple random sample?

    python benchmarks/audit_coverage.py --audits 2000

Each case is a fixed population of items with a confidence and a right or wrong label; audits of the same size are drawn
from it again and again. Beside the audit: a simple random sample with the intervals of Wilson and of Clopper-Pearson.
"""

from __future__ import annotations

import argparse
from functools import cache

import numpy as np
from scipy.stats import beta

from crowdprism.calibration.audit import N_STRATA, allocated, strata_of
from crowdprism.calibration.stratified import stratified_share

Z = 1.959964


def populations(n_items: int, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Confidence and rightness of each item, by case."""
    random = np.random.default_rng(seed)
    varied = 0.5 + random.beta(4, 1, n_items) / 2
    sure = np.where(random.random(n_items) < 0.8, 0.99, 0.6)
    evidence = np.abs(random.normal(2.5, 2.5, n_items))
    cases = {
        "calibrated": (varied, varied),
        "over-confident": (1 / (1 + np.exp(-np.minimum(2 * evidence, 12))), 1 / (1 + np.exp(-0.1 - evidence / 2))),
        "confidence says nothing, 85 % right": (varied, np.full(n_items, 0.85)),
        "confidence says nothing, 97 % right": (varied, np.full(n_items, 0.97)),
        "confidence says nothing, half right": (varied, np.full(n_items, 0.5)),
        "confidence reversed": (varied, 1.45 - varied),
        "sure and wrong, 10 % right": (sure, np.full(n_items, 0.1)),
        "sure items 90 %, others 99 % right": (sure, np.where(sure > 0.9, 0.9, 0.99)),
        "sure items 99 %, others 70 % right": (sure, np.where(sure > 0.9, 0.99, 0.7)),
        "always sure, 95 % right": (np.full(n_items, 0.999), np.full(n_items, 0.95)),
    }
    return {name: (confidence, random.random(n_items) < right) for name, (confidence, right) in cases.items()}


def measure(confidence: np.ndarray, right: np.ndarray, n: int, n_audits: int, seed: int) -> list[float]:
    """Coverage and mean width of the audit, of Wilson and of Clopper and Pearson."""
    random = np.random.default_rng(seed)
    stratum = strata_of(confidence, N_STRATA)
    size = np.bincount(stratum, minlength=N_STRATA)
    asked = allocated(n, size)
    members = [np.flatnonzero(stratum == place) for place in range(N_STRATA)]
    interval = cache(lambda counts: stratified_share(counts, asked, size)[1:3])
    sums = np.zeros(6)
    for _ in range(n_audits):
        drawn = [right[random.choice(one, count, replace=False)] for one, count in zip(members, asked, strict=True)]
        ends = [interval(tuple(int(part.sum()) for part in drawn))]
        x = int(right[random.choice(len(right), n, replace=False)].sum())
        centre, reach = (x + Z * Z / 2) / (n + Z * Z), Z / (n + Z * Z) * np.sqrt(x * (n - x) / n + Z * Z / 4)
        ends.append((centre - reach, centre + reach))
        ends.append((beta.ppf(0.025, x, n - x + 1) if x else 0.0, beta.ppf(0.975, x + 1, n - x) if x < n else 1.0))
        rounding = 1e-9
        sums += [v for low, high in ends for v in (low - rounding <= right.mean() <= high + rounding, high - low)]
    return (sums / n_audits).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=2000)
    parser.add_argument("--answers", type=int, default=40)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("| case | right | audit holds | width | Wilson holds | width | Clopper-Pearson holds | width |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (confidence, right) in populations(given.items, given.seed).items():
        figures = measure(confidence, right, given.answers, given.audits, given.seed)
        print(f"| {name} | {right.mean():.3f} | " + " | ".join(f"{one:.3f}" for one in figures) + " |", flush=True)


if __name__ == "__main__":
    main()

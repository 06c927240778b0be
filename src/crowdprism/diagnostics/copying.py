"""Who copies from whom: pairs of annotators who agree more often than their confusions explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.diagnostics.label_evidence import FLOOR, FloatArray, counts_of

MIN_COMMON = 10  # shared items before copying is considered
MIN_PAIRS = 20  # pairs from which on the crowd's own scatter is the yardstick
SUSPICIOUS_Z = 5.0  # one in three million pairs goes so far by chance
ENTRIES_AT_ONCE = 2_000_000  # confusion entries gathered for a block of pairs, 16 MB


@dataclass(frozen=True)
class CopyingSuspicion:
    """Pairs of annotators who agree more often than their confusions explain, the most suspicious first.

    Attributes
    ----------
    first, second
        (n_pairs,) annotator positions.
    common, agreements, expected
        (n_pairs,) shared items, agreements seen, agreements expected.
    z
        (n_pairs,) the excess in standard errors, beyond what is usual in this crowd.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    common: NDArray[np.int64]
    agreements: NDArray[np.int64]
    expected: FloatArray
    z: FloatArray


def copying(annotations: Annotations, *, z: float = SUSPICIOUS_Z) -> CopyingSuspicion:
    """Find pairs who agree beyond what their confusions explain.

    For every item that two annotators share, the chance of agreement is taken from their confusions and from what
    everybody else says of the item. Confusions are counted against the others' votes: a method that learned from the
    copies believes that the copied annotator is always right. Items that are hard for everybody raise the agreement
    of all pairs, so excess is measured against the other pairs of the crowd. It is a suspicion to look into, not a
    proof.

    Examples
    --------
    >>> from crowdprism.simulate import one_coin, per_item, simulate_annotations
    >>> honest = simulate_annotations(np.arange(300) % 3, one_coin([0.7] * 6, 3), per_item(300, 6, labels=6))
    >>> table = honest.to_dense()
    >>> found = copying(Annotations.from_dense(np.column_stack([table, table[:, 0]])))
    >>> found.first.tolist(), found.second.tolist()
    ([0], [6])
    """
    confusions, log_items = judged_by_votes(annotations)
    first_row, second_row = pairs_on_items(annotations)
    expected = np.empty(len(first_row))
    at_once = max(1, ENTRIES_AT_ONCE // annotations.n_classes**2)
    for start in range(0, len(first_row), at_once):
        rows = slice(start, start + at_once)
        one, two = first_row[rows], second_row[rows]
        theirs, others = confusions[annotations.annotator[one]], confusions[annotations.annotator[two]]
        place = np.arange(len(one))
        log = log_items[annotations.item[one]]
        log = log - np.log(theirs[place, :, annotations.label[one]]) - np.log(others[place, :, annotations.label[two]])
        shares = np.exp(log - log.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        expected[rows] = np.einsum("pk,pkl,pkl->p", shares, theirs, others)
    return suspicious_pairs(annotations, first_row, second_row, expected, z)


def judged_by_votes(annotations: Annotations) -> tuple[FloatArray, FloatArray]:
    """Confusions counted against the votes of the others, and log class shares of the items that follow from them."""
    n_items, n_classes = annotations.n_items, annotations.n_classes
    cell = annotations.item.astype(np.int64) * n_classes + annotations.label
    votes = np.bincount(cell, minlength=n_items * n_classes).reshape(n_items, n_classes).astype(float)
    prior = (votes.sum(axis=0) + 1) / (votes.sum() + n_classes)
    others = votes[annotations.item] + prior
    others[np.arange(len(others)), annotations.label] -= 1
    counts = counts_of(annotations, others / others.sum(axis=1, keepdims=True)) + 1 / n_classes
    confusions = counts / counts.sum(axis=2, keepdims=True)
    seen = np.log(confusions)[annotations.annotator, :, annotations.label]
    sums = np.stack([np.bincount(annotations.item, column, n_items) for column in seen.T], axis=1)
    return confusions, np.log(prior) + sums


def pairs_on_items(annotations: Annotations) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of all pairs of annotations of one item by two annotators."""
    firsts, seconds = [], []
    counts = annotations.labels_per_item
    for size in np.unique(counts[counts > 1]):
        begin = annotations.item_start[:-1][counts == size].astype(np.int64)
        upper = np.triu_indices(int(size), 1)
        firsts.append((begin[:, None] + upper[0]).reshape(-1))
        seconds.append((begin[:, None] + upper[1]).reshape(-1))
    empty = [np.empty(0, dtype=np.int64)]
    first, second = np.concatenate(firsts or empty), np.concatenate(seconds or empty)
    different = annotations.annotator[first] != annotations.annotator[second]
    return first[different], second[different]


def suspicious_pairs(
    annotations: Annotations,
    first_row: NDArray[np.int64],
    second_row: NDArray[np.int64],
    expected: FloatArray,
    threshold: float,
) -> CopyingSuspicion:
    """Add up agreements by pair of annotators and keep those far beyond expectation."""
    one, two = annotations.annotator[first_row].astype(np.int64), annotations.annotator[second_row].astype(np.int64)
    key, pair = np.unique(np.minimum(one, two) * annotations.n_annotators + np.maximum(one, two), return_inverse=True)
    agree = annotations.label[first_row] == annotations.label[second_row]
    common = np.bincount(pair, minlength=len(key))
    seen = np.bincount(pair, agree, len(key))
    mean = np.bincount(pair, expected, len(key))
    spread = np.sqrt(np.bincount(pair, expected * (1 - expected), len(key)) + FLOOR)
    excess = beyond_the_usual((seen - mean) / spread, common >= MIN_COMMON)
    kept = np.flatnonzero((common >= MIN_COMMON) & (excess > threshold))
    kept = kept[np.argsort(-excess[kept], kind="stable")]
    return CopyingSuspicion(
        first=key[kept] // max(annotations.n_annotators, 1),
        second=key[kept] % max(annotations.n_annotators, 1),
        common=common[kept],
        agreements=seen[kept].astype(np.int64),
        expected=mean[kept].astype(np.float64),
        z=excess[kept],
    )


def beyond_the_usual(z: FloatArray, judged: NDArray[np.bool_]) -> FloatArray:
    """Standard scores measured from the median of the judged pairs, in units of their usual scatter.

    With few pairs there is no saying what is usual, and the scores stay.
    """
    if judged.sum() < MIN_PAIRS:
        return z
    centre = np.median(z[judged])
    usual = 1.4826 * np.median(np.abs(z[judged] - centre))  # the median deviation of a normal law, scaled to one
    return np.asarray((z - max(centre, 0.0)) / max(usual, 1.0))

"""Replay of asking for labels: all labels are known but hidden, and policies choose which to reveal next.

Used by `diagnostics.py` beside it and by the tests of `crowdprism.diagnostics.next_labels`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.diagnostics.annotator_accounts import entropy
from crowdprism.diagnostics.item_accounts import peer_agreement
from crowdprism.diagnostics.label_evidence import vote_table
from crowdprism.diagnostics.next_labels import suggest
from crowdprism.errors import InvalidParameterError
from crowdprism.progress import progress
from crowdprism.results import FitResult
from crowdprism.seeding import stream

Rows = NDArray[np.int64]
# (result so far, annotations so far, all annotations, positions of hidden ones, how many, random) -> positions
Policy = Callable[[FitResult, Annotations, Annotations, Rows, int, np.random.Generator], Rows]


@dataclass(frozen=True)
class LabellingCurve:
    """Accuracy of the corrected labels against the number of labels revealed."""

    n_labels: NDArray[np.int64]
    accuracy: NDArray[np.float64]

    def labels_needed(self, accuracy: float) -> float:
        """Labels at which the accuracy is first reached and then held on average; NaN if never.

        The curve is smoothed by a running mean over three rounds, so that one lucky round does not count.
        """
        padded = np.concatenate([self.accuracy[:1], self.accuracy, self.accuracy[-1:]])
        smooth = np.convolve(padded, np.ones(3) / 3, "valid")
        reached = np.flatnonzero(smooth >= accuracy)
        return float(self.n_labels[reached[0]]) if len(reached) else float("nan")


def replay(
    pool: Annotations,
    fit: Callable[[Annotations], FitResult],
    policy: Policy,
    *,
    first: int = 1,
    batch: int,
    n_rounds: int,
    seed: int = 0,
) -> LabellingCurve:
    """Reveal `first` labels of each item at random, then let the policy ask for `batch` labels a round.

    Parameters
    ----------
    pool
        All labels, with gold to measure the accuracy.
    fit
        Learns from the labels revealed so far, such as `lambda a: DawidSkene().fit(a).result_`.
    """
    if pool.gold is None:
        raise InvalidParameterError("The replay measures accuracy against gold and these annotations have none.")
    random = stream(seed, "replay")
    known = first_rows(pool, first, random)
    counts, accuracies = [], []
    with progress("labelling rounds", total=n_rounds + 1) as bar:
        for _ in range(n_rounds + 1):
            so_far = pool.select(known)
            result = fit(so_far.with_gold(None))
            counts.append(int(known.sum()))
            accuracies.append(float(np.ma.mean(pool.gold == result.class_probabilities.argmax(axis=1))))
            bar.advance(note=f"accuracy {accuracies[-1]:.3f}")
            hidden = np.flatnonzero(~known)
            if not len(hidden):
                break
            known = known.copy()
            known[policy(result, so_far, pool, hidden, min(batch, len(hidden)), random)] = True
    return LabellingCurve(np.array(counts), np.array(accuracies))


def first_rows(pool: Annotations, first: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Mask of `first` random annotations of each item."""
    order = np.lexsort((random.random(pool.n_annotations), pool.item))
    rank = np.arange(pool.n_annotations) - pool.item_start[:-1][pool.item[order]]
    known = np.zeros(pool.n_annotations, dtype=bool)
    known[order[rank < first]] = True
    return known


def at_random(
    result: FitResult, so_far: Annotations, pool: Annotations, hidden: Rows, n: int, random: np.random.Generator
) -> Rows:
    """Any hidden labels."""
    return random.choice(hidden, size=n, replace=False)


def by_suggestion(
    result: FitResult, so_far: Annotations, pool: Annotations, hidden: Rows, n: int, random: np.random.Generator
) -> Rows:
    """The labels that `suggest` asks for, among those that exist."""
    asked = suggest(
        result, so_far, n, candidates=(pool.item[hidden], pool.annotator[hidden]), least_gain=0.0, per_item=1
    )
    row_of = dict(
        zip(zip(pool.item[hidden].tolist(), pool.annotator[hidden].tolist(), strict=True), hidden, strict=True)
    )
    rows = [row_of[pair] for pair in zip(asked.item.tolist(), asked.annotator.tolist(), strict=True)]
    return filled_up(np.array(rows, dtype=np.int64), hidden, n, random)


def by_suggested_item(
    result: FitResult, so_far: Annotations, pool: Annotations, hidden: Rows, n: int, random: np.random.Generator
) -> Rows:
    """Items with the most uncertain class, whoever has a label for them."""
    return one_per_item(-entropy(result.class_probabilities), pool, hidden, n, random)


def by_active_label_score(
    result: FitResult, so_far: Annotations, pool: Annotations, hidden: Rows, n: int, random: np.random.Generator
) -> Rows:
    """Items with the lowest consensus quality, as ActiveLab (Goh and Mueller 2023) without a classifier.

    The quality is a weighted mean of what each label and one uniform voter say of the consensus.
    """
    votes = vote_table(so_far)
    weights = np.maximum(peer_agreement(so_far, votes), 1e-3)
    named = vote_table(so_far, weights[so_far.annotator])
    total = named.sum(axis=1)
    quality = (named.max(axis=1) + weights.mean() / so_far.n_classes) / (total + weights.mean())
    return one_per_item(quality, pool, hidden, n, random)


def one_per_item(score: Any, pool: Annotations, hidden: Rows, n: int, random: np.random.Generator) -> Rows:
    """One hidden label of each of the items with the lowest scores, ties and annotators at random."""
    shuffled = random.permutation(hidden)
    items, first = np.unique(pool.item[shuffled], return_index=True)
    order = np.lexsort((random.random(len(items)), score[items]))[:n]
    return filled_up(shuffled[first[order]], hidden, n, random)


def filled_up(rows: Rows, hidden: Rows, n: int, random: np.random.Generator) -> Rows:
    """Add random hidden labels where fewer than n were chosen, so that policies spend alike."""
    rest = np.setdiff1d(hidden, rows)
    return np.concatenate([rows, random.choice(rest, size=min(n - len(rows), len(rest)), replace=False)])

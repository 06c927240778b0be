"""Measures of judges as functions of arrays, for the items as they are and for bootstrap samples of them.

A sample is a row of weights: how often each item was drawn. The items as they are have weight 1 each.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.majority_vote import decide
from crowdprism.seeding import stream

Table = NDArray[np.int64]  # (item, judge) class codes, -1 where a judge said nothing
FloatArray = NDArray[np.float64]
N_BOOTSTRAP = 1000
LEAST_BOOTSTRAP = 200
MOST_WEIGHTS = 20_000_000  # numbers in memory
MIN_SHARED = 10  # items that two judges must share for a correlation of their errors
N_FOLDS = 5
LARGEST_PANEL = 15
MOST_CANDIDATES = 20  # the best judges, among whom a panel is sought


def bootstrap_weights(n_items: int, seed: int) -> FloatArray:
    """(sample, item) how often each item was drawn; fewer samples where items are very many."""
    n_samples = int(np.clip(MOST_WEIGHTS // n_items, LEAST_BOOTSTRAP, N_BOOTSTRAP))
    random = stream(seed, "jury bootstrap")
    return np.stack(
        [np.bincount(random.integers(n_items, size=n_items), minlength=n_items) for _ in range(n_samples)]
    ).astype(np.float64)


def one_hot(codes: NDArray[Any], n_classes: int) -> FloatArray:
    """(item, class) 1 for the class of each item; all 0 where the code is -1."""
    return np.asarray(codes[:, None] == np.arange(n_classes), dtype=np.float64)


def class_rates(weights: FloatArray, label: NDArray[Any], truth: NDArray[Any], n_classes: int) -> tuple[Any, Any, Any]:
    """(sample,) share of right labels, (sample, class) shares of given labels and of true classes."""
    total = np.maximum(weights.sum(axis=1), 1.0)
    right = weights @ (label == truth) / total
    return right, *(weights @ one_hot(codes, n_classes) / total[:, None] for codes in (label, truth))


def error_correlations(weights: FloatArray, labels: Table, truth: NDArray[Any]) -> tuple[FloatArray, NDArray[Any]]:
    """(sample, pair) correlation of the errors of two judges on the items that both labelled; (pair, 2) who they are.

    NaN where two judges share fewer than ten items, or one of them is always right (or always wrong) there.
    """
    pairs = np.argwhere(np.triu(np.ones((labels.shape[1],) * 2, dtype=bool), 1))
    given, wrong = labels >= 0, (labels != truth[:, None]).astype(np.float64)
    found = np.full((len(weights), len(pairs)), np.nan)
    for place, (first, second) in enumerate(pairs):
        both = given[:, first] & given[:, second]
        if both.sum() < MIN_SHARED:
            continue
        w, a, b = weights[:, both], wrong[both, first], wrong[both, second]
        total = np.maximum(w.sum(axis=1), 1.0)
        mean_a, mean_b, mean_ab = (w @ values / total for values in (a, b, a * b))
        spread = np.sqrt(mean_a * (1 - mean_a) * mean_b * (1 - mean_b))
        with np.errstate(invalid="ignore", divide="ignore"):
            found[:, place] = np.where(spread > 0, (mean_ab - mean_a * mean_b) / spread, np.nan)
    return found, pairs


def effective_number(correlations: FloatArray, n_judges: int) -> FloatArray:
    """(sample,) n / (1 + (n - 1) r), where r is the mean correlation of errors, at least 0; NaN where none is known."""
    known = np.isfinite(correlations)
    mean = np.where(known, correlations, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    number = n_judges / (1 + (n_judges - 1) * np.clip(mean, 0.0, 1.0))
    return np.where(known.any(axis=1) | (n_judges == 1), number, np.nan)


def vote_counts(labels: Table, n_classes: int) -> FloatArray:
    return np.stack([(labels == code).sum(axis=1) for code in range(n_classes)], axis=1).astype(np.float64)


def vote_scores(labels: Table, truth: NDArray[Any], n_classes: int) -> FloatArray:
    """(item,) how right the majority vote is: 1, 0, or 1/k in a tie of k classes that holds the true one."""
    shares = decide(vote_counts(labels, n_classes), "split")
    return np.asarray(shares[np.arange(len(labels)), truth])


def greedy_path(labels: Table, truth: NDArray[Any], n_classes: int) -> list[list[int]]:
    """Panels of 1, 3, 5, ... judges: the best judge, then each time the two who make the vote best.

    Two at a time, because a second judge alone can only tie. Ties go to the judges who come first.
    """
    hot = [one_hot(labels[:, at], n_classes) for at in range(labels.shape[1])]
    rows = np.arange(len(labels))

    def score(votes: FloatArray) -> float:
        return float(decide(votes, "split")[rows, truth].mean())

    single = np.array([score(one) for one in hot])
    best = np.argsort(-single, kind="stable")[:MOST_CANDIDATES].tolist()
    panels, votes = [best[:1]], hot[best[0]]
    while len(panels[-1]) + 2 <= LARGEST_PANEL:
        rest = [at for at in best if at not in panels[-1]]
        pairs = list(combinations(rest, 2))
        if not pairs:
            break
        scores = [score(votes + hot[first] + hot[second]) for first, second in pairs]
        pair = pairs[int(np.argmax(np.round(scores, 9)))]
        votes = votes + hot[pair[0]] + hot[pair[1]]
        panels.append([*panels[-1], *pair])
    return panels


def chosen_panel(labels: Table, truth: NDArray[Any], n_classes: int, seed: int) -> tuple[list[int], float]:
    """A panel, and how right the votes of panels chosen like it are on items that had no part in the choice.

    How many judges to take is chosen by cross-validation in five parts: the size whose votes are best on the parts left
    out; of equals the smallest.
    """
    fold = stream(seed, "jury folds").permutation(len(truth)) % N_FOLDS
    panels = greedy_path(labels, truth, n_classes)
    scores = np.zeros(len(panels))
    for part in range(N_FOLDS):
        out = fold == part
        chosen = greedy_path(labels[~out], truth[~out], n_classes)
        scores += [vote_scores(labels[out][:, panel], truth[out], n_classes).sum() for panel in chosen]
    best = int(np.argmax(np.round(scores, 9)))
    return panels[best], float(scores[best] / len(truth))


def vote_confusion(votes: FloatArray, truth: NDArray[Any], weights: FloatArray) -> FloatArray:
    """(true class, voted class) rows that sum to one, from votes (item, class) on items whose class is known.

    Each class has one item added, right as often as all votes are, so that a class without items has a row.
    """
    n_classes = votes.shape[1]
    counts = one_hot(truth, n_classes).T @ (votes * weights[:, None])
    accuracy = float(np.trace(counts) / max(counts.sum(), 1e-300))
    added = np.full((n_classes, n_classes), (1 - accuracy) / max(n_classes - 1, 1))
    np.fill_diagonal(added, accuracy)
    counts = counts + added
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def prevalence_from(voted: FloatArray, confusion: FloatArray) -> FloatArray:
    """(class,) shares of the true classes that explain the shares of the votes best: at least 0, and 1 in all.

    For two classes this is the estimate of Rogan and Gladen, kept between 0 and 1.
    """
    from scipy.optimize import nnls

    firmly = 1e4  # weight of "1 in all"
    system = np.vstack([confusion.T, np.full(len(voted), firmly)])
    shares, _ = nnls(system, np.append(voted, firmly))
    return np.asarray(shares / shares.sum())

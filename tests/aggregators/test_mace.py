"""MACE against plain loops, and a spammer whose habit is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import digamma

from crowdprism.aggregators import MACE
from crowdprism.annotations import Annotations


@pytest.mark.parametrize("inference", ["vb", "em"])
def test_mace_equals_the_loops(annotations: Annotations, inference: str) -> None:
    """Hovy et al. 2013: an annotator knows the class, or else answers from a habit."""
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight
    columns = (annotations.item, annotations.annotator, annotations.label, weight)
    rows = [(int(i), int(m), int(c), float(w)) for i, m, c, w in zip(*columns, strict=True)]
    n_items, n_annotators, n_classes = annotations.n_items, annotations.n_annotators, annotations.n_classes
    votes = np.zeros((n_items, n_classes))
    for i, _, c, w in rows:
        votes[i, c] += w
    q = votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-12)
    from_knowledge = [0.5 * q[i, c] for i, _, c, _ in rows]  # half of what agrees with the vote may be luck
    for _ in range(5):
        knows, guesses = np.full(n_annotators, 0.5), np.full(n_annotators, 0.5)
        habit = np.full((n_annotators, n_classes), 1.0)
        for (_, m, c, w), known in zip(rows, from_knowledge, strict=True):
            knows[m] += w * known
            guesses[m] += w * (1 - known)
            habit[m, c] += w * (1 - known)
        if inference == "vb":
            both = digamma(knows + guesses)
            know, guess = np.exp(digamma(knows) - both), np.exp(digamma(guesses) - both)
            habits = np.exp(digamma(habit) - digamma(habit.sum(axis=1, keepdims=True)))
        else:
            know, guess = knows / (knows + guesses), guesses / (knows + guesses)
            habits = habit / habit.sum(axis=1, keepdims=True)
        scores = np.zeros((n_items, n_classes))
        for i, m, c, w in rows:
            for k in range(n_classes):
                scores[i, k] += w * math.log((know[m] if c == k else 0.0) + guess[m] * habits[m, c])
        q = np.exp(scores - scores.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
        from_knowledge = [q[i, c] * know[m] / (know[m] + guess[m] * habits[m, c]) for i, m, c, _ in rows]
    # The fit makes one M step after its last recorded objective, and an E step for its class probabilities.
    result = MACE(inference, n_restarts=1, max_iter=4, tolerance=0.0).fit(annotations).result_
    np.testing.assert_allclose(result.class_probabilities, q, atol=1e-9)


def test_a_spammer_is_found_whatever_the_habit_and_the_habit_is_told() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 600)
    good = np.where(rng.random((600, 4)) < 0.85, truth[:, None], rng.integers(0, 3, (600, 4)))
    spam = rng.choice(3, (600, 1), p=[0.1, 0.2, 0.7])
    result = MACE().fit(Annotations.from_dense(np.concatenate([good, spam], axis=1))).result_
    assert result.skills[4] < 0.1 < result.skills[:4].min()
    np.testing.assert_allclose(result.confusions[4].mean(axis=0), [0.1, 0.2, 0.7], atol=0.06)


def test_the_restart_with_the_highest_objective_stands() -> None:
    rng = np.random.default_rng(1)
    result = MACE(n_restarts=4).fit(Annotations.from_dense(rng.integers(0, 3, (30, 5)))).result_
    assert len(result.history["restarts"]) == 4
    assert result.history["objective"][-1] == max(result.history["restarts"])

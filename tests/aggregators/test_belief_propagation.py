"""Belief propagation against enumeration on a graph without cycles; mean field against its updates in loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import beta, digamma

from crowdprism.aggregators import BeliefPropagation, MajorityVote, MeanField
from crowdprism.annotations import Annotations
from crowdprism.errors import ConvergenceWarning, InvalidParameterError
from crowdprism.simulate import hammer_spammer, per_item, simulate_annotations


def enumerated(table: np.ndarray, n_classes: int, prior: tuple[float, float]) -> tuple[np.ndarray, float]:
    """Class probabilities and log evidence by a sum over all assignments, accuracies integrated out."""
    joint = np.zeros((n_classes,) * len(table))
    for classes in product(range(n_classes), repeat=len(table)):
        mass = float(n_classes) ** -len(table)
        for labels in table.T:
            given = labels >= 0
            right = int((labels[given] == np.array(classes)[given]).sum())
            wrong = int(given.sum()) - right
            mass *= beta(prior[0] + right, prior[1] + wrong) / beta(*prior) / (n_classes - 1) ** wrong
        joint[classes] = mass
    axes = range(len(table))
    marginals = [joint.sum(axis=tuple(other for other in axes if other != item)) for item in axes]
    return np.array(marginals) / joint.sum(), float(np.log(joint.sum()))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_messages_give_the_exact_posterior_where_the_graph_has_no_cycles(n_classes: int) -> None:
    # Annotators are joined by one item at a time.
    table = np.array([[0, -1, -1], [1, 1, -1], [-1, 0, -1], [-1, 1, 0], [-1, -1, 1], [-1, -1, 1]])
    a = Annotations.from_dense(table, classes=range(n_classes))
    exact, _ = enumerated(table, n_classes, (3.0, 1.5))
    result = BeliefPropagation(prior_right=3.0, prior_wrong=1.5, tolerance=1e-12).fit(a).result_
    assert result.class_probabilities == pytest.approx(exact, abs=1e-9)


def test_a_repeated_label_is_one_piece_of_evidence_of_weight_two() -> None:
    twice = Annotations.from_triplets([0, 0, 0, 1], ["a", "a", "b", "a"], [0, 0, 1, 1])
    heavy = Annotations.from_triplets([0, 0, 1], ["a", "b", "a"], [0, 1, 1], weight=[2, 1, 1])
    one, other = (BeliefPropagation().fit(a).result_.class_probabilities for a in (twice, heavy))
    assert one == pytest.approx(other, abs=1e-9)


def test_belief_propagation_beats_votes_on_hammers_and_spammers() -> None:
    truth = np.random.default_rng(0).integers(2, size=400)
    crowd = hammer_spammer(40, 2, hammer_share=0.4, seed=0)
    a = simulate_annotations(truth, crowd, per_item(400, 40, labels=5), seed=0).with_gold(None)
    accuracy = {
        method: float((method().fit(a).result_.labels() == truth).mean())
        for method in (BeliefPropagation, MajorityVote)
    }
    assert accuracy[BeliefPropagation] > accuracy[MajorityVote] + 0.05


def test_messages_that_have_not_settled_are_reported() -> None:
    a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 1]])
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        assert BeliefPropagation(max_iter=1, tolerance=1e-9).fit(a).result_.warnings
    with pytest.raises(InvalidParameterError, match="prior_right must be a number above 0"):
        BeliefPropagation(prior_right=0).fit(a)


def slow_mean_field(table: np.ndarray, n_classes: int, prior: tuple[float, float], rounds: int) -> np.ndarray:
    votes = np.array([[(row == k).sum() for k in range(n_classes)] for row in table])
    belief = votes / votes.sum(axis=1, keepdims=True)
    for _ in range(rounds):
        scores = np.zeros_like(belief)
        for labels in table.T:
            rows = np.flatnonzero(labels >= 0)
            right = sum(belief[row, labels[row]] for row in rows)
            odds = digamma(prior[0] + right) - digamma(prior[1] + len(rows) - right) + np.log(n_classes - 1)
            for row in rows:
                scores[row, labels[row]] += odds
        belief = np.exp(scores - scores.max(axis=1, keepdims=True))
        belief /= belief.sum(axis=1, keepdims=True)
    return belief


def test_mean_field_equals_its_updates_in_loops_and_its_bound_rises_below_the_evidence() -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(3, size=(6, 4))
    a = Annotations.from_dense(table, classes=range(3))
    result = MeanField(max_iter=7, tolerance=0).fit(a).result_
    assert result.class_probabilities == pytest.approx(slow_mean_field(table, 3, (2.0, 1.0), 8), abs=1e-9)
    bound = result.history["objective"]
    assert (np.diff(bound) >= -1e-9).all()
    assert bound[-1] < enumerated(table, 3, (2.0, 1.0))[1]


def test_with_a_strong_prior_mean_field_is_a_vote_with_the_log_odds_of_that_accuracy() -> None:
    a = Annotations.from_dense(np.random.default_rng(2).integers(3, size=(20, 5)))
    strong = MeanField(prior_right=8e6, prior_wrong=2e6).fit(a).result_
    assert strong.skills == pytest.approx(np.full(5, 0.8), abs=1e-4)
    odds = np.log(0.8 * 2 / 0.2)
    votes = np.stack([(a.to_dense() == k).sum(axis=1) for k in range(3)], axis=1) * odds
    expected = np.exp(votes) / np.exp(votes).sum(axis=1, keepdims=True)
    assert strong.class_probabilities == pytest.approx(expected, abs=1e-3)

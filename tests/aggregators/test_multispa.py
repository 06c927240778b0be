"""MultiSPA: exact pairs of labels give exact confusions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_crowds import exact_pairs, random_confusions, with_specialists

from crowdprism.aggregators.multispa import (
    PairModel,
    anchored_confusions,
    likelihood_step,
    pair_prior,
    refine_by_likelihood,
    successive_projection,
)
from crowdprism.results.confusion import confusion_error


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_successive_projection_recovers_exact_anchors_among_mixtures(n_classes) -> None:
    rng = np.random.default_rng(n_classes)
    anchors = random_confusions(1, n_classes, seed=n_classes, own=1.0)[0]
    mixtures = rng.dirichlet(np.ones(n_classes), size=50) @ anchors
    place = rng.permutation(50 + n_classes)
    picks = successive_projection(np.concatenate([anchors, mixtures])[place], n_classes)
    assert sorted(place[picks].tolist()) == list(range(n_classes))


def test_successive_projection_stops_where_the_vectors_do() -> None:
    assert len(successive_projection(np.ones((5, 3)), 3)) == 1
    assert len(successive_projection(np.empty((0, 3)), 3)) == 0


def test_multispa_recovers_confusions_from_exact_pairs_of_specialists() -> None:
    prior = np.array([0.5, 0.3, 0.2])
    truth = with_specialists(random_confusions(7, 3))
    pairs = exact_pairs(truth, prior)
    found, usable = anchored_confusions(pairs, reference=truth, least_mass=1.0)
    # A specialist's own anchor is seen by the others only, so classes are exact for those outside the first three.
    assert usable.all()
    assert found[3:] == pytest.approx(truth[3:], abs=1e-9)
    assert pair_prior(pairs, truth) == pytest.approx(prior, abs=1e-5)


def test_the_likelihood_of_label_pairs_never_falls_and_ends_at_the_truth() -> None:
    prior = np.array([0.5, 0.3, 0.2])
    truth = with_specialists(random_confusions(6, 3, seed=1))
    pairs = exact_pairs(truth, prior)
    start = PairModel(random_confusions(6, 3, seed=2, own=1.5), np.full(3, 1 / 3))
    model, objective = refine_by_likelihood(pairs, start, iterations=20_000, tolerance=1e-13)
    assert (np.diff(objective) >= -1e-12).all()
    assert confusion_error(model.confusions, truth)["mean_squared"] < 1e-4
    assert model.prior == pytest.approx(prior, abs=0.02)
    unchanged, _ = likelihood_step(pairs, PairModel(np.maximum(truth, 1e-6), prior))
    assert unchanged.confusions == pytest.approx(truth, abs=1e-4)  # the truth is a fixed point


def test_one_step_equals_expected_counts_by_loops() -> None:
    prior, old = np.array([0.5, 0.3, 0.2]), random_confusions(4, 3, seed=3, own=0.5)
    pairs = exact_pairs(random_confusions(4, 3, seed=4), np.array([0.2, 0.3, 0.5]))
    expected, shares = np.zeros((4, 3, 3)), np.zeros(3)
    for first, second, counts in zip(pairs.first, pairs.second, pairs.counts, strict=True):
        for one, other in itertools.product(range(3), repeat=2):
            posterior = prior * old[first, :, one] * old[second, :, other]
            posterior *= counts[one, other] / posterior.sum()
            expected[first, :, one] += posterior
            expected[second, :, other] += posterior
            shares += posterior
    model, _ = likelihood_step(pairs, PairModel(old, prior))
    assert model.confusions == pytest.approx(expected / expected.sum(axis=2, keepdims=True))
    assert model.prior == pytest.approx(shares / shares.sum())

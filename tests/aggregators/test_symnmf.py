"""SymNMF: noiseless pairs are factorised exactly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_crowds import exact_pairs, random_confusions, with_specialists

from crowdprism.aggregators.symnmf import (
    best_factor,
    confusions_of_half,
    coupled_root,
    half_joint,
    random_rotations,
    rotation_to,
)
from crowdprism.annotations.pairs import CoLabels


def test_a_nonnegative_factor_reconstructs_a_complete_noiseless_block_matrix() -> None:
    truth = with_specialists(random_confusions(8, 3, seed=6))
    half = half_joint(truth, np.array([0.5, 0.3, 0.2])).reshape(-1, 3)
    wanted = half @ half.T
    values, vectors = np.linalg.eigh(wanted)
    root = vectors[:, -3:] * np.sqrt(values[-3:])
    starts = [np.eye(3), *random_rotations(3, 20, np.random.default_rng(0))]
    factor = best_factor(root, starts, iterations=3000, tolerance=1e-14)
    assert (factor.matrix >= 0).all()
    assert np.linalg.norm(factor.matrix @ factor.matrix.T - wanted) / np.linalg.norm(wanted) < 1e-3
    assert (np.diff(factor.course) <= 1e-12).all()


def test_missing_blocks_are_completed_exactly_from_noiseless_pairs() -> None:
    prior, truth = np.array([0.5, 0.3, 0.2]), random_confusions(8, 3, seed=7)
    pairs = exact_pairs(truth, prior)
    kept = np.random.default_rng(0).random(len(pairs.first)) < 0.7
    some_pairs = CoLabels(pairs.first[kept], pairs.second[kept], pairs.counts[kept]).both_ways()
    start = half_joint(random_confusions(8, 3, seed=8), np.full(3, 1 / 3))
    root, misfits = coupled_root(some_pairs, start, shrinkage=0.0, iterations=1000, tolerance=1e-12)
    assert misfits[-1] < 1e-3
    half = half_joint(truth, prior)
    for m, j in itertools.combinations(range(8), 2):
        assert root[m] @ root[j].T == pytest.approx(half[m] @ half[j].T, abs=2e-3)


def test_a_rotation_is_found_again_and_halves_give_back_confusions() -> None:
    rng = np.random.default_rng(0)
    source = rng.normal(size=(20, 4))
    turn = random_rotations(4, 1, rng)[0]
    assert rotation_to(source @ turn, source) == pytest.approx(turn)
    truth, prior = random_confusions(5, 4), np.array([0.4, 0.3, 0.2, 0.1])
    confusions, found = confusions_of_half(half_joint(truth, prior))
    assert confusions == pytest.approx(truth)
    assert found == pytest.approx(prior)

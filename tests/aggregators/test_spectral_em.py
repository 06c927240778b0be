"""SpectralEM: exact moments give exact confusions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from small_crowds import random_confusions

from crowdprism.aggregators import SpectralEM
from crowdprism.aggregators.moments import in_class_order
from crowdprism.aggregators.spectral_em import (
    GROUPS,
    Moments,
    individual_confusions,
    moments_of,
    tensor_eigenvectors,
    view_confusion,
)
from crowdprism.annotations import Annotations
from crowdprism.errors import UnsuitableDataError
from crowdprism.simulate import one_coin, per_item, simulate_annotations


def exact_moments(views: np.ndarray, prior: np.ndarray) -> Moments:
    pairs = {(a, b): views[a].T @ np.diag(prior) @ views[b] for a in range(GROUPS) for b in range(GROUPS) if a != b}
    return Moments(pairs, np.einsum("k,kx,ky,kz->xyz", prior, *views))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("view", range(GROUPS))
def test_exact_moments_give_the_exact_confusions_and_prior(n_classes, view) -> None:
    truth = random_confusions(3, n_classes, seed=3)
    prior = np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    rows, shares = view_confusion(
        exact_moments(truth, prior), view, restarts=20, iterations=100, rng=np.random.default_rng(0)
    )
    table = in_class_order(np.column_stack([rows, shares]), np.column_stack([truth[view], prior]))
    assert table[:, :-1] == pytest.approx(truth[view], abs=1e-6)
    assert table[:, -1] == pytest.approx(prior, abs=1e-6)


def test_moments_equal_sums_over_items() -> None:
    views = np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 40))
    views[2, :10, 0] = 0.0  # labels that a group did not give
    moments = moments_of(views)
    assert moments.triple == pytest.approx(np.mean([np.einsum("x,y,z->xyz", *views[:, n]) for n in range(40)], axis=0))
    assert moments.pairs[2, 0] == pytest.approx(
        np.mean([np.outer(views[2, n], views[0, n]) for n in range(40)], axis=0)
    )


def test_an_orthogonal_tensor_is_taken_apart() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    values = np.array([1.5, 3.0, 2.0, 1.2])
    tensor = np.einsum("r,ri,rj,rk->ijk", values, basis, basis, basis)
    found, vectors = tensor_eigenvectors(tensor, restarts=20, iterations=60, rng=rng)
    assert np.sort(found) == pytest.approx(np.sort(values))
    assert np.abs(vectors @ basis.T).max(axis=1) == pytest.approx(np.ones(4))


def test_individual_confusions_are_exact_when_the_items_show_exact_shares() -> None:
    # Every combination of labels of three annotators occurs with exactly its probability, as a weight.
    prior, truth = np.array([0.6, 0.4]), random_confusions(3, 2, seed=5)
    combos = list(itertools.product(range(2), repeat=3))
    mass = [sum(prior[k] * np.prod([truth[m, k, c[m]] for m in range(3)]) for k in range(2)) for c in combos]
    rows = [(n, m, combo[m]) for n, combo in enumerate(combos) for m in range(3)]
    a = Annotations.from_triplets(*np.array(rows).T)
    responses = np.stack([np.eye(2)[[combo[m] for combo in combos]] for m in range(3)])
    weighted = Annotations.from_triplets(*np.array(rows).T, weight=np.repeat(mass, 3))
    found = individual_confusions(weighted, np.arange(3), responses, truth, prior)
    assert found == pytest.approx(truth, abs=1e-6)
    assert a.n_items == 8


def test_spectral_em_says_when_a_class_is_never_seen_or_there_are_too_many() -> None:
    truth = np.arange(600) % 2
    a = simulate_annotations(truth, one_coin([0.8] * 6, 2), per_item(600, 6, labels=5)).with_gold(None)
    three = Annotations.from_triplets(a.item, a.annotator, a.label, classes=[0, 1, 2])
    with pytest.raises(UnsuitableDataError, match="tell only 2 of 3 classes apart"):
        SpectralEM().fit(three)
    many = Annotations.from_triplets(a.item, a.annotator, a.label, classes=range(100))
    with pytest.raises(UnsuitableDataError, match="100 classes are more than 64"):
        SpectralEM().fit(many)

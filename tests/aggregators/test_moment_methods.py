"""SpectralEM, MultiSPA, MultiSPA-KL and SymNMF: exact moments first, then simulated crowds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from crowdprism.aggregators import DawidSkene, MultiSPA, MultiSPAKL, SpectralEM, SymNMF
from crowdprism.aggregators.moments import in_class_order
from crowdprism.aggregators.multispa import (
    PairModel,
    anchored_confusions,
    likelihood_step,
    pair_prior,
    refine_by_likelihood,
    successive_projection,
)
from crowdprism.aggregators.spectral_em import (
    GROUPS,
    Moments,
    individual_confusions,
    moments_of,
    tensor_eigenvectors,
    view_confusion,
)
from crowdprism.aggregators.symnmf import (
    best_factor,
    confusions_of_half,
    coupled_root,
    half_joint,
    random_rotations,
    rotation_to,
)
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import CoLabels, co_label_entries
from crowdprism.errors import InvalidParameterError, UnsuitableDataError
from crowdprism.results.confusion import confusion_error
from crowdprism.simulate import adversaries, diagonally_dominant, one_coin, per_item, simulate_annotations

METHODS = [SpectralEM, MultiSPA, MultiSPAKL, SymNMF]


def random_confusions(n_annotators: int, n_classes: int, seed: int = 0, own: float = 2.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.random((n_annotators, n_classes, n_classes)) + own * np.eye(n_classes)
    return rows / rows.sum(axis=2, keepdims=True)


def exact_pairs(confusions: np.ndarray, prior: np.ndarray, items: float = 1000.0) -> CoLabels:
    """Label pairs of every two annotators as an endless supply of items would give them."""
    pairs = list(itertools.combinations(range(len(confusions)), 2))
    counts = [items * confusions[m].T @ np.diag(prior) @ confusions[j] for m, j in pairs]
    first, second = np.array(pairs).T
    return CoLabels(first, second, np.array(counts))


def with_specialists(confusions: np.ndarray) -> np.ndarray:
    """The first annotators each give one label to one class only: label k of annotator k is an anchor of class k."""
    changed = confusions.copy()
    n_classes = confusions.shape[1]
    for k in range(n_classes):
        others = np.arange(n_classes) != k
        changed[k, others, k] = 0.0
    return changed / changed.sum(axis=2, keepdims=True)


# -- shared pieces ------------------------------------------------------------------------------------------


def test_co_label_counts_equal_loops_over_items_with_weights_and_repeats() -> None:
    rng = np.random.default_rng(0)
    item, annotator, label = rng.integers(8, size=60), rng.integers(5, size=60), rng.integers(3, size=60)
    weight = rng.random(60) + 0.5
    a = Annotations.from_triplets(item, annotator, label, weight=weight)
    slow = np.zeros((5, 5, 3, 3))
    for x, y in itertools.product(range(60), repeat=2):
        if item[x] == item[y] and annotator[x] < annotator[y]:
            slow[annotator[x], annotator[y], label[x], label[y]] += weight[x] * weight[y]
    blocks = co_label_entries(a).blocks()
    assert len(blocks.first) == (slow.sum(axis=(2, 3)) > 0).sum()
    for first, second, counts in zip(blocks.first, blocks.second, blocks.counts, strict=True):
        assert counts == pytest.approx(slow[first, second], rel=1e-6)


def test_annotations_of_weight_zero_compare_nobody() -> None:
    a = Annotations.from_triplets([1, 1], ["a", "b"], [0, 1], weight=[1.0, 0.0])
    assert co_label_entries(a).n_pairs == 0


# -- successive projection ----------------------------------------------------------------------------------


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
    assert confusion_error(model.confusions, truth).mean_squared < 1e-4
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


# -- tensor method ------------------------------------------------------------------------------------------


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


def test_moments_equal_sums_over_items(monkeypatch) -> None:
    monkeypatch.setattr("crowdprism.aggregators.spectral_em.ITEMS_AT_ONCE", 7)
    views = np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 40))
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


# -- symmetric factorisation --------------------------------------------------------------------------------


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


# -- simulated crowds ---------------------------------------------------------------------------------------


def simulated(seed: int = 0, n_items: int = 4000, n_annotators: int = 12, labels: int = 6, n_classes: int = 3):
    truth = np.random.default_rng(seed).choice(n_classes, p=np.array([0.5, 0.3, 0.2])[:n_classes], size=n_items)
    confusions = random_confusions(n_annotators, n_classes, seed=seed)
    pairs = per_item(n_items, n_annotators, labels=labels, seed=seed)
    return simulate_annotations(truth, confusions, pairs, seed=seed), truth, confusions


@pytest.mark.parametrize(
    ("method", "tolerance"), [(SpectralEM, 0.01), (MultiSPA, 0.04), (MultiSPAKL, 0.005), (SymNMF, 0.01)]
)
def test_confusions_of_a_simulated_crowd_are_recovered_without_em(method, tolerance) -> None:
    a, _, confusions = simulated()
    found = method(em_rounds=0).fit(a).result_.confusions
    assert confusion_error(found, confusions, align=False).mean_squared < tolerance


@pytest.mark.parametrize("method", METHODS)
def test_after_em_confusions_labels_and_prior_are_as_good_as_dawid_skene(method) -> None:
    a, truth, confusions = simulated()
    result, reference = method(em_rounds=50).fit(a).result_, DawidSkene().fit(a).result_
    assert confusion_error(result.confusions, confusions, align=False).mean_squared < 1e-3
    assert result.class_prior == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    assert (result.labels() == truth).mean() > (reference.labels() == truth).mean() - 0.005
    assert (np.diff(result.history["objective"]) > -1e-6).all()


@pytest.mark.parametrize("method", METHODS)
def test_an_adversary_in_a_good_crowd_is_used(method) -> None:
    truth = np.arange(600) % 2
    confusions = np.concatenate([one_coin([0.85] * 6, 2), adversaries(2, 2)])
    a = simulate_annotations(truth, confusions, per_item(600, 8, labels=6))
    result = method().fit(a).result_
    assert (result.annotator_accuracy[6:] < 0.1).all()
    assert (result.labels() == truth).mean() > 0.97


@pytest.mark.parametrize("method", METHODS)
def test_too_few_shared_items_are_refused_with_figures_and_an_alternative(method) -> None:
    truth = np.arange(400) % 2
    sparse = simulate_annotations(truth, one_coin([0.8] * 200, 2), per_item(400, 200, labels=1))
    with pytest.raises(UnsuitableDataError, match=r"(only 0 of 200 annotators|0 of 400 items).*Use dawid-skene"):
        method().fit(sparse)
    with pytest.raises(UnsuitableDataError, match="dawid-skene"):
        method().fit([[0], [1], [1]])


def test_spectral_em_says_when_a_class_is_never_seen_or_there_are_too_many() -> None:
    truth = np.arange(600) % 2
    a = simulate_annotations(truth, one_coin([0.8] * 6, 2), per_item(600, 6, labels=5))
    three = Annotations.from_triplets(a.item, a.annotator, a.label, classes=[0, 1, 2])
    with pytest.raises(UnsuitableDataError, match="tell only 2 of 3 classes apart"):
        SpectralEM().fit(three)
    many = Annotations.from_triplets(a.item, a.annotator, a.label, classes=range(100))
    with pytest.raises(UnsuitableDataError, match="100 classes are more than 64"):
        SpectralEM().fit(many)


@pytest.mark.parametrize("method", [MultiSPA, SymNMF])
def test_too_many_label_pairs_for_memory_are_refused(method, monkeypatch) -> None:
    a = simulated(n_items=300)[0]
    monkeypatch.setattr("crowdprism.results.confusion.MAX_TABLE_BYTES", 8 * 9 * 50)
    with pytest.raises(UnsuitableDataError, match=r"matrix for each of 66 pairs.*dawid-skene"):
        method().fit(a)
    monkeypatch.setattr("crowdprism.results.confusion.MAX_TABLE_BYTES", 100)
    with pytest.raises(UnsuitableDataError, match=r"matrix for each of 12 annotators.*dawid-skene"):
        method().fit(a)


def test_annotators_with_too_few_shared_items_are_counted() -> None:
    a, _, _ = simulated(n_items=500)
    extra = Annotations.from_triplets([0, 1], ["new", "new"], [0, 1], classes=[0, 1, 2])
    named = Annotations.from_triplets(a.item, [f"a{who}" for who in a.annotator], a.label, classes=[0, 1, 2])
    together = named.concat(extra)
    for method in (MultiSPA, SymNMF):
        result = method().fit(together).result_
        assert result.warnings == (
            "1 annotators share too few items with others; their confusions started from vote shares.",
        )


def test_bad_parameters_are_named() -> None:
    a = simulated(n_items=300)[0]
    for method, complaint in [
        (MultiSPA(em_rounds=-1), "em_rounds must be a whole number of at least 0"),
        (SymNMF(prior_strength=-1), "prior_strength must be a number of at least 0"),
        (SpectralEM(restarts=0), "restarts must be a whole number of at least 1"),
    ]:
        with pytest.raises(InvalidParameterError, match=complaint):
            method.fit(a)


def test_diagonal_dominance_is_enough_for_the_order_of_classes() -> None:
    truth = np.arange(2000) % 4
    confusions = diagonally_dominant(8, 4, noise=1.0, seed=3)
    a = simulate_annotations(truth, confusions, per_item(2000, 8, labels=8))
    for method in METHODS:
        found = method().fit(a).result_.confusions
        assert confusion_error(found, confusions).order.tolist() == [0, 1, 2, 3]

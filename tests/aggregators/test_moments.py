"""What the methods of moments share: pairs of labels, recovery of simulated crowds, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from crowdprism.aggregators import DawidSkene, GoldVote, MultiSPA, MultiSPAKL, SpectralEM, SymNMF
from crowdprism.aggregators.moments import NO_GOLD, vote_start
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import co_label_entries
from crowdprism.errors import InvalidParameterError, UnsuitableDataError
from crowdprism.results.confusion import class_alignment, confusion_error
from crowdprism.simulate import adversaries, diagonally_dominant, one_coin, per_item, simulate_annotations

METHODS = [SpectralEM, MultiSPA, MultiSPAKL, SymNMF]


def random_confusions(n_annotators: int, n_classes: int, seed: int = 0, own: float = 2.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.random((n_annotators, n_classes, n_classes)) + own * np.eye(n_classes)
    return rows / rows.sum(axis=2, keepdims=True)


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


def simulated(seed: int = 0, n_items: int = 4000, n_annotators: int = 12, labels: int = 6, n_classes: int = 3):
    truth = np.random.default_rng(seed).choice(n_classes, p=np.array([0.5, 0.3, 0.2])[:n_classes], size=n_items)
    confusions = random_confusions(n_annotators, n_classes, seed=seed)
    pairs = per_item(n_items, n_annotators, labels=labels, seed=seed)
    return simulate_annotations(truth, confusions, pairs, seed=seed).with_gold(None), truth, confusions


@pytest.mark.parametrize(
    ("method", "tolerance"), [(SpectralEM, 0.01), (MultiSPA, 0.04), (MultiSPAKL, 0.005), (SymNMF, 0.01)]
)
def test_confusions_of_a_simulated_crowd_are_recovered_without_em(method, tolerance) -> None:
    a, _, confusions = simulated()
    found = method(em_rounds=0).fit(a).result_.confusions
    assert confusion_error(found, confusions, align=False)["mean_squared"] < tolerance


@pytest.mark.parametrize("method", METHODS)
def test_after_em_confusions_labels_and_prior_are_as_good_as_dawid_skene(method) -> None:
    a, truth, confusions = simulated()
    result, reference = method(em_rounds=50).fit(a).result_, DawidSkene().fit(a).result_
    assert confusion_error(result.confusions, confusions, align=False)["mean_squared"] < 1e-3
    assert result.class_prior == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    assert (result.labels() == truth).mean() > (reference.labels() == truth).mean() - 0.005
    assert (np.diff(result.history["objective"]) > -1e-6).all()


@pytest.mark.parametrize("method", METHODS)
def test_an_adversary_in_a_good_crowd_is_used(method) -> None:
    truth = np.arange(600) % 2
    confusions = np.concatenate([one_coin([0.85] * 6, 2), adversaries(2, 2)])
    a = simulate_annotations(truth, confusions, per_item(600, 8, labels=6)).with_gold(None)
    result = method().fit(a).result_
    assert (result.annotator_accuracy[6:] < 0.2).all()
    assert (result.labels() == truth).mean() > 0.97


@pytest.mark.parametrize("method", METHODS)
def test_too_few_shared_items_are_refused_with_figures_and_an_alternative(method) -> None:
    truth = np.arange(400) % 2
    sparse = simulate_annotations(truth, one_coin([0.8] * 200, 2), per_item(400, 200, labels=1)).with_gold(None)
    with pytest.raises(UnsuitableDataError, match=r"(only 0 of 200 annotators|0 of 400 items).*Use dawid-skene"):
        method().fit(sparse)
    with pytest.raises(UnsuitableDataError, match="dawid-skene"):
        method().fit([[0], [1], [1]])


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
    a = simulate_annotations(truth, confusions, per_item(2000, 8, labels=8)).with_gold(None)
    for method in METHODS:
        found = method().fit(a).result_.confusions
        assert class_alignment(found, confusions).tolist() == [0, 1, 2, 3]


def test_labels_are_combined_by_bayes_rule_with_confusions_counted_on_gold() -> None:
    table = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [0, 1]])
    a = Annotations.from_dense(table).with_gold({0: 0, 1: 0, 2: 1, 3: 1})
    crowd = vote_start(a, method="a test")
    counts = np.array([[[2, 0], [0, 2]], [[1, 1], [1, 1]]]) + crowd.pooled
    confusions = counts / counts.sum(axis=2, keepdims=True)
    joint = crowd.prior * confusions[0][:, 0] * confusions[1][:, 1]
    result = GoldVote().fit(a).result_
    assert result.class_probabilities[4] == pytest.approx(joint / joint.sum())
    assert result.confusions == pytest.approx(confusions)


def test_labels_of_items_without_gold_teach_nothing_about_single_annotators() -> None:
    table = np.array([[0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]])
    gold = {0: 0, 1: 1}
    one = GoldVote(prior_strength=1e-9).fit(Annotations.from_dense(table).with_gold(gold)).result_.confusions
    other = GoldVote(prior_strength=1e-9).fit(Annotations.from_dense(table[:3]).with_gold(gold)).result_.confusions
    assert one == pytest.approx(other, abs=1e-6)


def test_without_gold_it_is_a_vote_and_says_so() -> None:
    a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [1, 0, 1]])
    result = GoldVote().fit(a).result_
    assert result.labels().tolist() == [0, 1, 1]
    assert result.warnings == (NO_GOLD,)
    with pytest.raises(InvalidParameterError, match="prior_strength"):
        GoldVote(prior_strength=0).fit(a)

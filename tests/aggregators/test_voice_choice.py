"""Which groups are voices: the plain fit, connected pairs, and the gain of likelihood that decides."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from crowdprism import Annotations, make_aggregator
from crowdprism.aggregators.voice_choice import (
    TightGroup,
    agreement_beyond,
    answers_of,
    choose,
    connected_groups,
    fit_confusions,
    normalized,
    pair_products,
    try_groups,
)


def crowd(skills: list[float], n_items: int = 500, seed: int = 0, copies: int = 0) -> Annotations:
    """One-coin annotators with two classes; the last one has further copies."""
    random = np.random.default_rng(seed)
    truth = random.integers(2, size=n_items)
    table = np.column_stack([np.where(random.random(n_items) < skill, truth, 1 - truth) for skill in skills])
    return Annotations.from_dense(np.column_stack([table, *[table[:, -1]] * copies]))


def test_the_plain_fit_reaches_what_dawid_skene_with_the_crowd_prior_reaches() -> None:
    a = crowd([0.9, 0.8, 0.7, 0.6])
    fit = fit_confusions(a)
    full = make_aggregator("dawid-skene", prior="crowd", dependence=None, tolerance=1e-5).fit(a).result_
    assert full.confusions is not None
    assert np.allclose(fit.confusions, full.confusions, atol=0.03)
    assert (fit.log_joint.argmax(axis=1) == full.class_probabilities.argmax(axis=1)).mean() > 0.98


def test_the_likelihood_of_one_perfect_annotator_is_that_of_class_shares() -> None:
    fit = fit_confusions(Annotations.from_dense([[0, 0], [0, 0], [0, 0], [1, 1]] * 200))
    assert fit.log_likelihood == pytest.approx(800 * (0.75 * np.log(0.75) + 0.25 * np.log(0.25)), rel=0.01)


def test_gold_that_a_voice_gets_wrong_speaks_against_it() -> None:
    a = crowd([0.8, 0.8, 0.8, 0.6], copies=3)
    group = (TightGroup(np.arange(3, 7), 0.9),)
    as_copies_say = a.with_gold(dict(enumerate(a.to_dense()[:, 3].tolist())))
    assert try_groups(as_copies_say, group, fit_confusions(a)).gain == -np.inf


def test_rows_of_logs_become_probabilities() -> None:
    assert np.allclose(normalized(np.log(np.array([[1.0, 3.0], [1e-300, 1e-300]]))), [[0.25, 0.75], [0.5, 0.5]])


def test_pairs_connect_groups_and_the_largest_comes_first() -> None:
    pairs = SimpleNamespace(first=np.array([0, 3, 4]), second=np.array([1, 4, 6]))
    groups = connected_groups(pairs, np.array([0.9, 0.7, 0.8]), 8)
    assert [group.members.tolist() for group in groups] == [[3, 4, 6], [0, 1]]
    assert [group.tightness for group in groups] == [pytest.approx(0.75), pytest.approx(0.9)]


def test_copies_make_labels_likelier_as_one_voice_and_independent_annotators_do_not() -> None:
    a = crowd([0.8, 0.8, 0.8, 0.6], copies=3)
    independent = fit_confusions(a)
    group = (TightGroup(np.arange(3, 7), 0.9),)
    assert try_groups(a, group, independent).gain > 10
    plain = crowd([0.8, 0.8, 0.8, 0.8, 0.8, 0.8])
    assert try_groups(plain, (TightGroup(np.arange(3), 0.9),), fit_confusions(plain)).gain < 0


def test_of_two_groups_only_the_copies_are_chosen() -> None:
    a = crowd([0.8, 0.8, 0.8, 0.6], copies=3)
    found = choose(a, [TightGroup(np.arange(3, 7), 0.9), TightGroup(np.arange(2), 0.7)])
    assert [group.tolist() for group in found.voices] == [[3, 4, 5, 6]]
    assert found.looser == ()


def test_without_a_gain_nothing_is_chosen() -> None:
    a = crowd([0.8] * 6)
    found = choose(a, [TightGroup(np.arange(2), 0.9)])
    assert (found.voices, found.looser) == ((), ())


def test_guessers_do_not_agree_beyond_experts_and_those_who_know_better_agree_beyond_copies() -> None:
    truth = crowd([1.0], n_items=2000).to_dense()[:, 0]
    guessers = crowd([0.5] * 6, n_items=2000, seed=1)
    share, z = agreement_beyond(guessers, truth)
    assert abs(share) < 0.02
    assert abs(z) < 3
    judges = crowd([0.8] * 3, n_items=2000, seed=2)
    share, z = agreement_beyond(judges, np.random.default_rng(3).integers(2, size=2000))
    assert share == pytest.approx(0.36, abs=0.05)  # two annotators of .8 agree in .68, by chance in .5
    assert z > 10


def test_products_of_pairs_equal_plain_loops() -> None:
    random = np.random.default_rng(0)
    vectors, item = random.normal(size=(12, 3)), np.repeat([0, 1, 3], [2, 4, 6])
    slow = np.zeros(5)
    for one in range(12):
        for two in range(12):
            if one != two and item[one] == item[two]:
                slow[item[one]] += vectors[one] @ vectors[two]
    assert np.allclose(pair_products(vectors, item, 5), slow)


def test_without_answers_or_pairs_nothing_is_beyond() -> None:
    assert agreement_beyond(crowd([0.8]), np.zeros(500, dtype=int)) == (0.0, 0.0)
    assert agreement_beyond(crowd([0.8, 0.8]), np.full(500, -1)) == (0.0, 0.0)


def test_the_answers_of_an_annotator_are_its_first_labels() -> None:
    a = Annotations.from_triplets([0, 0, 1, 2], ["v", "v", "w", "v"], [1, 0, 0, 1])
    assert answers_of(a, 0).tolist() == [0, -1, 1]


def test_experts_beside_guessers_are_not_one_voice() -> None:
    a = crowd([0.97] * 8 + [0.5] * 8, n_items=400)
    assert try_groups(a, (TightGroup(np.arange(8), 0.9),), fit_confusions(a)).gain == -np.inf

"""Which groups are voices: the plain fit, connected pairs, and the gain of likelihood that decides."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism import Annotations, make_aggregator
from crowdprism.aggregators.voice_choice import (
    Excess,
    TightGroup,
    choose,
    connected_groups,
    fit_confusions,
    normalized,
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
    pairs = Excess(np.array([0, 3, 4]), np.array([1, 4, 6]), np.array([0.9, 0.7, 0.8]))
    groups = connected_groups(pairs, 8)
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

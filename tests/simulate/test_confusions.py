"""Families of annotators have the confusions that their definitions promise."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.simulate import (
    adversaries,
    class_wise_hammer_spammer,
    demo_crowd,
    diagonally_dominant,
    hammer_spammer,
    one_coin,
    one_good_among_random,
    one_good_among_spammers,
    one_per_item,
    one_perfect_among_dominant,
    pair_flip,
    random_partners,
    simulate_annotations,
    spammers,
    symmetric_flip,
)

FAMILIES = {
    "one_coin": one_coin(np.linspace(0, 1, 7), 10),
    "spammers": spammers(7, 10),
    "hammer_spammer": hammer_spammer(7, 10, hammer_share=0.5),
    "class_wise": class_wise_hammer_spammer(7, 10, hammer_share=0.5),
    "pair_flip": pair_flip(7, 10, flip=0.3),
    "diagonally_dominant": diagonally_dominant(7, 10, noise=0.3),
    "one_good": one_good_among_spammers(7, 10, noise=0.2),
    "adversaries": adversaries(7, 10),
    "demo": demo_crowd().confusions,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_confusions_are_non_negative_and_their_rows_sum_to_one(family: str) -> None:
    assert (FAMILIES[family] >= 0).all()
    assert np.allclose(FAMILIES[family].sum(axis=2), 1)


@pytest.mark.parametrize(("noise", "expected"), [(0.01, 0.271), (0.2, 0.191), (0.3, 0.173)])
def test_label_accuracy_of_one_good_among_five_has_its_closed_form(noise: float, expected: float) -> None:
    accuracies = []
    for seed in range(4):
        crowd = one_good_among_spammers(5, 10, noise=noise, seed=seed)
        truth = np.random.default_rng(seed).integers(10, size=45_000)
        a = simulate_annotations(truth, crowd, one_per_item(len(truth), 5, seed=seed), seed=seed)
        assert a.n_annotations == 45_000
        accuracies.append(a.summary().label_accuracy)
    assert np.mean(accuracies) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(("noise", "diagonal"), [(0.01, 0.957), (0.2, 0.554), (0.3, 0.464)])
def test_the_mean_diagonal_of_dominant_annotators_has_its_expected_value(noise: float, diagonal: float) -> None:
    crowd = diagonally_dominant(400, 10, noise=noise)
    assert np.einsum("mkk->mk", crowd).mean() == pytest.approx(diagonal, abs=0.003)


def test_one_good_annotator_stands_among_the_others() -> None:
    assert sorted(np.einsum("mkk->m", one_good_among_spammers(5, 10, noise=0.01)) > 5) == [False] * 4 + [True]
    assert sorted(np.einsum("mkk->m", one_good_among_random(5, 10, noise=0.01)) > 5) == [False] * 4 + [True]
    assert sum(np.array_equal(one, np.eye(10)) for one in one_perfect_among_dominant(5, 10, noise=0.2)) == 1


def test_symmetric_flips_are_a_single_coin() -> None:
    assert np.allclose(symmetric_flip(2, 5, flip=0.3), one_coin([0.7, 0.7], 5))
    assert np.allclose(symmetric_flip(1, 2, flip=0.3), pair_flip(1, 2, flip=0.3))


def test_spammers_lean_to_the_truth_as_asked() -> None:
    assert spammers(1, 10, lean=0.01)[0, 3, 3] == pytest.approx((0.1 + 0.01) / 1.01)
    assert np.allclose(hammer_spammer(3, 4, hammer_share=0, lean=0), 0.25)
    assert np.array_equal(hammer_spammer(3, 4, hammer_share=1), np.stack([np.eye(4)] * 3))


def test_random_partners_leave_no_class_in_place() -> None:
    for seed in range(30):
        partner = random_partners(4, seed=seed)
        assert sorted(partner.tolist()) == [0, 1, 2, 3]
        assert (partner != np.arange(4)).all()

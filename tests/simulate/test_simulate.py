"""Simulated crowds have the statistics that their definitions promise."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.errors import InvalidParameterError
from crowdprism.simulate import (
    adversaries,
    class_wise_hammer_spammer,
    demo_annotations,
    demo_crowd,
    diagonally_dominant,
    each_with_probability,
    hammer_spammer,
    one_coin,
    one_good_among_spammers,
    one_per_item,
    pair_flip,
    per_annotator,
    per_item,
    simulate_annotations,
    spammers,
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


def test_the_share_of_unlabelled_items_is_one_minus_p_to_the_power_of_annotators() -> None:
    item, _ = each_with_probability(50_000, 5, probability=0.1)
    assert 1 - len(np.unique(item)) / 50_000 == pytest.approx(0.9**5, abs=0.01)


def test_budgets_are_kept_exactly_and_no_pair_repeats() -> None:
    item, annotator = per_item(500, 20, labels=4)
    assert set(np.bincount(item, minlength=500)) == {4}
    assert len(set(zip(item.tolist(), annotator.tolist(), strict=True))) == 2000
    item, annotator = per_annotator(500, 20, labels=30)
    assert set(np.bincount(annotator, minlength=20)) == {30}
    assert len(set(zip(item.tolist(), annotator.tolist(), strict=True))) == 600


def test_eager_annotators_give_more_labels() -> None:
    _, annotator = per_item(5000, 3, labels=1, share=[1, 2, 7])
    assert np.bincount(annotator) / 5000 == pytest.approx([0.1, 0.2, 0.7], abs=0.03)


def test_labels_are_drawn_from_the_row_of_the_true_class() -> None:
    crowd = np.array([[[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.3, 0.3, 0.4]]])
    truth = np.repeat([0, 1, 2], 20_000)
    a = simulate_annotations(truth, crowd, one_per_item(60_000, 1))
    shares = [np.bincount(a.label[truth == c], minlength=3) / 20_000 for c in range(3)]
    assert np.allclose(shares, crowd[0], atol=0.015)


def test_the_same_seed_gives_the_same_crowd_and_another_seed_another() -> None:
    truth = np.arange(200) % 10
    assert demo_annotations(truth, seed=1) == demo_annotations(truth, seed=1)
    assert demo_annotations(truth, seed=1) != demo_annotations(truth, seed=2)


def test_names_of_classes_and_annotators_are_the_users() -> None:
    a = simulate_annotations([0, 1], one_coin([1.0], 2), one_per_item(2, 1), classes=["no", "yes"], annotators=["eve"])
    assert a.classes[a.label].tolist() == ["no", "yes"]
    assert a.annotators.tolist() == ["eve"]


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: one_coin([1.5], 3),
        lambda: pair_flip(1, 3, flip=0.2, partner=[0, 2, 1]),
        lambda: per_item(10, 3, labels=4),
        lambda: per_annotator(10, 3, labels=11),
        lambda: each_with_probability(10, 3, probability=0),
        lambda: simulate_annotations([0, 5], one_coin([1.0], 2), one_per_item(2, 1)),
    ],
)
def test_impossible_requests_are_refused(mistake) -> None:
    with pytest.raises(InvalidParameterError):
        mistake()

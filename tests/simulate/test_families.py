"""Every published family of annotators, copying and instance-dependent annotators keep their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.errors import InvalidParameterError
from crowdprism.results.confusion import true_confusions
from crowdprism.simulate import (
    FAMILIES,
    PATTERNS,
    build_family,
    build_pattern,
    copy_annotators,
    diagonally_dominant,
    each_with_probability,
    hammer_spammer,
    one_coin,
    one_good_among_random,
    one_good_among_spammers,
    one_per_item,
    one_perfect_among_dominant,
    pair_flip,
    per_item,
    random_copies,
    random_partners,
    simulate_annotations,
    simulate_by_difficulty,
    simulate_instance_dependent,
    spammers,
    symmetric_flip,
)

TRUTH = np.random.default_rng(0).integers(4, size=20_000)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("sizes", [(1, 2), (7, 10)])
def test_a_family_by_name_has_proper_confusions_and_repeats_with_its_seed(name: str, sizes: tuple[int, int]) -> None:
    crowd = build_family(name, *sizes, seed=3)
    assert crowd.shape == (sizes[0], sizes[1], sizes[1])
    assert (crowd >= 0).all()
    assert np.allclose(crowd.sum(axis=2), 1)
    assert np.array_equal(crowd, build_family(name, *sizes, seed=3))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_accuracy_of_drawn_labels_is_the_mean_diagonal_of_the_family(name: str) -> None:
    crowd = build_family(name, 6, 4, seed=1)
    a = simulate_annotations(TRUTH, crowd, one_per_item(len(TRUTH), 6, seed=1), seed=1)
    expected = np.einsum("mkk->mk", crowd)[a.annotator, TRUTH].mean()
    assert a.summary().label_accuracy == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(len(TRUTH)))
    assert np.allclose(true_confusions(a), crowd, atol=0.07)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_by_name_lists_each_pair_once_and_repeats_with_its_seed(name: str) -> None:
    item, annotator = build_pattern(name, 200, 8, seed=2)
    assert len(set(zip(item.tolist(), annotator.tolist(), strict=True))) == len(item)
    assert item.max() < 200
    assert annotator.max() < 8
    again = build_pattern(name, 200, 8, seed=2)
    assert np.array_equal(item, again[0])
    assert np.array_equal(annotator, again[1])
    other = build_pattern(name, 200, 8, seed=4)
    assert len(other[0]) != len(item) or (other[0] != item).any() or (other[1] != annotator).any()


@pytest.mark.parametrize(("noise", "diagonal"), [(0.01, 0.957), (0.2, 0.554), (0.3, 0.464)])
def test_the_mean_diagonal_of_dominant_annotators_has_its_expected_value(noise: float, diagonal: float) -> None:
    crowd = diagonally_dominant(400, 10, noise=noise)
    assert np.einsum("mkk->mk", crowd).mean() == pytest.approx(diagonal, abs=0.003)


@pytest.mark.parametrize(("probability", "n_annotators"), [(0.1, 5), (0.2, 5), (0.1, 25)])
def test_the_share_of_unlabelled_items_has_its_closed_form(probability: float, n_annotators: int) -> None:
    item, _ = each_with_probability(40_000, n_annotators, probability=probability, seed=1)
    unlabelled = 1 - len(np.unique(item)) / 40_000
    expected = (1 - probability) ** n_annotators
    assert unlabelled == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 40_000))


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


def test_a_copier_hands_in_exactly_what_the_other_labelled_and_nothing_else_changes() -> None:
    a = simulate_annotations(TRUTH[:300], one_coin([0.6] * 5, 4), per_item(300, 5, labels=2))
    copied = copy_annotators(a, {4: 1})
    before, after = a.to_dense(), copied.to_dense()
    assert np.array_equal(after[:, 4], before[:, 1])
    assert np.array_equal(after[:, :4], before[:, :4])
    assert np.array_equal(copied.gold, a.gold)
    assert copy_annotators(a, {}) == a


def test_copies_are_drawn_among_those_who_work() -> None:
    copies = random_copies(list("abcdef"), 4, seed=5)
    assert len(copies) == 4
    assert not set(copies) & set(copies.values())
    assert copies == random_copies(list("abcdef"), 4, seed=5)


def test_accuracy_by_difficulty_is_the_logistic_function_of_ability_over_difficulty() -> None:
    ability, difficulty = np.array([2.0, 0.0, -1.0]), np.where(np.arange(len(TRUTH)) % 2, 0.5, 2.0)
    pairs = (np.arange(len(TRUTH)), np.arange(len(TRUTH)) // 2 % 3)
    a = simulate_by_difficulty(TRUTH, pairs, ability=ability, difficulty=difficulty, n_classes=4)
    right = a.label == TRUTH
    for person in range(3):
        for hardness in (0.5, 2.0):
            own = (a.annotator == person) & (difficulty == hardness)
            expected = 1 / (1 + np.exp(-ability[person] / hardness))
            assert right[own].mean() == pytest.approx(expected, abs=0.035)


def test_instance_dependent_labels_err_at_the_asked_rate_and_follow_the_features() -> None:
    random = np.random.default_rng(1)
    features = random.normal(size=(len(TRUTH), 5))
    a = simulate_instance_dependent(
        features, TRUTH, (np.arange(len(TRUTH)), np.arange(len(TRUTH)) % 2), flip_rates=[0.2, 0.5], n_classes=4, seed=2
    )
    wrong = a.label != TRUTH
    for person, expected in ((0, 0.2055), (1, 0.5)):  # the mean of a normal number kept within 0..1
        assert wrong[a.annotator == person].mean() == pytest.approx(expected, abs=0.015)
    # the wrong label of items of one class depends on their features: a linear rule sees it better than chance
    rows = np.flatnonzero(wrong & (TRUTH == 0) & (a.annotator == 1))
    labels, half = a.label[rows], len(rows) // 2
    centres = np.stack([features[rows[:half]][labels[:half] == label].mean(axis=0) for label in (1, 2, 3)])
    guess = 1 + (features[rows[half:]] @ centres.T).argmax(axis=1)
    assert (guess == labels[half:]).mean() > 0.42


def test_a_flip_rate_of_zero_never_errs() -> None:
    features = np.random.default_rng(0).normal(size=(50, 3))
    a = simulate_instance_dependent(features, TRUTH[:50], one_per_item(50, 1), flip_rates=[0.0], n_classes=4)
    assert (a.label == TRUTH[:50]).all()


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda: build_family("hammer", 3, 3), "one-coin, hammer-spammer"),
        (lambda: build_family("spammers", 3, 3, level=0.3), "takes no level"),
        (lambda: build_family("random", 0, 3), "at least 1 annotator"),
        (lambda: build_family("pair-flip", 3, 1), "2 classes"),
        (lambda: build_family("symmetric", 3, 3, level=1.5), "between 0 and 1"),
        (lambda: build_family("hammer-spammer", 3, 3, level=float("nan")), "between 0 and 1"),
        (lambda: build_family("dominant", 3, 3, level=-1), "at least 0"),
        (lambda: build_pattern("per-item", 10, 3, amount=1.5), "whole"),
        (lambda: build_pattern("all", 10, 3), "per-item, one-per-item"),
        (
            lambda: copy_annotators(
                simulate_annotations([0, 1], one_coin([1, 1], 2), per_item(2, 2, labels=2)), {5: 0}
            ),
            "5",
        ),
        (
            lambda: copy_annotators(
                simulate_annotations([0, 1], one_coin([1, 1, 1], 2), per_item(2, 3, labels=2)), {0: 1, 1: 2}
            ),
            "who works",
        ),
        (lambda: random_copies(range(3), 3), "0..2"),
        (lambda: simulate_annotations([], one_coin([1.0], 2), one_per_item(0, 1)), "at least one"),
        (lambda: simulate_annotations(["a"], one_coin([1.0], 2), one_per_item(1, 1)), "whole numbers"),
        (lambda: simulate_annotations([0, 1], one_coin([1.0], 2), one_per_item(2, 1), classes=["a"]), "1 names"),
        (
            lambda: simulate_by_difficulty([0, 1], one_per_item(2, 1), ability=[1], difficulty=[1, 0], n_classes=2),
            "positive",
        ),
        (
            lambda: simulate_instance_dependent(
                [[1.0], [2.0]], [0, 1], one_per_item(2, 1), flip_rates=[2], n_classes=2
            ),
            "flip rate",
        ),
    ],
)
def test_impossible_requests_are_refused_with_the_reason(mistake, told: str) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        mistake()

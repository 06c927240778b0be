"""Labels follow the confusions they are drawn from, and copies follow their originals."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.errors import InvalidParameterError
from crowdprism.simulate import (
    copy_annotators,
    each_with_probability,
    one_coin,
    one_per_item,
    per_annotator,
    per_item,
    random_copies,
    simulate_annotations,
    simulate_by_difficulty,
    simulate_instance_dependent,
)


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


@pytest.mark.parametrize(("probability", "n_annotators"), [(0.1, 5), (0.2, 5), (0.1, 25)])
def test_the_share_of_unlabelled_items_has_its_closed_form(probability: float, n_annotators: int) -> None:
    item, _ = each_with_probability(40_000, n_annotators, probability=probability, seed=1)
    unlabelled = 1 - len(np.unique(item)) / 40_000
    expected = (1 - probability) ** n_annotators
    assert unlabelled == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 40_000))


TRUTH = np.random.default_rng(0).integers(4, size=20_000)


def test_labels_are_drawn_from_the_row_of_the_true_class() -> None:
    crowd = np.array([[[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.3, 0.3, 0.4]]])
    truth = np.repeat([0, 1, 2], 20_000)
    a = simulate_annotations(truth, crowd, one_per_item(60_000, 1))
    shares = [np.bincount(a.label[truth == c], minlength=3) / 20_000 for c in range(3)]
    assert np.allclose(shares, crowd[0], atol=0.015)


def test_names_of_classes_and_annotators_are_the_users() -> None:
    a = simulate_annotations([0, 1], one_coin([1.0], 2), one_per_item(2, 1), classes=["no", "yes"], annotators=["eve"])
    assert a.classes[a.label].tolist() == ["no", "yes"]
    assert a.annotators.tolist() == ["eve"]


def test_a_copier_hands_in_exactly_what_the_other_labelled_and_nothing_else_changes() -> None:
    a = simulate_annotations(TRUTH[:300], one_coin([0.6] * 5, 4), per_item(300, 5, labels=2))
    copied = copy_annotators(a, {4: 1})
    before, after = a.to_dense(), copied.to_dense()
    assert np.array_equal(after[:, 4], before[:, 1])
    assert np.array_equal(after[:, :4], before[:, :4])
    assert np.array_equal(copied.gold, a.gold)
    assert copy_annotators(a, {}) == a


def test_names_must_be_as_many_as_codes_and_different() -> None:
    for wrong in ({"classes": ["a"]}, {"classes": ["a", "a"]}, {"items": [1, 1]}, {"items": [1]}):
        with pytest.raises(InvalidParameterError, match="2 different names"):
            simulate_annotations([0, 1], one_coin([1.0], 2), one_per_item(2, 1), **wrong)


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

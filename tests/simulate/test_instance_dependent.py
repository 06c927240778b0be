"""Annotators whose mistakes depend on the item keep their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.simulate import (
    one_per_item,
    simulate_by_difficulty,
    simulate_instance_dependent,
)

TRUTH = np.random.default_rng(0).integers(4, size=20_000)


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

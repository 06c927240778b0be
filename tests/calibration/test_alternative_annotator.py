"""The alternative annotator test beside a slow reference written from the paper's algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from crowdprism.calibration.alternative_annotator import alternative_annotator_test, winning_rate
from crowdprism.errors import InvalidParameterError


def slow_reference(judge: np.ndarray, humans: np.ndarray, epsilon: float) -> tuple[float, float, list[float]]:
    """Algorithm 1 of Calderon et al., item by item."""
    p_values, advantages = [], []
    for left_out in range(humans.shape[1]):
        differences, wins = [], []
        for item in range(len(judge)):
            others = [h for h in range(humans.shape[1]) if h != left_out and humans[item, h] >= 0]
            if judge[item] < 0 or humans[item, left_out] < 0 or not others:
                continue
            person = np.mean([humans[item, h] == humans[item, left_out] for h in others])
            machine = np.mean([humans[item, h] == judge[item] for h in others])
            wins.append(float(machine >= person))
            differences.append(float(person >= machine) - float(machine >= person))
        if len(differences) >= 30:
            p_values.append(ttest_1samp(differences, epsilon, alternative="less").pvalue)
            advantages.append(np.mean(wins))
    n = len(p_values)
    harmonic = sum(1 / i for i in range(1, n + 1))
    rejected = max((i for i, p in enumerate(sorted(p_values), 1) if p <= i / n * 0.05 / harmonic), default=0)
    return rejected / n, float(np.mean(advantages)), p_values


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("skill", [0.5, 0.7, 0.9])
def test_it_equals_a_slow_reference(seed: int, skill: float) -> None:
    random = np.random.default_rng(seed)
    truth = random.integers(0, 3, 90)

    def noisy(accuracy: float) -> np.ndarray:
        return np.where(random.random(90) < accuracy, truth, random.integers(0, 3, 90))

    humans = np.stack([noisy(0.7) for _ in range(5)], axis=1)
    humans[random.random(humans.shape) < 0.3] = -1
    judge = np.where(random.random(90) < 0.9, noisy(skill), -1)
    for epsilon in (0.1, 0.2):
        found = alternative_annotator_test(judge, humans, epsilon=epsilon)
        rate, advantage, p_values = slow_reference(judge, humans, epsilon)
        assert found.winning_rate == pytest.approx(rate)
        assert found.winning_rates[epsilon] == pytest.approx(rate)
        assert found.advantage == pytest.approx(advantage)
        assert found.p_values[np.isfinite(found.p_values)] == pytest.approx(p_values)
        assert found.passed == (rate >= 0.5)


def test_a_judge_who_is_always_right_replaces_people_and_a_random_one_does_not() -> None:
    random = np.random.default_rng(0)
    truth = random.integers(0, 4, 200)
    humans = np.stack([np.where(random.random(200) < 0.8, truth, random.integers(0, 4, 200)) for _ in range(4)], axis=1)
    assert alternative_annotator_test(truth, humans).passed
    assert not alternative_annotator_test(random.integers(0, 4, 200), humans).passed


def test_people_with_few_items_are_left_out() -> None:
    humans = np.zeros((60, 3), dtype=int)
    humans[29:, 2] = -1
    assert alternative_annotator_test(np.zeros(60, dtype=int), humans).n_humans == 2
    nobody = alternative_annotator_test(np.zeros(20, dtype=int), humans[:20])
    assert (nobody.passed, nobody.n_humans) == (None, 0)
    assert np.isnan(nobody.winning_rate)


def test_thresholds_are_those_of_benjamini_and_yekutieli() -> None:
    harmonic = 1 + 1 / 2 + 1 / 3
    third = 0.05 / harmonic  # all three are rejected if the largest is at its threshold
    assert winning_rate(np.array([third, third, third])) == 1.0
    assert winning_rate(np.array([third / 3 * 0.99, third, third * 1.01])) == pytest.approx(1 / 3)
    assert winning_rate(np.array([third, third, third]) * 1.01) == 0.0


def test_epsilon_is_a_share() -> None:
    with pytest.raises(InvalidParameterError, match="epsilon"):
        alternative_annotator_test(np.zeros(2), np.zeros((2, 2)), epsilon=2)

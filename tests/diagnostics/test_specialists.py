"""Distances to class specialists and anchors: closed forms and invariance."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from crowdprism.diagnostics.specialists import bottleneck_assignment, nearest_anchors, nearest_specialists
from crowdprism.simulate import one_coin


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_a_uniform_crowd_is_at_the_known_distance(n_classes: int) -> None:
    uniform = np.full((7, n_classes, n_classes), 1 / n_classes)
    expected = np.sqrt((1 - 1 / n_classes) ** 2 + (n_classes - 1) / n_classes**2)
    assert nearest_specialists(uniform).largest == pytest.approx(expected)


def test_a_perfect_annotator_is_every_specialist() -> None:
    found = nearest_specialists(np.concatenate([one_coin([0.3, 0.5], 4), np.eye(4)[None]]))
    assert found.largest == 0
    assert found.who.tolist() == [2, 2, 2, 2]


def test_a_specialist_uses_a_label_for_his_class_alone() -> None:
    # Always right about class 0, but label 0 is also given to class 1: the row is ideal, the column is not.
    never_wrong_about_0 = np.array([[[1.0, 0.0, 0.0], [0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]])
    assert nearest_specialists(never_wrong_about_0, any_order=False).distance[0] == pytest.approx(0.5)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_reordered_classes_have_the_same_distances(order: tuple[int, ...]) -> None:
    crowd = np.random.default_rng(0).dirichlet(np.ones(3), size=(5, 3))
    moved = nearest_specialists(crowd[:, list(order)])
    assert moved.largest == pytest.approx(nearest_specialists(crowd).largest)


def test_the_bottleneck_assignment_matches_all_permutations() -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        cost = random.random((5, 5))
        best = min(max(cost[range(5), order]) for order in permutations(range(5)))
        assert cost[range(5), bottleneck_assignment(cost)].max() == best


def test_anchors_are_the_surest_items_of_each_class() -> None:
    found = nearest_anchors([[0.9, 0.1, 0.0], [1.0, 0.0, 0.0], [0.0, 0.4, 0.6], [0.0, 0.5, 0.5]])
    assert found.who.tolist() == [1, 3, 2]
    assert found.distance.round(4).tolist() == [0.0, 0.7071, 0.5657]

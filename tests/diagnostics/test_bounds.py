"""Bounds and complexity against values worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

from crowdprism.diagnostics.bounds import (
    ConvolutionLayer,
    DenseLayer,
    TheoremInputs,
    bottleneck_assignment,
    estimation_rate,
    generalization_bound,
    item_probability_bound,
    label_probability_bound,
    nearest_anchors,
    nearest_specialists,
    network_layers,
    sensitive_complexity,
    theorem_conditions,
)
from crowdprism.errors import InvalidParameterError
from crowdprism.simulate import one_coin

LENET = [
    SimpleNamespace(in_channels=1, out_channels=6, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2)),
    SimpleNamespace(kernel_size=2, stride=2, padding=0),
    SimpleNamespace(in_channels=6, out_channels=16, kernel_size=(5, 5), stride=(1, 1), padding=(0, 0)),
    SimpleNamespace(kernel_size=2, stride=None, padding=0),
    SimpleNamespace(in_features=400, out_features=120),
    SimpleNamespace(in_features=120, out_features=84),
    SimpleNamespace(in_features=84, out_features=10),
]
INPUTS = TheoremInputs(
    n_items=1000,
    n_annotators=5,
    n_classes=10,
    n_annotations=2500,
    smallest_probability=1 / 20,
    complexity=1.2e11,
    input_norm=500.0,
)


def test_lenet_has_the_published_order_of_complexity() -> None:
    layers = network_layers(SimpleNamespace(modules=lambda: iter(LENET)), image_shape=(28, 28))
    assert layers[0] == ConvolutionLayer(6, 25, 6 * 28 * 28)
    assert layers[1] == ConvolutionLayer(16, 150, 16 * 10 * 10)
    assert sensitive_complexity(layers) == pytest.approx(1.23e11, rel=0.01)


def test_complexity_of_two_dense_layers_by_hand() -> None:
    assert sensitive_complexity([DenseLayer(2, 3), DenseLayer(3, 2)], lipschitz=0.5) == 2 * 0.25 * 4 * (36 + 36)


def test_a_network_with_convolutions_needs_the_image_shape() -> None:
    with pytest.raises(InvalidParameterError, match="image_shape"):
        network_layers(SimpleNamespace(modules=lambda: iter(LENET)))


def test_a_network_without_known_layers_is_an_error() -> None:
    with pytest.raises(InvalidParameterError, match="in_features"):
        network_layers(SimpleNamespace(modules=lambda: iter([object()])))


def test_the_bound_is_vacuous_at_the_papers_sizes() -> None:
    assert label_probability_bound(INPUTS) > 1000


def test_the_bound_falls_as_one_over_the_root_of_annotations() -> None:
    many = replace(INPUTS, n_annotations=250_000)
    assert label_probability_bound(INPUTS) / label_probability_bound(many) == pytest.approx(10, rel=0.1)


def test_the_bound_by_hand() -> None:
    tiny = TheoremInputs(10, 2, 2, 100, smallest_probability=0.1, complexity=8.0, input_norm=1.0, misfit=0.01)
    rademacher = 1.6 * np.sqrt(4 * np.log(400 * np.sqrt(2)) + 4)
    expected = 4 * np.sqrt(2) * 20 * rademacher + np.log(10) * np.sqrt(2 * np.log(80)) + 0.2 * np.sqrt(2)
    assert label_probability_bound(tiny) == pytest.approx(expected)


def test_conditions_hold_for_a_perfect_crowd_only_with_very_many_annotations() -> None:
    few = {c.name: c.holds for c in theorem_conditions(INPUTS, xi_1=0.0, xi_2=0.0)}
    assert few["class specialists: xi_1 <= 1/K"]
    assert not few["enough annotations: S"]
    many = replace(INPUTS, n_annotations=10**16)
    assert all(condition.holds for condition in theorem_conditions(many, xi_1=0.0, xi_2=0.0))
    assert estimation_rate(many) < estimation_rate(INPUTS)


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


def test_the_bound_of_one_item_is_that_of_the_mean_by_markov_and_the_lemma_adds_two_terms() -> None:
    inputs = TheoremInputs(100, 5, 3, 400, 0.1, complexity=8.0, input_norm=2.0, alpha=0.5)
    mean = label_probability_bound(inputs, delta=0.01)
    assert item_probability_bound(inputs, delta=0.01) == pytest.approx(10 * (mean + 0.04))
    added = 64 * 100 ** (-5 / 8) * 32**0.25 + 16 * np.sqrt(2 * np.log(400) / 100)
    assert generalization_bound(inputs, 0.3, delta=0.01) == pytest.approx(0.3 + added)
    more = TheoremInputs(10_000, 5, 3, 400, 0.1, complexity=8.0, input_norm=2.0)
    assert generalization_bound(more, 0.0) < generalization_bound(inputs, 0.0)

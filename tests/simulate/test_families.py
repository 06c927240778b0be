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
    demo_annotations,
    each_with_probability,
    one_coin,
    one_per_item,
    pair_flip,
    per_annotator,
    per_item,
    random_copies,
    simulate_annotations,
    simulate_by_difficulty,
    simulate_instance_dependent,
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


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda: build_family("hammer", 3, 3), "one-coin, hammer-spammer"),
        (lambda: build_family("spammers", 3, 3, level=0.3), "takes no parameter"),
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
            "cannot both copy",
        ),
        (lambda: random_copies(range(3), 3), "0..2"),
        (lambda: simulate_annotations([], one_coin([1.0], 2), one_per_item(0, 1)), "at least one"),
        (lambda: simulate_annotations(["a"], one_coin([1.0], 2), one_per_item(1, 1)), "whole numbers"),
        (
            lambda: simulate_annotations([0, 1], one_coin([1.0], 2), one_per_item(2, 1), classes=["a"]),
            "2 different names of classes",
        ),
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


def test_the_same_seed_gives_the_same_crowd_and_another_seed_another() -> None:
    truth = np.arange(200) % 10
    assert demo_annotations(truth, seed=1) == demo_annotations(truth, seed=1)
    assert demo_annotations(truth, seed=1) != demo_annotations(truth, seed=2)


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

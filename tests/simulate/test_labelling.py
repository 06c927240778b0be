"""Labels follow the confusions they are drawn from, and copies follow their originals."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.errors import InvalidParameterError
from crowdprism.simulate import (
    copy_annotators,
    one_coin,
    one_per_item,
    per_item,
    random_copies,
    simulate_annotations,
)

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

"""The summary counts what a look at the table would count."""

from __future__ import annotations

import numpy as np

from crowdprism.annotations import Annotations
from crowdprism.annotations.summary import Spread, spread


def test_items_and_annotators_without_annotations_are_counted() -> None:
    summary = Annotations.from_dense([[0, 1, -1], [-1, -1, -1]]).summary()
    assert (summary.n_items_without_annotation, summary.n_annotators_without_annotation) == (1, 1)
    assert summary.labels_per_item == Spread(0, 1.0, 2)
    assert summary.n_gold == 0
    assert summary.label_accuracy is None
    assert "gold" not in str(summary)
    assert "repeat" not in str(summary)


def test_accuracy_is_that_of_labels_whose_item_has_gold() -> None:
    a = Annotations.from_triplets([1, 1, 2, 3], ["a", "b", "a", "a"], [0, 1, 1, 1], gold={1: 0, 2: 1})
    assert a.summary().n_gold == 2
    assert a.summary().label_accuracy == 2 / 3
    assert "gold for 2 items; 66.7% of their labels are right" in str(a.summary())
    unlabelled = Annotations.from_triplets([1, 1], ["a", "b"], [0, 1], gold={2: 0}, item_names=[1, 2])
    assert unlabelled.summary().label_accuracy is None


def test_only_ten_of_many_classes_are_listed() -> None:
    a = Annotations.from_triplets(range(12), ["ann"] * 12, range(12))
    assert "... (12 classes)" in str(a.summary())


def test_nothing_to_count_is_a_spread_of_zeros() -> None:
    assert spread(np.array([], dtype=int)) == Spread(0, 0.0, 0)
    assert str(spread(np.array([3, 1, 2]))) == "1 to 3, median 2"

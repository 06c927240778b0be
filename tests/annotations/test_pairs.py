"""Pairs of annotators are counted as a loop over items and pairs would count them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from crowdprism.annotations import Annotations
from crowdprism.annotations import pairs as pairs_module
from crowdprism.annotations.pairs import (
    bipartite_components,
    co_label_entries,
    pairs_on_items,
    ranked,
    response_matrix,
    sums_by,
)


def random_annotations(weighted: bool) -> Annotations:
    random = np.random.default_rng(3)
    columns = (random.integers(12, size=60), random.integers(5, size=60), random.integers(3, size=60))
    weight = random.integers(0, 3, size=60).astype(float) if weighted else None
    return Annotations.from_triplets(*columns, weight=weight, item_names=range(14), annotator_names=range(6))


def slow_counts(a: Annotations) -> dict[tuple[int, int], np.ndarray]:
    """Counts (label of first, label of second) by pair, first < second, one item at a time."""
    weight = np.ones(a.n_annotations) if a.weight is None else a.weight
    counts: dict[tuple[int, int], np.ndarray] = {}
    for item in range(a.n_items):
        rows = range(a.item_start[item], a.item_start[item + 1])
        for i, j in combinations(rows, 2):
            first, second = sorted((i, j), key=lambda row: a.annotator[row])
            if a.annotator[first] == a.annotator[second] or weight[i] * weight[j] == 0:
                continue
            pair = (int(a.annotator[first]), int(a.annotator[second]))
            table = counts.setdefault(pair, np.zeros((a.n_classes, a.n_classes)))
            table[a.label[first], a.label[second]] += weight[i] * weight[j]
    return counts


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_of_pairs_equal_a_loop_over_items(weighted: bool) -> None:
    a = random_annotations(weighted)
    entries, expected = co_label_entries(a), slow_counts(a)
    found = entries.blocks()
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == sorted(expected)
    for block, pair in zip(found.counts, sorted(expected), strict=True):
        assert np.allclose(block, expected[pair])
    assert np.allclose(entries.common(), [expected[pair].sum() for pair in sorted(expected)])
    assert np.allclose(entries.agreeing(), [np.trace(expected[pair]) for pair in sorted(expected)])


def test_both_ways_holds_every_pair_and_its_transpose() -> None:
    entries = co_label_entries(random_annotations(False))
    keep = np.arange(entries.n_pairs) % 2 == 0
    one_way, both = entries.blocks(keep), entries.blocks(keep).both_ways()
    assert len(both.first) == 2 * len(one_way.first)
    tables = {
        pair: table for *pair, table in zip(both.first, both.second, both.counts, strict=True) for pair in [tuple(pair)]
    }
    for first, second, table in zip(one_way.first, one_way.second, one_way.counts, strict=True):
        assert np.array_equal(tables[first, second], table)
        assert np.array_equal(tables[second, first], table.T)


def test_one_annotator_has_no_pair_and_repeats_add_up() -> None:
    a = Annotations.from_triplets([1, 1, 2], ["a", "a", "a"], [0, 0, 1])
    assert response_matrix(a).toarray().tolist() == [[2.0, 0.0], [0.0, 1.0]]
    assert co_label_entries(a).n_pairs == 0


@pytest.mark.parametrize("small", [0, 2**20])
def test_keys_are_ranked_alike_by_counting_and_by_sorting(small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "SMALL_KEY_RANGE", small)
    key = np.array([900, 3, 900, 7])
    distinct, place = ranked(key, 1000)
    assert distinct.tolist() == [3, 7, 900]
    assert distinct[place].tolist() == key.tolist()


def test_groups_without_a_common_annotation_are_numbered_apart() -> None:
    items, annotators = bipartite_components(Annotations.from_dense([[0, 1, -1, -1], [-1, 1, -1, -1], [-1, -1, 0, -1]]))
    assert items[0] == items[1] == annotators[0] == annotators[1]
    assert items[2] == annotators[2] != items[0]
    assert annotators[3] not in (*items, *annotators[:3])


def test_sums_by_group_keep_empty_groups() -> None:
    assert sums_by(np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), 4).tolist() == [4.0, 0.0, 2.0, 0.0]


def test_pairs_of_annotations_are_those_of_one_item_by_two_annotators() -> None:
    first, second = pairs_on_items(Annotations.from_dense([[0, 1], [1, -1], [1, 1]]))
    assert (first.tolist(), second.tolist()) == ([0, 3], [1, 4])


def test_the_response_matrix_has_a_column_for_each_annotator_and_label() -> None:
    found = response_matrix(Annotations.from_dense([[0, 1], [1, -1]])).toarray()
    assert found.tolist() == [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0]]

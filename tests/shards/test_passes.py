"""Passes over a store: groups and sums against annotations in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdprism.aggregators.em import Sums, group_bounds
from crowdprism.aggregators.expectation import ConfusionPass
from crowdprism.annotations import Annotations
from crowdprism.shards import Shards, write_annotations
from crowdprism.shards.passes import LabelFiles, StoredAnnotations


@pytest.fixture
def data(store: Shards, tmp_path: Path) -> StoredAnnotations:
    nothing: Any = None
    return StoredAnnotations(store, labels=LabelFiles(tmp_path, store), journal=nothing)


@pytest.mark.parametrize("n_rows", [1, 4000, 10**6])
def test_groups_are_those_of_annotations_in_memory(n_rows: int, data: StoredAnnotations, crowd: Annotations) -> None:
    assert data.bounds(n_rows) == group_bounds(crowd.item_start, n_rows)


def test_every_item_is_visited_once_and_in_order(data: StoredAnnotations, crowd: Annotations) -> None:
    def visit(block: Annotations, first: int, last: int, sums: Sums, place: int) -> None:
        sums.pieces.append(np.arange(place + first, place + last, dtype=float))

    found = data.sum_blocks(data.bounds(1), visit, counts_shape=(1,))
    assert found.kept.tolist() == list(range(crowd.n_items))


def test_counts_of_votes_are_those_of_memory(data: StoredAnnotations, crowd: Annotations) -> None:
    found, expected = ConfusionPass(data).count_votes(), ConfusionPass(crowd).count_votes()
    assert np.array_equal(found.counts, expected.counts)
    assert np.array_equal(found.class_totals, expected.class_totals)


def test_weighted_annotations_have_the_weights_of_memory(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weight = random.random(60).astype(np.float32)
    a = Annotations.from_triplets(np.arange(60) // 3, np.arange(60) % 7, random.integers(0, 2, 60), weight=weight)
    nothing: Any = None
    store = write_annotations(a, tmp_path / "store")
    data = StoredAnnotations(store, labels=nothing, journal=nothing)
    found, expected = ConfusionPass(data), ConfusionPass(a)
    assert found.total_weight == expected.total_weight
    assert np.array_equal(found.count_votes().counts, expected.count_votes().counts)

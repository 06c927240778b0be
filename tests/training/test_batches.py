"""Flat slices of annotations and the order of items."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crowdprism.annotations import Annotations
from crowdprism.seeding import stream
from crowdprism.training import FlatAnnotations, epoch_order


def some_annotations(weight: bool = False) -> Annotations:
    random = np.random.default_rng(0)
    table = random.integers(-1, 3, (12, 5))
    table[4] = -1
    annotations = Annotations.from_dense(table, classes=[0, 1, 2])
    if not weight:
        return annotations
    return Annotations.from_triplets(
        annotations.item,
        annotations.annotator,
        annotations.label,
        weight=random.random(annotations.n_annotations),
        item_names=range(12),
    )


def test_a_batch_holds_exactly_the_annotations_of_its_items() -> None:
    annotations = some_annotations(weight=True)
    flat = FlatAnnotations.of(annotations, extra_items=2)
    index = np.array([7, 13, 4, 0])  # an unlabelled item, and one without annotations
    batch = flat.batch(index, torch.zeros(4, 1))
    expected = [
        (row, a, y, w)
        for row, item in enumerate(index)
        for i, a, y, w in zip(
            annotations.item, annotations.annotator, annotations.label, annotations.weight, strict=True
        )
        if i == item
    ]
    found = list(
        zip(*(part.tolist() for part in (batch.item, batch.annotator, batch.label, batch.weight)), strict=True)
    )
    assert np.allclose(found, expected)
    assert torch.equal(batch.touched[batch.place], batch.annotator)
    assert batch.count == pytest.approx(sum(row[3] for row in expected))
    assert batch.n_labelled == 2


def test_a_batch_without_annotations_counts_one_so_that_its_mean_is_zero() -> None:
    batch = FlatAnnotations.of(some_annotations()).batch(np.array([4]), torch.zeros(1, 1))
    assert (len(batch.label), batch.count, batch.n_labelled) == (0, 1.0, 1)


@pytest.mark.parametrize("n_items", [1, 5, 64, 65, 129, 130])
def test_every_item_is_in_exactly_one_batch_and_no_batch_is_a_lonely_item(n_items: int) -> None:
    order = epoch_order(n_items, 64, stream(0, "shuffle"))
    assert sorted(np.concatenate(order).tolist()) == list(range(n_items))
    sizes = [len(part) for part in order]
    assert min(sizes) > 1 or n_items == 1
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("n_items", "sizes"), [(1, [1]), (5, [5]), (64, [64]), (65, [64]), (130, [64, 64])])
def test_full_batches_leave_out_what_is_left_over(n_items: int, sizes: list[int]) -> None:
    order = epoch_order(n_items, 64, stream(0, "shuffle"), even=False)
    assert [len(part) for part in order] == sizes
    assert len(set(np.concatenate(order).tolist())) == sum(sizes)


def test_the_touch_rate_is_the_share_of_batches_that_contain_an_annotator() -> None:
    annotations = Annotations.from_dense(
        np.where(np.arange(300)[:, None] % np.array([1, 3, 50]) == 0, 0, -1), classes=[0, 1]
    )
    flat = FlatAnnotations.of(annotations)
    seen = np.zeros(3)
    batches = [part for epoch in range(60) for part in epoch_order(300, 30, stream(epoch, "shuffle"))]
    for part in batches:
        seen[flat.batch(part, torch.zeros(1)).touched.numpy()] += 1
    assert np.allclose(flat.touch_rate(30), seen / len(batches), atol=0.05)

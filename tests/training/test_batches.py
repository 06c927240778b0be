"""Flat slices of annotations and the order of items."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import GeometricHead, diagonal_confusions, make_annotator_layer
from crowdprism.seeding import stream, torch_stream
from crowdprism.training import Augmentation, FlatAnnotations, InputScaling, TensorItems, TrainingSettings
from crowdprism.training.batches import DatasetItems, epoch_order, mixed, shifted


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


def plain_annotations() -> Annotations:
    table = np.random.default_rng(0).integers(-1, 3, (12, 5))
    return Annotations.from_dense(table, classes=[0, 1, 2])


def test_shifted_images_move_as_a_whole_by_at_most_the_reach() -> None:
    images = torch.zeros(50, 1, 9, 9)
    images[:, :, 4, 4] = 1.0
    moved = shifted(images, 2, torch_stream(0, "shift"))
    assert moved.shape == images.shape
    _, _, rows, columns = moved.nonzero(as_tuple=True)
    assert len(rows) == 50
    assert {int((rows - 4).min()), int((rows - 4).max()), int((columns - 4).min()), int((columns - 4).max())} == {-2, 2}


def test_mixup_counts_both_items_annotations_by_their_shares() -> None:
    flat = FlatAnnotations.of(plain_annotations())
    features = torch.arange(4.0).unsqueeze(1)
    batch = flat.batch(np.array([0, 1, 2, 3]), features)
    mixture = mixed(batch, 1.0, stream(3, "mixup"))
    share = float(mixture.group_weight[0])
    partner = (mixture.features.squeeze(1) - share * features.squeeze(1)) / (1 - share)
    assert float(mixture.weight.sum()) == pytest.approx(batch.count)
    second = slice(len(batch.label), None)
    assert torch.allclose(partner[mixture.item[second]].round(), batch.item.float())  # they stand where their item went
    assert torch.equal(mixture.group_row[mixture.group], mixture.item)


@pytest.mark.parametrize("loss", ["ccem", "joint"])
def test_mixing_an_item_with_itself_changes_nothing(loss: str) -> None:
    flat = FlatAnnotations.of(plain_annotations())
    batch = flat.batch(np.array([1]), torch.ones(1, 1))
    head = GeometricHead(make_annotator_layer("free", diagonal_confusions(5, 3, 0.6)), loss=loss)
    log_probs = torch.tensor([[0.2, 0.5, 0.3]]).log()
    alone = head.loss(log_probs, batch)
    assert torch.allclose(head.loss(log_probs, mixed(batch, 1.0, stream(0, "mixup"))), alone, rtol=1e-5)


def test_an_epoch_has_its_own_noise_and_the_same_again_when_repeated() -> None:
    batch = FlatAnnotations.of(plain_annotations()).batch(np.array([0, 1]), torch.zeros(2, 3))
    noise = Augmentation(noise=0.5)
    first, again, other = (
        noise.apply(batch, torch_stream(0, "augmentation", epoch), np.random.default_rng(0)).features
        for epoch in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("options", [{"noise": -1.0}, {"shift": 0.5}, {"flip": "yes"}, {"mixup": float("nan")}])
def test_augmentation_that_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidParameterError, match=f"{next(iter(options))} must be"):
        TrainingSettings(augmentation=Augmentation(**options)).check()


CPU = torch.device("cpu")


def test_a_dataset_gives_the_batches_that_memory_gives() -> None:
    features = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    scaling = InputScaling.of(features)
    order = epoch_order(20, 6, stream(0, "shuffle"))
    memory = list(TensorItems(features, scaling, CPU).batches(order))
    for source in (TensorDataset(features), DataLoader(TensorDataset(features), batch_size=5)):
        streamed = list(DatasetItems(source, scaling, CPU).batches(order))
        assert all(torch.equal(first, second) for first, second in zip(memory, streamed, strict=True))


def test_scaling_gives_mean_zero_and_deviation_one_and_leaves_constant_features() -> None:
    features = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([3.0, 0.1, 0.0]) + 7
    scaled = InputScaling.of(features)(features)
    assert torch.allclose(scaled.mean(0), torch.zeros(3), atol=1e-4)
    assert torch.allclose(scaled.std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]), atol=1e-4)


def test_bytes_are_scaled_batch_by_batch_to_what_floats_give() -> None:
    images = torch.randint(0, 256, (10, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    order = [np.array([3, 1, 7])]
    as_bytes = next(TensorItems(images, InputScaling.of(images), CPU).batches(order))
    floats = images.float() / 255
    as_floats = next(TensorItems(floats, InputScaling.of(floats), CPU).batches(order))
    assert torch.allclose(as_bytes, as_floats, atol=1e-5)


def test_features_of_one_unit_are_divided_by_one_number() -> None:
    X = torch.tensor([[1.0, 10.0], [3.0, 14.0]])  # deviations 1 and 2
    scaling = InputScaling.of(X, one_unit=None)
    assert torch.allclose(scaling.scale, torch.tensor(2.5).sqrt().expand(2))
    assert torch.equal(scaling.shift, torch.tensor([2.0, 12.0]))


def test_features_of_different_units_are_divided_each_by_its_own_deviation() -> None:
    X = torch.tensor([[1.0, 0.0, 0.0, 5.0], [3.0, 2.0, 200.0, 5.0]])  # deviations 1, 1, 100 and none
    scaling = InputScaling.of(X, one_unit=None)
    assert torch.equal(scaling.scale, torch.tensor([1.0, 1.0, 100.0, 1.0]))
    assert not torch.equal(InputScaling.of(X, one_unit=True).scale, scaling.scale)


def test_constant_features_do_not_count_for_the_common_number() -> None:
    X = torch.tensor([[1.0, 5.0, 5.0], [3.0, 5.0, 5.0]])
    assert torch.equal(InputScaling.of(X, one_unit=None).scale, torch.ones(3))
    assert torch.equal(InputScaling.of(X[:1], one_unit=None).scale, torch.ones(3))


def test_a_part_holds_the_chosen_items() -> None:
    X = torch.arange(10.0).view(5, 2)
    index = np.array([3, 1])
    for items in (
        TensorItems(X, InputScaling.identity(), torch.device("cpu")),
        DatasetItems(TensorDataset(X), InputScaling.identity(), torch.device("cpu")),
    ):
        (found,) = items.part(index).batches([np.arange(2)])
        assert torch.equal(found, X[index])
        assert len(items) == 5

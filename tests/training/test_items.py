"""Sources of features: memory and datasets give the same, scaled as stated."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from crowdprism.seeding import stream
from crowdprism.training import DatasetItems, InputScaling, TensorItems, epoch_order

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

"""Shifts move whole images, mixup counts both items' annotations, settings are checked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import GeometricHead, diagonal_confusions, make_annotator_layer
from crowdprism.seeding import stream, torch_stream
from crowdprism.training import Augmentation, FlatAnnotations
from crowdprism.training.augmentation import Augmenter, mixed, shifted


def some_annotations() -> Annotations:
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
    flat = FlatAnnotations.of(some_annotations())
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
    flat = FlatAnnotations.of(some_annotations())
    batch = flat.batch(np.array([1]), torch.ones(1, 1))
    head = GeometricHead(make_annotator_layer("free", diagonal_confusions(5, 3, 0.6)), loss=loss)
    log_probs = torch.tensor([[0.2, 0.5, 0.3]]).log()
    alone = head.loss(log_probs, batch)
    assert torch.allclose(head.loss(log_probs, mixed(batch, 1.0, stream(0, "mixup"))), alone, rtol=1e-5)


def test_an_epoch_has_its_own_noise_and_the_same_again_when_repeated() -> None:
    batch = FlatAnnotations.of(some_annotations()).batch(np.array([0, 1]), torch.zeros(2, 3))
    noise = Augmentation(noise=0.5)
    first, again, other = (Augmenter(noise, 0, 0, epoch, torch.device("cpu"))(batch).features for epoch in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("options", [{"noise": -1.0}, {"shift": 0.5}, {"flip": "yes"}, {"mixup": float("nan")}])
def test_augmentation_that_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidParameterError, match=f"{next(iter(options))} must be"):
        Augmentation(**options).check()

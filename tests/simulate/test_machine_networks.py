"""Single machine annotators learn what they should, by the published steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from crowdprism.seeding import torch_stream
from crowdprism.simulate import machine_networks
from crowdprism.simulate.machine_networks import (
    first_weights,
    logits_of,
    predict,
    summed_loss,
    train_neighbours,
    train_network,
    train_svm,
)

PIXELS, DIGITS = load_digits(return_X_y=True)
VALUES = ((PIXELS - PIXELS.mean()) / PIXELS.std()).astype(np.float32)
IMAGES = VALUES.reshape(-1, 1, 8, 8)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_a_support_vector_machine_learns_digits_and_takes_images_as_rows(kernel: str) -> None:
    predictor = train_svm(IMAGES[:600], DIGITS[:600], kernel=kernel)
    assert (predictor(IMAGES[600:]) == DIGITS[600:]).mean() > 0.9
    np.testing.assert_array_equal(
        predictor(IMAGES[600:]), train_svm(VALUES[:600], DIGITS[:600], kernel=kernel)(VALUES[600:])
    )


def test_training_items_of_one_class_make_a_constant_annotator() -> None:
    assert set(train_svm(VALUES[:5], np.full(5, 7), kernel="linear")(VALUES)) == {7}


def test_the_nearest_neighbour_of_a_training_item_is_itself() -> None:
    np.testing.assert_array_equal(
        train_neighbours(VALUES[:100], DIGITS[:100], n_neighbours=1)(VALUES[:100]), DIGITS[:100]
    )


def test_the_loss_of_even_scores_is_the_logarithm_of_the_number_of_classes() -> None:
    inputs, targets = torch.zeros(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    weights = [torch.zeros(3, 4), torch.zeros(3)]
    assert float(summed_loss("logistic", weights, inputs, targets, None)) == pytest.approx(6 * np.log(3))


def test_only_the_cnn_is_trained_on_logits() -> None:
    inputs, targets = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    weights = [torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.zeros(2)]
    softmax = np.exp([2, 0]) / np.exp([2, 0]).sum()
    expected = -np.log(np.exp(softmax[0]) / np.exp(softmax).sum())
    assert float(summed_loss("logistic", weights, inputs, targets, None)) == pytest.approx(expected)
    weights = first_weights("cnn", (1, 8, 8), 3, torch_stream(0, "test"))
    images, targets = torch.from_numpy(IMAGES[:4]), torch.tensor([0, 1, 2, 0])
    plain = torch.nn.functional.cross_entropy(logits_of("cnn", weights, images), targets, reduction="sum")
    assert float(summed_loss("cnn", weights, images, targets, None).detach()) == pytest.approx(float(plain.detach()))


@pytest.mark.parametrize("kind", ["logistic", "fcnn", "cnn"])
def test_a_step_in_parts_equals_a_step_of_the_whole_batch(kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_networks, "CNN_DROPOUT", (0.0, 0.0))  # its draws depend on the parts
    found = []
    for size in (50, 200):
        monkeypatch.setattr(machine_networks, "ITEMS_AT_ONCE", size)
        options = {"n_classes": 10, "epochs": 3, "until_expert": False, "seed": 1, "index": 2}
        found.append(train_network(kind, IMAGES[:120], DIGITS[:120], **options)(IMAGES))
    assert (found[0] == found[1]).mean() > 0.999


def test_dropout_keeps_the_mean_and_needs_a_generator() -> None:
    weights = first_weights("cnn", (1, 8, 8), 3, torch_stream(0, "test"))
    image = torch.from_numpy(IMAGES[:1])
    with torch.no_grad():
        assert torch.equal(logits_of("cnn", weights, image), logits_of("cnn", weights, image))
        drawn = logits_of("cnn", weights, image.repeat(4000, 1, 1, 1), torch_stream(0, "dropout"))
    assert drawn.std(dim=0).min() > 0
    torch.testing.assert_close(drawn.mean(dim=0), logits_of("cnn", weights, image)[0].detach(), atol=0.03, rtol=0)


def test_first_weights_lie_within_one_over_the_root_of_the_inputs() -> None:
    weights = first_weights("fcnn", (64,), 10, torch_stream(0, "test"))
    assert [tuple(weight.shape) for weight in weights] == [(128, 64), (128,), (10, 128), (10,)]
    assert 0.9 / 8 < float(weights[0].detach().abs().max()) <= 1 / 8
    assert predict("fcnn", weights, torch.zeros(3, 64)).shape == (3,)

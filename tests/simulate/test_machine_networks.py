"""Single machine annotators learn what they should, by the published steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from crowdprism.seeding import torch_stream
from crowdprism.simulate import machine_networks
from crowdprism.simulate.machine_networks import (
    MachineAnnotator,
    first_weights,
    logits_of,
    predict,
    train_annotator,
    train_network,
)

PIXELS, DIGITS = load_digits(return_X_y=True)
VALUES = ((PIXELS - PIXELS.mean()) / PIXELS.std()).astype(np.float32)
IMAGES = VALUES.reshape(-1, 1, 8, 8)


def trained(kind, setting, features, labels):
    return train_annotator(MachineAnnotator(kind, setting), features, labels, n_classes=10, seed=0, place=0)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_a_support_vector_machine_learns_digits_and_takes_images_as_rows(kernel: str) -> None:
    predictor = trained("svm", kernel, IMAGES[:600], DIGITS[:600])
    assert (predictor(IMAGES[600:]) == DIGITS[600:]).mean() > 0.9
    np.testing.assert_array_equal(
        predictor(IMAGES[600:]), trained("svm", kernel, VALUES[:600], DIGITS[:600])(VALUES[600:])
    )


def test_training_items_of_one_class_make_a_constant_annotator() -> None:
    assert set(trained("svm", "linear", VALUES[:5], np.full(5, 7))(VALUES)) == {7}


def test_the_nearest_neighbour_of_a_training_item_is_itself() -> None:
    np.testing.assert_array_equal(trained("knn", 1, VALUES[:100], DIGITS[:100])(VALUES[:100]), DIGITS[:100])


def test_only_the_cnn_is_trained_on_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    plain = torch.nn.functional.cross_entropy

    def watched(scores, targets, **options):
        seen.append(scores.detach())
        return plain(scores, targets, **options)

    monkeypatch.setattr(torch.nn.functional, "cross_entropy", watched)
    options = {"n_classes": 10, "epochs": 1, "until_expert": False, "seed": 1, "index": 2}
    for kind in ("logistic", "fcnn", "cnn"):
        train_network(kind, IMAGES[:40], DIGITS[:40], **options)
    assert [bool(torch.allclose(scores.sum(dim=1), torch.ones(40))) for scores in seen] == [True, True, False]


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

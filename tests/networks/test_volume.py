"""Bounds, gradients and degenerate cases of the volume terms."""

from __future__ import annotations

import math

import pytest
import torch

from crowdprism.networks import confusion_gram, confusion_trace, log_volume, prediction_gram
from crowdprism.networks.volume import reference_log_volume


def predictions(n_items: int, n_classes: int, *, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return (scale * torch.randn(n_items, n_classes, generator=generator, dtype=torch.float64)).softmax(-1)


@pytest.mark.parametrize(("batch", "n_classes"), [(64, 10), (100, 8), (400, 10)])
def test_balanced_one_hot_predictions_reach_the_upper_bound_and_others_stay_below(batch: int, n_classes: int) -> None:
    bound = n_classes * math.log(batch / n_classes)
    shares = torch.eye(n_classes, dtype=torch.float64).repeat(batch // n_classes + 1, 1)[: batch - batch % n_classes]
    reached = float(log_volume(prediction_gram(shares)))
    assert reached == pytest.approx(n_classes * math.log(len(shares) / n_classes), abs=1e-4)
    for scale in (0.1, 1.0, 10.0):
        assert float(log_volume(prediction_gram(predictions(batch, n_classes, scale=scale)), jitter=0)) < bound


def test_permutation_matrices_reach_the_upper_bound_of_the_confusion_volume() -> None:
    n_annotators, n_classes = 7, 5
    permuted = torch.stack([torch.eye(n_classes).roll(shift, 1) for shift in range(n_annotators)])
    assert float(log_volume(confusion_gram(permuted))) == pytest.approx(n_classes * math.log(n_annotators), abs=1e-4)


@pytest.mark.parametrize(("n_annotators", "n_classes", "expected"), [(5, 10, -18.46), (44, 10, 3.29), (59, 8, 8.36)])
def test_identity_logits_give_the_closed_form_of_the_confusion_volume(
    n_annotators: int, n_classes: int, expected: float
) -> None:
    start = torch.eye(n_classes, dtype=torch.float64).softmax(-1).expand(n_annotators, -1, -1)
    gap = (math.e - 1) / (math.e + n_classes - 1)
    closed = n_classes * math.log(n_annotators) + 2 * (n_classes - 1) * math.log(gap)
    found = float(log_volume(confusion_gram(start), jitter=1e-12))
    assert found == pytest.approx(closed, abs=1e-6)
    assert found == pytest.approx(expected, abs=0.01)


def test_the_gradient_over_predictions_is_twice_the_inverse_gram_times_the_predictions() -> None:
    shares = predictions(20, 4).requires_grad_()
    gram = prediction_gram(shares)
    log_volume(gram, jitter=1e-12).backward()
    assert torch.allclose(shares.grad, 2 * shares.detach() @ torch.linalg.inv(gram.detach()), atol=1e-8)


def test_the_gradient_over_confusions_is_twice_the_inverse_gram_times_the_confusion() -> None:
    confusions = predictions(15, 3).reshape(5, 3, 3).requires_grad_()
    gram = confusion_gram(confusions)
    log_volume(gram, jitter=1e-12).backward()
    assert torch.allclose(confusions.grad, 2 * torch.linalg.inv(gram.detach()) @ confusions.detach(), atol=1e-8)


def test_the_gradient_matches_finite_differences_jitter_included() -> None:
    gram = prediction_gram(predictions(6, 3)).requires_grad_()
    assert torch.autograd.gradcheck(lambda g: log_volume((g + g.T) / 2, jitter=1e-2), gram)


@pytest.mark.parametrize("n_items", [1, 3])
def test_a_batch_smaller_than_the_number_of_classes_has_finite_volume_and_gradient(n_items: int) -> None:
    shares = predictions(n_items, 10).float().requires_grad_()
    volume = log_volume(prediction_gram(shares))
    volume.backward()
    assert volume.isfinite()
    assert shares.grad.isfinite().all()


def test_collapsed_predictions_are_pulled_apart_by_the_gradient() -> None:
    logits = torch.zeros(30, 5, dtype=torch.float64)
    logits += 1e-3 * torch.randn(30, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    logits.requires_grad_()
    before = log_volume(prediction_gram(logits.softmax(-1)))
    before.backward()
    moved = logits.detach() + 0.01 * logits.grad / logits.grad.norm()
    assert float(log_volume(prediction_gram(moved.softmax(-1)))) > float(before.detach())


def test_many_classes_do_not_underflow() -> None:
    start = torch.eye(100).softmax(-1).expand(5, -1, -1)
    assert float(log_volume(confusion_gram(start))) < -500
    assert reference_log_volume(confusion_gram(start))[1]  # the reference drops the term here


def test_a_gram_of_zeros_is_finite() -> None:
    assert log_volume(torch.zeros(3, 3)).isfinite()


def test_equal_predictions_have_a_finite_volume_and_gradient() -> None:
    outputs = torch.full((30, 10), 50.0, requires_grad=True)  # a Gram of rank one
    volume = log_volume(prediction_gram(outputs.softmax(-1)))
    volume.backward()
    assert volume.isfinite()
    assert outputs.grad.isfinite().all()


def test_a_gram_that_is_not_positive_gives_nan_rather_than_a_number() -> None:
    assert log_volume(torch.diag(torch.tensor([1.0, 1.0, -1.0]))).isnan()


def test_volumes_of_many_grams_at_once_are_those_of_each() -> None:
    grams = torch.stack([prediction_gram(predictions(20, 4, scale=scale)) for scale in (0.1, 1.0, 10.0)])
    assert torch.allclose(log_volume(grams), torch.stack([log_volume(gram) for gram in grams]))
    values, dropped = reference_log_volume(torch.stack([torch.eye(3), torch.ones(3, 3)]).requires_grad_())
    assert values.tolist() == [0.0, 0.0]
    assert dropped.tolist() == [False, True]


def test_a_gram_that_is_not_finite_gives_nan_rather_than_a_number() -> None:
    assert log_volume(torch.full((2, 2), torch.nan)).isnan()


def test_the_trace_sums_all_diagonals() -> None:
    assert float(confusion_trace(torch.eye(3).expand(4, -1, -1))) == 12

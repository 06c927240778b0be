"""The gathered losses against dense references, reductions and closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from crowdprism.networks import coupled_cross_entropy, losses
from crowdprism.networks.losses import (
    Batch,
    confusion_gram,
    confusion_trace,
    joint_cross_entropy,
    known_cross_entropy,
    label_cross_entropy,
    log_columns,
    log_volume,
    prediction_gram,
    reference_log_volume,
)

N_ITEMS, N_ANNOTATORS, N_CLASSES = 9, 6, 4


def random_problem(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    outputs = torch.randn(N_ITEMS, N_CLASSES, generator=generator, dtype=dtype)
    logits = torch.randn(N_ANNOTATORS, N_CLASSES, N_CLASSES, generator=generator, dtype=dtype)
    table = torch.randint(-1, N_CLASSES, (N_ITEMS, N_ANNOTATORS), generator=generator)
    table[2] = -1  # an item without annotations
    return outputs, logits, table


def dense_loss(outputs: torch.Tensor, logits: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Items x annotators x labels, as published code forms it."""
    predicted = torch.einsum("nk,mkl->nml", outputs.softmax(-1), logits.softmax(-1))
    log_predicted = predicted.log().reshape(-1, N_CLASSES)
    return functional.nll_loss(log_predicted, table.reshape(-1), ignore_index=-1, reduction="sum")


def gathered_loss(outputs: torch.Tensor, logits: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    item, annotator = (table >= 0).nonzero(as_tuple=True)
    columns = log_columns(logits.log_softmax(-1), annotator, table[item, annotator])
    return coupled_cross_entropy(outputs.log_softmax(-1), columns, item)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_the_gathered_loss_and_its_gradients_equal_the_dense_form(dtype: torch.dtype, tolerance: float) -> None:
    outputs, logits, table = random_problem(dtype)
    found = []
    for loss in (dense_loss, gathered_loss):
        leaves = [outputs.clone().requires_grad_(), logits.clone().requires_grad_()]
        value = loss(leaves[0], leaves[1], table)
        value.backward()
        found.append((value.detach() / (table >= 0).sum(), *[leaf.grad for leaf in leaves]))
    for dense, gathered in zip(*found, strict=True):
        assert torch.allclose(dense, gathered, rtol=tolerance, atol=tolerance)


def test_perfect_annotators_reduce_to_plain_cross_entropy() -> None:
    outputs, _, _ = random_problem(torch.float64)
    truth = torch.arange(N_ITEMS) % N_CLASSES
    perfect = torch.eye(N_CLASSES, dtype=torch.float64)[None].log()
    columns = log_columns(perfect, torch.zeros(N_ITEMS, dtype=torch.long), truth)
    plain = functional.cross_entropy(outputs, truth, reduction="sum")
    for loss in (coupled_cross_entropy, joint_cross_entropy):
        assert torch.allclose(loss(outputs.log_softmax(-1), columns, torch.arange(N_ITEMS)), plain, rtol=1e-12)


def test_the_loss_does_not_depend_on_the_order_of_annotations() -> None:
    outputs, logits, table = random_problem(torch.float64)
    item, annotator = (table >= 0).nonzero(as_tuple=True)
    columns = log_columns(logits.log_softmax(-1), annotator, table[item, annotator])
    order = torch.randperm(len(item), generator=torch.Generator().manual_seed(0))
    for loss in (coupled_cross_entropy, joint_cross_entropy):
        first = loss(outputs.log_softmax(-1), columns, item)
        assert torch.allclose(first, loss(outputs.log_softmax(-1), columns[order], item[order]), rtol=1e-12)


def test_the_joint_loss_equals_the_sum_over_classes_of_products() -> None:
    outputs, logits, table = random_problem(torch.float64)
    confusions, probabilities = logits.softmax(-1), outputs.softmax(-1)
    slow = 0.0
    for n in range(N_ITEMS):
        product = probabilities[n].clone()
        n_labels = max(1, int((table[n] >= 0).sum()))
        for m in range(N_ANNOTATORS):
            if table[n, m] >= 0:
                product *= confusions[m, :, table[n, m]] ** n_labels**-0.5
        slow -= float(product.sum().log())
    item, annotator = (table >= 0).nonzero(as_tuple=True)
    columns = log_columns(logits.log_softmax(-1), annotator, table[item, annotator])
    assert float(joint_cross_entropy(outputs.log_softmax(-1), columns, item, temper=0.5)) == pytest.approx(slow)


def test_joint_and_coupled_agree_where_every_item_has_one_annotation() -> None:
    outputs, logits, _ = random_problem(torch.float64)
    item = torch.arange(N_ITEMS)
    columns = log_columns(logits.log_softmax(-1), item % N_ANNOTATORS, item % N_CLASSES)
    coupled = coupled_cross_entropy(outputs.log_softmax(-1), columns, item)
    for temper in (1.0, 0.5):
        joint = joint_cross_entropy(outputs.log_softmax(-1), columns, item, temper=temper)
        assert torch.allclose(coupled, joint, rtol=1e-12)


def test_a_batch_without_annotations_has_loss_zero() -> None:
    outputs, logits, _ = random_problem(torch.float64)
    none = torch.empty(0, dtype=torch.long)
    columns = log_columns(logits.log_softmax(-1), none, none)
    for loss in (coupled_cross_entropy, joint_cross_entropy):
        assert float(loss(outputs.log_softmax(-1), columns, none)) == pytest.approx(0.0, abs=1e-12)


def test_a_weight_of_two_counts_an_annotation_twice() -> None:
    outputs, logits, _ = random_problem(torch.float64)
    item, annotator, label = torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([1, 0])
    log_confusions = logits.log_softmax(-1)
    repeat = torch.tensor([0, 0, 1])
    for loss in (coupled_cross_entropy, joint_cross_entropy):
        weighted = loss(
            outputs.log_softmax(-1),
            log_columns(log_confusions, annotator, label),
            item,
            torch.tensor([2.0, 1.0]).double(),
        )
        repeated = loss(
            outputs.log_softmax(-1), log_columns(log_confusions, annotator[repeat], label[repeat]), item[repeat]
        )
        assert torch.allclose(weighted, repeated, rtol=1e-12)


def test_columns_of_many_classes_equal_plain_indexing_with_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    annotator, label = torch.tensor([2, 0, 2, 1]), torch.tensor([7, 39, 7, 0])
    found = []
    for gather in (log_columns, lambda table, m, y: table[m, :, y]):
        table = torch.randn(3, 40, 40, generator=generator.manual_seed(0), requires_grad=True)
        columns = gather(table, annotator, label)
        columns.square().sum().backward()
        found.append((columns.detach(), table.grad))
    assert all(torch.equal(first, second) for first, second in zip(*found, strict=True))


@pytest.mark.parametrize("n_annotations", [100, 2 * losses.PARALLEL_FROM // N_CLASSES])
def test_two_threads_add_up_the_gradient_of_columns_in_the_same_order_each_time(n_annotations: int) -> None:
    generator = torch.Generator().manual_seed(0)
    annotator = torch.randint(N_ANNOTATORS, (n_annotations,), generator=generator)
    label = torch.randint(N_CLASSES, (n_annotations,), generator=generator)
    weight = torch.randn(n_annotations, N_CLASSES, generator=generator)
    start = torch.randn(N_ANNOTATORS, N_CLASSES, N_CLASSES, generator=generator)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    found = []
    for _ in range(20):
        table = start.clone().requires_grad_()
        log_columns(table, annotator, label).backward(weight)
        found.append(table.grad)
    torch.set_num_threads(before)
    assert all(torch.equal(found[0], other) for other in found)
    exact = torch.zeros(start.shape, dtype=torch.float64)
    place = (annotator[:, None], torch.arange(N_CLASSES), label[:, None])
    exact.index_put_(place, weight.double(), accumulate=True)
    assert torch.allclose(found[0].double(), exact, atol=1e-3)


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


def test_a_mixture_of_known_classes_counts_each_by_its_share() -> None:
    log_probs = torch.tensor([[0.7, 0.3], [0.4, 0.6]]).log()
    one = torch.zeros(2, dtype=torch.int64)
    batch = Batch(log_probs, one, one, one, one, None, 2.0, 2, one, gold=torch.tensor([0, 1]))
    mixed = replace(batch, partner=torch.tensor([1, 0]), share=torch.tensor([0.75, 0.75]))
    expected = -sum(0.75 * math.log(own) + 0.25 * math.log(other) for own, other in ((0.7, 0.3), (0.6, 0.4)))
    assert float(known_cross_entropy(log_probs, mixed)) == pytest.approx(expected)


def test_the_loss_of_labels_is_the_sum_over_annotations() -> None:
    shares = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], dtype=torch.float64)
    label = torch.tensor([1, 2])
    assert label_cross_entropy(shares.log(), label).item() == pytest.approx(-math.log(0.25) - math.log(0.7))
    weighted = label_cross_entropy(shares.log(), label, torch.tensor([2.0, 0.5]))
    assert weighted.item() == pytest.approx(-2 * math.log(0.25) - 0.5 * math.log(0.7))


def test_the_gradient_of_many_grams_with_a_large_jitter_matches_finite_differences() -> None:
    factors = torch.rand(3, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    grams = (factors @ factors.mT).requires_grad_()
    assert torch.autograd.gradcheck(lambda given: log_volume(given, jitter=0.5), grams)

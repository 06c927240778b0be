"""The gathered losses against dense references, reductions and closed forms."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from crowdprism.networks import coupled_cross_entropy, joint_cross_entropy, log_columns, losses

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

"""Losses over observed annotations only: cost follows the annotations of a batch, never items x annotators.

Gradients are written out. All they need is the posterior of the hidden class given the labels, and a step of a small
network would otherwise spend a tenth of its time on the bookkeeping of automatic differentiation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def column_cells(
    annotator: Tensor,  # (annotation,)
    label: Tensor,  # (annotation,)
    n_classes: int,
) -> Tensor:
    """(annotation, true class) positions of each annotation's column among the flattened confusions."""
    true_class = torch.arange(0, n_classes**2, n_classes, device=label.device)
    return torch.add(label, annotator, alpha=n_classes**2).unsqueeze(1) + true_class


def log_columns(
    log_confusions: Tensor,  # (annotator, true class, given label), rows sum to one
    annotator: Tensor,  # (annotation,)
    label: Tensor,  # (annotation,)
) -> Tensor:
    """Return log P(annotator gives this label | true class) for each annotation: (annotation, true class)."""
    n_classes = log_confusions.shape[-1]
    # The gradient of a flat gather is far cheaper than that of mixed indexing.
    cell = column_cells(annotator, label, n_classes)
    return log_confusions.flatten().gather(0, cell.flatten()).view(-1, n_classes)


class _SoftmaxColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, annotator: Tensor, label: Tensor) -> Tensor:
        log_confusions = torch.log_softmax(logits, dim=-1)
        cell = column_cells(annotator, label, logits.shape[-1])
        ctx.save_for_backward(log_confusions, annotator, cell)
        return log_confusions.view(-1).gather(0, cell.view(-1)).view(cell.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        log_confusions, annotator, cell = ctx.saved_tensors
        total = gradient.new_zeros(log_confusions.shape[:2]).index_add_(0, annotator, gradient, alpha=-1)
        whole = log_confusions.exp().mul_(total.unsqueeze(2))
        whole.view(-1).scatter_add_(0, cell.view(-1), gradient.reshape(-1))
        return whole, None, None


def softmax_columns(
    logits: Tensor,  # (annotator, true class, given label)
    annotator: Tensor,  # (annotation,)
    label: Tensor,  # (annotation,)
) -> Tensor:
    """Return `log_columns` of the row softmax of logits.

    Examples
    --------
    >>> softmax_columns(torch.zeros(1, 2, 2), torch.tensor([0]), torch.tensor([1])).exp().tolist()
    [[0.5, 0.5]]
    """
    columns: Tensor = _SoftmaxColumns.apply(logits, annotator, label)  # type: ignore[no-untyped-call]
    return columns


class _CoupledCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_class_probs: Tensor, columns: Tensor, item: Tensor, weight: Tensor | None) -> Tensor:
        joint = log_class_probs.index_select(0, item).add_(columns)
        log_likelihood = torch.logsumexp(joint, dim=1)
        posterior = joint.sub_(log_likelihood.unsqueeze(1)).exp_()
        if weight is not None:
            log_likelihood = log_likelihood * weight
            posterior.mul_(weight.unsqueeze(1))
        ctx.save_for_backward(posterior, item)
        ctx.n_rows = len(log_class_probs)
        return -log_likelihood.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        posterior, item = ctx.saved_tensors
        by_annotation = posterior * -gradient
        by_item = posterior.new_zeros(ctx.n_rows, posterior.shape[1]).index_add_(0, item, by_annotation)
        return by_item, by_annotation, None, None


def coupled_cross_entropy(
    log_class_probs: Tensor,  # (batch, true class)
    columns: Tensor,  # (annotation, true class), from log_columns
    item: Tensor,  # (annotation,) row of log_class_probs
    weight: Tensor | None = None,  # (annotation,)
) -> Tensor:
    """Sum over annotations of -log P(annotator gives label | item's features), Ibrahim et al. 2023, equation (6).

    Returns a sum, not a mean: processes hold unequal numbers of annotations, so only the training loop knows the
    right denominator.

    Examples
    --------
    >>> sure = torch.tensor([[0.9, 0.1]]).log()
    >>> perfect = log_columns(torch.eye(2)[None].log(), torch.tensor([0]), torch.tensor([0]))
    >>> round(float(coupled_cross_entropy(sure, perfect, torch.tensor([0]))), 4)  # -log 0.9
    0.1054
    """
    loss: Tensor = _CoupledCrossEntropy.apply(log_class_probs, columns, item, weight)  # type: ignore[no-untyped-call]
    return loss


class _JointLogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_class_probs: Tensor, columns: Tensor, group: Tensor, exponent: Tensor | None) -> Tensor:
        evidence = columns if exponent is None else columns * exponent
        joint = log_class_probs.index_add(0, group, evidence)
        log_likelihood = torch.logsumexp(joint, dim=1)
        ctx.save_for_backward(joint.sub_(log_likelihood.unsqueeze(1)).exp_(), group, exponent)
        return log_likelihood

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        posterior, group, exponent = ctx.saved_tensors
        by_group = posterior * gradient.unsqueeze(1)
        by_annotation = by_group.index_select(0, group)
        return by_group, by_annotation if exponent is None else by_annotation.mul_(exponent), None, None


def joint_log_likelihood(
    log_class_probs: Tensor,  # (group, true class)
    columns: Tensor,  # (annotation, true class)
    group: Tensor,  # (annotation,)
    weight: Tensor | None = None,  # (annotation,)
    *,
    temper: float = 1.0,
) -> Tensor:
    """(group,) log Σ_k f_k Π_m C_m[k, label], tempered as `joint_cross_entropy` says; 0 without annotations."""
    exponent = weight
    if temper != 1.0:
        counted = torch.ones_like(columns[:, 0]) if weight is None else weight
        total = counted.new_zeros(len(log_class_probs)).index_add_(0, group, counted)
        discount = total.clamp_min_(1.0).pow_(temper - 1.0).index_select(0, group)
        exponent = discount if weight is None else discount * weight
    likelihood: Tensor = _JointLogLikelihood.apply(  # type: ignore[no-untyped-call]
        log_class_probs, columns, group, None if exponent is None else exponent.unsqueeze(1)
    )
    return likelihood


def joint_cross_entropy(
    log_class_probs: Tensor,  # (group, true class)
    columns: Tensor,  # (annotation, true class), from log_columns
    group: Tensor,  # (annotation,) row of log_class_probs
    weight: Tensor | None = None,  # (annotation,) exponents of the evidence
    *,
    temper: float = 1.0,
    group_weight: Tensor | None = None,  # (group,)
) -> Tensor:
    """Sum over items of -log Σ_k f_k Π_m C_m[k, label]: annotators err independently given the class.

    With `temper` below 1 the n annotations of an item count as n^temper independent ones, for crowds whose errors are
    not independent: each gets the exponent n^(temper - 1). A single annotation always counts in full, because a
    tempered likelihood of one label rewards confusions that say nothing. Items without annotations contribute nothing.
    Equals `coupled_cross_entropy` where every item has one annotation.

    Examples
    --------
    >>> sure = torch.tensor([[0.9, 0.1]]).log()
    >>> perfect = log_columns(torch.eye(2)[None].log(), torch.tensor([0, 0]), torch.tensor([0, 0]))
    >>> round(float(joint_cross_entropy(sure, perfect, torch.tensor([0, 0]))), 4)
    0.1054
    """
    log_likelihood = joint_log_likelihood(log_class_probs, columns, group, weight, temper=temper)
    if group_weight is not None:
        log_likelihood = log_likelihood * group_weight
    return -log_likelihood.sum()


def label_cross_entropy(
    log_label_probs: Tensor,  # (annotation, given label)
    label: Tensor,  # (annotation,)
    weight: Tensor | None = None,  # (annotation,)
) -> Tensor:
    """Sum over annotations of -log P(label).

    Examples
    --------
    >>> round(float(label_cross_entropy(torch.tensor([[0.9, 0.1]]).log(), torch.tensor([0]))), 4)
    0.1054
    """
    chosen = log_label_probs.gather(1, label.unsqueeze(1)).sum(dim=1)
    return -chosen.sum() if weight is None else -(chosen * weight).sum()

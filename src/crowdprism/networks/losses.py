"""Losses over observed annotations only: cost follows the annotations of a batch, never items x annotators."""

from __future__ import annotations

import torch
from torch import Tensor

FLAT_FROM = 33  # classes


def log_columns(
    log_confusions: Tensor,  # (annotator, true class, given label), rows sum to one
    annotator: Tensor,  # (annotation,)
    label: Tensor,  # (annotation,)
) -> Tensor:
    """Return log P(annotator gives this label | true class) for each annotation: (annotation, true class)."""
    n_classes = log_confusions.shape[-1]
    if n_classes < FLAT_FROM:
        return log_confusions[annotator, :, label]
    # For large matrices the gradient of a flat gather is far cheaper than that of mixed indexing.
    true_class = torch.arange(0, n_classes**2, n_classes, device=label.device)
    cell = (annotator * n_classes**2 + label).unsqueeze(1) + true_class
    return log_confusions.flatten().gather(0, cell.flatten()).view(-1, n_classes)


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
    log_likelihood = torch.logsumexp(log_class_probs.index_select(0, item) + columns, dim=1)
    if weight is not None:
        log_likelihood = log_likelihood * weight
    return -log_likelihood.sum()


def joint_log_likelihood(
    log_class_probs: Tensor,  # (group, true class)
    columns: Tensor,  # (annotation, true class)
    group: Tensor,  # (annotation,)
    weight: Tensor | None = None,  # (annotation,)
    *,
    temper: float = 1.0,
) -> Tensor:
    """(group,) log Σ_k f_k Π_m C_m[k, label], tempered as `joint_cross_entropy` says; 0 without annotations."""
    if weight is not None:
        columns = columns * weight.unsqueeze(1)
    if temper == 1.0:
        log_joint = log_class_probs.index_add(0, group, columns)
    else:
        counted = torch.ones_like(columns[:, 0]) if weight is None else weight
        total = torch.zeros_like(log_class_probs[:, 0]).index_add(0, group, counted)
        discount = total.clamp_min(1.0).pow(temper - 1.0)
        log_joint = log_class_probs.index_add(0, group, columns * discount.index_select(0, group).unsqueeze(1))
    return torch.logsumexp(log_joint, dim=1)


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

"""The two halves of Dawid and Skene's EM on flat annotations in torch, for methods in which a network is the prior."""

from __future__ import annotations

import torch
from torch import Tensor


def expected_counts(
    class_probs: Tensor,  # (n_items, true class)
    item: Tensor,  # (annotation,)
    annotator: Tensor,  # (annotation,)
    label: Tensor,  # (annotation,)
    weight: Tensor | None,  # (annotation,)
    n_annotators: int,
) -> Tensor:
    """Expected number of (true class, given label) pairs per annotator: (annotator, true class, given label).

    Examples
    --------
    >>> one = torch.tensor([0])
    >>> expected_counts(torch.tensor([[0.25, 0.75]]), one, one, one, None, 1)[0].tolist()
    [[0.25, 0.0], [0.75, 0.0]]
    """
    n_classes = class_probs.shape[1]
    mass = class_probs.index_select(0, item)
    if weight is not None:
        mass = mass * weight.unsqueeze(1)
    counts = class_probs.new_zeros(n_annotators * n_classes, n_classes)
    counts.index_add_(0, annotator * n_classes + label, mass)
    return counts.view(n_annotators, n_classes, n_classes).transpose(1, 2).contiguous()


def counted_confusions(counts: Tensor, smoothing: float) -> Tensor:
    """Rows of counts as probabilities, with `smoothing` added to each entry; rows without any count are uniform."""
    lifted = counts + smoothing
    total = lifted.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, lifted / total.clamp_min(torch.finfo(lifted.dtype).tiny), 1.0 / counts.shape[-1])


def log_posterior(
    log_prior: Tensor,  # (n_items, true class)
    confusions: Tensor,  # (annotator, true class, given label)
    item: Tensor,
    annotator: Tensor,
    label: Tensor,
    weight: Tensor | None,
    *,
    smallest: float,
) -> Tensor:
    """Log of prior times all annotators' evidence, normalised per item; probabilities below `smallest` count as it."""
    columns = confusions[annotator, :, label].clamp_min(smallest).log()
    if weight is not None:
        columns = columns * weight.unsqueeze(1)
    return torch.log_softmax(log_prior.index_add(0, item, columns), dim=1)

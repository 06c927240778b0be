"""Losses over observed annotations only: cost follows the annotations of a batch, never items x annotators.

`Batch` is what one training step sees. There are the two halves of Dawid and Skene's EM, for methods in which a network
is the prior, and the volume terms of GeoCrowdNet: Ibrahim, Nguyen and Fu (ICLR 2023) maximise log det(F Fᵀ) over the
predictions or log det(Wᵀ W) over the stacked confusions, both functions of an n_classes x n_classes Gram matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

PARALLEL_FROM = 2**15  # numbers from which on torch's threads add up the gradient of plain indexing in any order


@dataclass(frozen=True)
class Batch:
    """Items of one step with their annotations, as flat tensors.

    Annotations that are evidence about one item share a `group`, by default the row; mixup makes two weighted groups.
    """

    features: Tensor  # (batch, ...) what the network sees
    index: Tensor  # (batch,) position of each row among the training items
    item: Tensor  # (annotation,) row of the batch
    annotator: Tensor  # (annotation,)
    label: Tensor  # (annotation,)
    weight: Tensor | None  # (annotation,) or None where all count 1
    count: float  # sum of the weights, for a mean per annotation; not zero even for a batch without annotations
    n_labelled: int  # items with annotations, for a mean per item; at least 1
    annotation: Tensor  # positions among all training annotations, each once
    group: Tensor | None = None  # (annotation,)
    group_row: Tensor | None = None  # (group,) row of the batch
    group_weight: Tensor | None = None  # (group,)
    evidence_weight: Tensor | None = None  # (annotation,)
    partner: Tensor | None = None  # (annotation,) that each is mixed with, where rows are single annotations
    share: Tensor | None = None  # (annotation,) its own part in that mixture
    gold: Tensor | None = None  # (batch,) known true class of each row, -1 where unknown

    @cached_property
    def _distinct(self) -> tuple[Tensor, Tensor]:
        touched, place = torch.unique(self.annotator, return_inverse=True)
        return touched, place

    @property
    def touched(self) -> Tensor:
        """The distinct annotators of the batch, in ascending order."""
        return self._distinct[0]

    @property
    def place(self) -> Tensor:
        """(annotation,) position of each annotation's annotator in `touched`."""
        return self._distinct[1]


def log_rows(logits: Tensor) -> Tensor:
    """Log softmax over the last axis of tables (annotator, true class, given label).

    Given labels come first in memory: over a few numbers that stand together, torch's softmax is several times slower.
    """
    return torch.log_softmax(logits.movedim(-1, 0).contiguous(), dim=0).movedim(0, -1)


def log_columns(
    log_confusions: Tensor,  # (annotator, true class, given label), rows sum to one
    annotator: Tensor,  # (annotation,)
    label: Tensor,  # (annotation,)
) -> Tensor:
    """Return log P(annotator gives this label | true class) for each annotation: (annotation, true class)."""
    n_classes = log_confusions.shape[-1]
    if label.numel() * n_classes < PARALLEL_FROM:
        return log_confusions[annotator, :, label]
    true_class = torch.arange(0, n_classes**2, n_classes, device=label.device)
    cell = torch.add(label, annotator, alpha=n_classes**2).unsqueeze(1) + true_class
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
    """
    log_likelihood = torch.logsumexp(log_class_probs.index_select(0, item) + columns, dim=1)
    return -(log_likelihood if weight is None else log_likelihood * weight).sum()


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

    With `temper` below 1 each of n annotations gets the exponent n^(temper - 1). A single one counts in full, because
    a tempered likelihood of one label rewards confusions that say nothing.
    """
    exponent = weight
    if temper != 1.0:
        counted = columns.new_ones(len(group)) if weight is None else weight
        total = counted.new_zeros(len(log_class_probs)).index_add_(0, group, counted)
        discount = total.clamp_min_(1.0).pow_(temper - 1.0).index_select(0, group)
        exponent = discount if weight is None else discount * weight
    evidence = columns if exponent is None else columns * exponent.unsqueeze(1)
    log_likelihood = torch.logsumexp(log_class_probs.index_add(0, group, evidence), dim=1)
    return -(log_likelihood if group_weight is None else log_likelihood * group_weight).sum()


def label_cross_entropy(
    log_label_probs: Tensor,  # (annotation, given label)
    label: Tensor,  # (annotation,)
    weight: Tensor | None = None,  # (annotation,)
) -> Tensor:
    """Sum over annotations of -log P(label)."""
    chosen = log_label_probs.gather(1, label.unsqueeze(1)).sum(dim=1)
    return -chosen.sum() if weight is None else -(chosen * weight).sum()


def soft_cross_entropy(log_class_probs: Tensor, targets: Tensor, weight: Tensor | None = None) -> Tensor:
    """Sum over rows of -Σ_k target_k log f_k."""
    each = -(targets * log_class_probs).sum(dim=1)
    return each.sum() if weight is None else (weight * each).sum()


def known_cross_entropy(log_class_probs: Tensor, batch: Batch) -> Tensor:
    """Sum over the rows of known true class of -log f_class; a mixture of two items counts for both by their shares."""
    assert batch.gold is not None
    gold, weight = batch.gold, torch.ones_like(log_class_probs[:, 0])
    if batch.group_row is not None and batch.group_weight is not None:
        log_class_probs, gold, weight = log_class_probs[batch.group_row], gold.repeat(2), batch.group_weight
    elif batch.partner is not None and batch.share is not None:
        log_class_probs, gold = log_class_probs.repeat(2, 1), torch.cat([gold, gold[batch.partner]])
        weight = torch.cat([batch.share, 1 - batch.share])
    chosen = log_class_probs.gather(1, gold.clamp_min(0).unsqueeze(1)).sum(dim=1)
    return -(chosen * weight * (gold >= 0)).sum()


def expected_counts(
    class_probs: Tensor,  # (n_items, true class)
    item: Tensor,  # (annotation,)
    annotator: Tensor,  # (annotation,)
    label: Tensor,  # (annotation,)
    weight: Tensor | None,  # (annotation,)
    n_annotators: int,
) -> Tensor:
    """Expected number of (true class, given label) pairs per annotator: (annotator, true class, given label)."""
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


RELATIVE_JITTER = 1e-6  # in float64: far above rounding, far below any eigenvalue that matters
REFERENCE_LIMIT = 100.0  # the authors' code drops the term above this value


class _LogDeterminant(torch.autograd.Function):
    """log det(G + share tr(G) I) of Gram matrices, with its gradient in one step: half the time of autograd's own."""

    @staticmethod
    def forward(ctx: Any, gram: Tensor, share: float) -> Tensor:
        lifted = gram.clone()
        diagonal = lifted.diagonal(dim1=-2, dim2=-1)
        tiny = torch.finfo(gram.dtype).tiny ** 0.5  # an all-zero Gram has no trace to scale the jitter
        diagonal += share * (diagonal.sum(dim=-1, keepdim=True) + tiny)
        ctx.save_for_backward(lifted)
        ctx.share = share
        return torch.logdet(lifted)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        slope = torch.linalg.inv_ex(*ctx.saved_tensors).inverse
        diagonal = slope.diagonal(dim1=-2, dim2=-1)
        diagonal += ctx.share * diagonal.sum(dim=-1, keepdim=True)
        return slope * gradient[..., None, None], None


def log_volume(gram: Tensor, *, jitter: float = RELATIVE_JITTER) -> Tensor:
    """Return log det of a Gram matrix in float64; finite, with a finite gradient, also where the rank is deficient.

    The Gram is (..., n_classes, n_classes), positive semidefinite; `jitter` times its mean diagonal is added to it.
    NaN where the matrix is not finite, or so far from positive that the jitter does not mend it.
    """
    value: Tensor = _LogDeterminant.apply(gram.double(), jitter / gram.shape[-1])  # type: ignore[no-untyped-call]
    return value


def reference_log_volume(gram: Tensor) -> tuple[Tensor, Tensor]:
    """log det as in the authors' code, 0 where it is dropped: -log det not finite or above 100; and whether it was."""
    with torch.no_grad():
        value = torch.log(torch.det(gram))
        dropped = ~torch.isfinite(value) | (-value > REFERENCE_LIMIT)
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)  # log det 0, and no gradient
    return torch.log(torch.det(torch.where(dropped[..., None, None], identity, gram))), dropped


def prediction_gram(class_probs: Tensor) -> Tensor:
    """Return Σ_n f_n f_nᵀ of a batch in float64: (..., batch, n_classes) -> (..., n_classes, n_classes)."""
    wide = class_probs.double()
    return wide.mT @ wide


def confusion_gram(confusions: Tensor) -> Tensor:
    """Σ_m C_m C_mᵀ (the paper's Wᵀ W) in float64: (..., annotator, true class, given label) -> (..., true, true)."""
    stacked = confusions.double().transpose(-3, -2).flatten(-2)
    return stacked @ stacked.mT


def confusion_trace(confusions: Tensor) -> Tensor:
    """Sum of all diagonals, the penalty of Tanno et al. (CVPR 2019)."""
    return confusions.diagonal(dim1=-2, dim2=-1).sum()

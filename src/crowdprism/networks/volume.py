"""The volume terms of GeoCrowdNet: how far class probabilities or confusions spread, as log det of a Gram matrix.

Ibrahim, Nguyen and Fu (ICLR 2023) maximise log det(F Fᵀ) over the predictions or log det(Wᵀ W) over the stacked
confusions. Both are functions of an n_classes x n_classes Gram matrix, which is all that is handled here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

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

    NaN where the matrix is not finite, or so far from positive that the jitter does not mend it; training then stops
    and says at which step.

    The Gram is (..., n_classes, n_classes), positive semidefinite; `jitter` times its mean diagonal is added to it.

    Examples
    --------
    >>> round(float(log_volume(4.0 * torch.eye(2, dtype=torch.float64))), 4)  # 2 log 4
    2.7726
    >>> bool(log_volume(torch.ones(3, 3)).isfinite())
    True
    """
    value: Tensor = _LogDeterminant.apply(gram.double(), jitter / gram.shape[-1])  # type: ignore[no-untyped-call]
    return value


def reference_log_volume(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Return log det as the authors' code does: no jitter, and 0 where -log det is NaN, infinite or above 100.

    The second value tells for each Gram whether the term was dropped. Only for comparison: it switches the term off
    exactly when the predictions have collapsed.
    """
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
    """Return Σ_m C_m C_mᵀ in float64: (..., annotator, true class, given label) -> (..., true class, true class).

    In the paper's orientation (transposed confusions A_m) this is Σ_m A_mᵀ A_m = Wᵀ W.
    """
    stacked = confusions.double().transpose(-3, -2).flatten(-2)
    return stacked @ stacked.mT


def confusion_trace(confusions: Tensor) -> Tensor:
    """Sum of all diagonals, the penalty of Tanno et al. (CVPR 2019)."""
    return confusions.diagonal(dim1=-2, dim2=-1).sum()

"""The volume terms of GeoCrowdNet: how far class probabilities or confusions spread, as log det of a Gram matrix.

Ibrahim, Nguyen and Fu (ICLR 2023) maximise log det(F Fᵀ) over the predictions or log det(Wᵀ W) over the stacked
confusions. Both are functions of an n_classes x n_classes Gram matrix, which is all that is handled here.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

RELATIVE_JITTER = 1e-6  # in float64: far above rounding, far below any eigenvalue that matters
FALLBACK_JITTER = 1e-4  # for Grams that were summed in float32 and are nearly of rank one
REFERENCE_LIMIT = 100.0  # the authors' code drops the term above this value


class _LogVolume(torch.autograd.Function):
    """log det(G + eps tr(G)/K I) with its exact gradient, from one Cholesky factor."""

    @staticmethod
    def forward(ctx: Any, gram: Tensor, jitter: float) -> Tensor:
        factor, used = _factor(gram, jitter)
        ctx.save_for_backward(factor)
        ctx.share = used / gram.shape[-1]
        return _value(factor)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return grad_outputs[0][..., None, None] * _slope(factor, ctx.share), None


def _value(factor: Tensor) -> Tensor:
    return 2.0 * _diagonal(factor).log().sum(dim=-1)


def _slope(factor: Tensor, share: float) -> Tensor:
    inverse = torch.cholesky_inverse(factor)
    diagonal = _diagonal(inverse)
    diagonal.add_(diagonal.sum(dim=-1, keepdim=True), alpha=share)  # the jitter follows the trace
    return inverse


def _diagonal(matrices: Tensor) -> Tensor:
    """(..., n, n) -> a view of the diagonals (..., n)."""
    return matrices.diagonal(dim1=-2, dim2=-1)


def _factor(gram: Tensor, jitter: float) -> tuple[Tensor, float]:
    """Return the Cholesky factor of the jittered Gram and the relative jitter that was needed."""
    tiny = torch.finfo(gram.dtype).tiny ** 0.5  # an all-zero Gram has no trace to scale the jitter
    for used in (jitter, max(jitter, FALLBACK_JITTER)):
        lifted = gram.clone()
        _diagonal(lifted).add_(used * _diagonal(gram).mean(dim=-1, keepdim=True) + tiny)
        factor, failed = torch.linalg.cholesky_ex(lifted)
        if not failed.any():
            return factor, used
    # Neither worked: the Gram is not positive (or not finite). Its factor would be NaN; let the loop say where.
    return torch.full_like(gram, torch.nan), jitter


def log_volume(gram: Tensor, *, jitter: float = RELATIVE_JITTER) -> Tensor:
    """Return log det of a Gram matrix in float64; finite, with a finite gradient, also where the rank is deficient.

    Parameters
    ----------
    gram
        (..., n_classes, n_classes), positive semidefinite.
    jitter
        Share of the mean diagonal that is added to the diagonal.

    Examples
    --------
    >>> round(float(log_volume(4.0 * torch.eye(2, dtype=torch.float64))), 4)  # 2 log 4
    2.7726
    >>> bool(log_volume(torch.ones(3, 3)).isfinite())
    True
    """
    volume: Tensor = _LogVolume.apply(gram.double(), jitter)  # type: ignore[no-untyped-call]
    return volume


class _KnownGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, argument: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_outputs[0].to(gradient.dtype), None, None


def known_gradient(argument: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
    """Return `value` as a function of `argument` with the given gradient."""
    known: Tensor = _KnownGradient.apply(argument, value.detach(), gradient)  # type: ignore[no-untyped-call]
    return known


@torch.no_grad()
def volume_and_slope(gram: Tensor, *, jitter: float = RELATIVE_JITTER) -> tuple[Tensor, Tensor]:
    """Return `log_volume` of a float64 Gram and its gradient by the Gram."""
    factor, used = _factor(gram, jitter)
    return _value(factor), _slope(factor, used / gram.shape[-1])


def prediction_volume(log_class_probs: Tensor) -> Tensor:
    """Return log det Σ_n f_n f_nᵀ of a batch: `log_volume(prediction_gram(f))`, with the gradient written out.

    Examples
    --------
    >>> even = torch.full((4, 2), 0.5).log()
    >>> bool(prediction_volume(even) < prediction_volume(torch.eye(2).clamp_min(1e-9).log()))
    True
    """
    with torch.no_grad():
        class_probs = log_class_probs.double().exp_()
        value, slope = volume_and_slope(class_probs.T @ class_probs)
        gradient = torch.mm(class_probs, slope).mul_(class_probs).mul_(2.0).to(log_class_probs.dtype)
    return known_gradient(log_class_probs, value, gradient)


def reference_log_volume(gram: Tensor) -> tuple[Tensor, bool]:
    """Return log det as the authors' code does: no jitter, and 0 where -log det is NaN, infinite or above 100.

    The second value tells whether the term was dropped. Only for comparison: it switches the term off exactly when
    the predictions have collapsed.
    """
    value = torch.log(torch.det(gram))
    found = value.item()
    if not math.isfinite(found) or -found > REFERENCE_LIMIT:
        return gram.new_zeros(()), True
    return value, False


def prediction_gram(class_probs: Tensor) -> Tensor:
    """Return Σ_n f_n f_nᵀ of a batch in float64: (batch, n_classes) -> (n_classes, n_classes)."""
    wide = class_probs.double()
    return wide.T @ wide


def confusion_gram(confusions: Tensor) -> Tensor:
    """Return Σ_m C_m C_mᵀ: (annotator, true class, given label) -> (true class, true class).

    In the paper's orientation (transposed confusions A_m) this is Σ_m A_mᵀ A_m = Wᵀ W.
    """
    stacked = confusions.transpose(0, 1).flatten(1)
    return stacked @ stacked.T


def confusion_trace(confusions: Tensor) -> Tensor:
    """Sum of all diagonals, the penalty of Tanno et al. (CVPR 2019)."""
    return confusions.diagonal(dim1=-2, dim2=-1).sum()

"""One training step's crowd arithmetic as compiled loops on the CPU: the same numbers, without fifty small operations.

A step of a small network takes ten milliseconds, a small torch operation ten microseconds or more; the loss of a crowd
made of dozens of them, with their bookkeeping, would cost a sixth of the step. `losses`, `volume` and
`crowdprism.training.RowAdam` say what is computed, run on any device and are what these loops are tested against.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crowdprism.machine_code import Kernels
from crowdprism.networks.volume import FALLBACK_JITTER, RELATIVE_JITTER

THREADED_FROM = 2**19  # numbers in the rows of a step, from which on threads share them
KERNELS = Kernels(
    "crowdprism.networks.step_sources",
    {
        "step": "f4 f4 i8 i8 i8 f4 n n n n n n n n f8 f8 f8 f8 f8 f8 f8 f4 f4 f4 f8",
        "scale_rows": "f4 f4 n n n",
        "subtract_columns": "f4 i8 i8 f4 n n",
        "add_pull": "f4 f4 f4 f8 n n n",
        "gather": "i8 i8 i8 i8 i8 n i8 i8 i8 i8 i8 i8 i8 i8",
        "adam_rows": "f4 f4 f4 i4 i8 f4 f8 n n n n",
        "adam_tensors": "i8 i8 f4 f8 n n",
    },
)
TYPES = {"f4": torch.float32, "f8": torch.float64, "i4": torch.int32, "i8": torch.int64, "n": None}
SIGNATURES = {name: [TYPES[code] for code in codes] for name, codes in KERNELS.signatures.items()}
NO_WEIGHT = torch.empty(0)
LEAST_JITTER = float(np.finfo(np.float64).tiny ** 0.5)  # an all-zero Gram has no trace to scale the jitter


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="crowdprism-step")


def run(name: str, *arguments: Tensor | int) -> None:
    """Run a kernel on tensors and whole numbers. Tensors, because NumPy takes 3 microseconds to tell an address."""
    ready = []
    for argument, wanted in zip(arguments, SIGNATURES[name], strict=True):
        if not isinstance(argument, Tensor):
            ready.append(argument)
            continue
        assert argument.dtype is wanted, f"{name}: {argument.dtype} in place of {wanted}"
        assert argument.is_contiguous()
        ready.append(argument.data_ptr())
    KERNELS.run(name, *ready)


def in_threads(size: int) -> bool:
    """Whether threads should share rows of so many numbers."""
    return size >= THREADED_FROM and torch.get_num_threads() > 1


def over_rows(name: str, *arguments: Any, n_rows: int, size: int) -> None:
    """Run a kernel whose last arguments are the first row and the row to stop before, in threads where it pays."""
    if not in_threads(size):
        run(name, *arguments, 0, n_rows)
        return
    threads = torch.get_num_threads()
    cuts = np.linspace(0, n_rows, threads + 1).astype(int).tolist()
    list(_pool(threads).map(lambda first, last: run(name, *arguments, first, last), cuts[:-1], cuts[1:]))


@dataclass(frozen=True)
class CrowdStep:
    """What `crowd_step` returns: the mean loss, the volume of the predictions, and the gradients of both together."""

    loss: float
    volume: float
    by_output: Tensor  # (batch, true class)
    by_logit: Tensor  # (rows, true class, given label)


def crowd_step(
    outputs: Tensor,  # (batch, true class) of the network, before the softmax
    confusions: Tensor,  # (rows, true class, given label); its memory becomes the gradient by logits
    place: Tensor,  # (annotation,) row of confusions
    label: Tensor,  # (annotation,)
    item: Tensor,  # (annotation,) row of outputs
    weight: Tensor | None = None,  # (annotation,)
    *,
    count: float,
    temper: float | None = None,
    volume: float = 0.0,
) -> CrowdStep:
    """Mean loss over `count`, less `volume` times the volume of the predictions, with gradients.

    The loss is `coupled_cross_entropy` or, with a `temper`, `joint_cross_entropy`; confusions are the row softmax of
    the logits whose gradient is returned.

    Examples
    --------
    >>> one = torch.zeros(1, dtype=torch.long)
    >>> step = crowd_step(torch.zeros(1, 2), torch.full((1, 2, 2), 0.5), one, one, one, count=1.0)
    >>> round(step.loss, 4)
    0.6931
    """
    n_rows, n_classes = outputs.shape
    n, rows = len(label), len(confusions)
    outputs = outputs.detach().contiguous()
    by_label, sums, by_output = torch.empty(n, n_classes), torch.empty(rows, n_classes), torch.empty_like(outputs)
    shared = in_threads(confusions.numel())
    scratch, settings, values = _scratch(n_rows, n_classes)
    for jitter in (RELATIVE_JITTER, FALLBACK_JITTER):
        settings.numpy()[:] = (1.0 / count, 1.0 if temper is None else temper, volume, jitter, LEAST_JITTER)
        run(
            "step", outputs, confusions, place, label, item, NO_WEIGHT if weight is None else weight,
            n, n_rows, rows, n_classes, weight is not None, temper is not None, volume != 0.0, not shared,
            settings, *scratch, by_label, sums, by_output, values,
        )  # fmt: skip
        loss, log_volume = values.tolist()
        if not math.isnan(log_volume):
            break
    if shared:
        over_rows("scale_rows", confusions, sums, n_classes, n_rows=rows, size=confusions.numel())
        run("subtract_columns", confusions, place, label, by_label, n, n_classes)
    return CrowdStep(loss / count, log_volume, by_output, confusions)


@lru_cache(maxsize=4)
def _scratch(n_rows: int, n_classes: int) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
    """Working memory of `step`, used again by every step of the same shape; one thread trains at a time."""
    wide = torch.empty(4, n_rows, n_classes, dtype=torch.float64).unbind()
    square = torch.empty(2, n_classes, n_classes, dtype=torch.float64).unbind()
    return (*wide, *square), torch.empty(5, dtype=torch.float64), torch.empty(2, dtype=torch.float64)


def add_pull(gradient: Tensor, confusions: Tensor, pull: Tensor, strength: float) -> None:
    """Subtract strength times `pull`, a gradient by confusions, from `gradient`, which is by their logits."""
    rows, n_classes = gradient.shape[:2]
    given = (gradient, confusions, pull, torch.tensor([strength], dtype=torch.float64), n_classes)
    over_rows("add_pull", *given, n_rows=rows, size=gradient.numel())


def adam_rows(
    values: Tensor,  # (n_rows, ...) changed in place, as are the moments and the clock
    mean: Tensor,
    square: Tensor,
    clock: Tensor,  # (n_rows,)
    touched: Tensor,  # (rows,)
    gradient: Tensor,  # (rows, ...)
    settings: Tensor,  # rate, two betas, epsilon, weight decay
    *,
    decoupled: bool,
) -> None:
    """One Adam step (AdamW where the decay is decoupled) of the touched rows, each by its own clock."""
    gradient = gradient.contiguous()
    rows, size = len(gradient), gradient.numel()
    width = size // max(rows, 1)
    over_rows(
        "adam_rows", values, mean, square, clock, touched, gradient, settings, width, decoupled, n_rows=rows, size=size
    )


def gather(
    start: Tensor,  # (n_items + 1,)
    annotator: Tensor,  # (n_annotations,)
    label: Tensor,  # (n_annotations,)
    index: Tensor,  # (items of all batches,)
    cuts: Tensor,  # (batch + 1,) where each batch begins in `index`
    *,
    n: int,
    seen: Tensor,  # (n_annotators,) of -1
) -> tuple[Tensor, Tensor]:
    """Gather the `n` annotations of the items at `index`, batch by batch.

    Returns (6, n) position, row of the batch, annotator, label, place and touched, and for each batch the number of
    distinct annotators, which `touched` begins with: `place` is where each annotation's annotator stands among them.
    """
    found = torch.empty(6, n, dtype=torch.int64)
    n_touched = torch.empty(len(cuts) - 1, dtype=torch.int64)
    run("gather", start, annotator, label, index, cuts, len(cuts) - 1, *found, n_touched, seen)
    return found, n_touched

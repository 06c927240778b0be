"""Training in several processes: what `torchrun` starts, or any process group of torch.

All processes have the same network and the same crowd head and see the same batches. Each passes its share of a batch's
items through the network; the outputs are exchanged, so that every process has the loss of the whole batch and the
whole gradient of the head. What remains is the network's gradient, which is summed over processes. The tables of
annotators never travel, and every method's loss is that of one process, up to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.modules.batchnorm import _BatchNorm

from crowdprism.errors import InvalidParameterError
from crowdprism.networks.build import Dropout


@dataclass(frozen=True)
class Processes:
    """This process among all: its number from 0, and how many there are."""

    rank: int = 0
    n: int = 1

    @property
    def several(self) -> bool:
        return self.n > 1

    def bounds(self, n_rows: int) -> list[int]:
        """Where the share of each process begins, and the end."""
        return [round(process * n_rows / self.n) for process in range(self.n + 1)]

    def own(self, n_rows: int) -> slice:
        bounds = self.bounds(n_rows)
        return slice(bounds[self.rank], bounds[self.rank + 1])

    def forward(self, network: Any, features: Tensor, n_rows: int) -> Tensor:
        """Outputs for all rows, with a gradient for those of this process; `features` are of all rows or its own."""
        if not self.several:
            return network(features)  # type: ignore[no-any-return]
        bounds = self.bounds(n_rows)
        mine = network(features[self.own(n_rows)] if len(features) == n_rows else features)
        parts = [mine.new_empty((last - first, *mine.shape[1:])) for first, last in pairwise(bounds)]
        parts[self.rank].copy_(mine.detach())
        for process, part in enumerate(parts):  # shares differ by a row, so that each is sent by its owner
            if part.numel():
                distributed.broadcast(part, src=process)
        parts[self.rank] = mine
        return torch.cat(parts)

    def sum_gradients(self, parameters: Sequence[Tensor]) -> None:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if not self.several or not gradients:
            return
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        distributed.all_reduce(flat)
        parts = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def wait(self) -> None:
        if self.several:
            distributed.barrier()


def processes_here() -> Processes:
    if not distributed.is_available() or not distributed.is_initialized():
        return Processes()
    return Processes(distributed.get_rank(), distributed.get_world_size())


@contextmanager
def process_group(device: str) -> Iterator[Processes]:
    """Join the processes that `torchrun` started; without it, or within an active group, nothing changes."""
    started = int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized()
    if started:
        on_cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
        if on_cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        store, rank, n_processes = next(rendezvous("env://"))
        # After a restart the addresses of lost processes are still in the store: each attempt has its own part of it.
        attempt = distributed.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)  # type: ignore[attr-defined]
        distributed.init_process_group("nccl" if on_cuda else "gloo", store=attempt, rank=rank, world_size=n_processes)
    try:
        yield processes_here()
    finally:
        if started:
            distributed.destroy_process_group()


def require_share(n_items: int, batch_size: int, processes: Processes) -> None:
    if processes.n > min(n_items, batch_size):
        raise InvalidParameterError(
            f"{processes.n} processes share batches of {min(n_items, batch_size)} items, so that some would have none. "
            "Start fewer, or give a larger batch_size.",
            parameter="batch_size",
        )


def require_shareable(head: Any, method: str) -> None:
    """Raise, with the name of the method, if it needs more of the network than its outputs."""
    if processes_here().several and not head.needs_only_outputs:
        raise InvalidParameterError(
            f"{method} cannot be trained in several processes: it needs more of the network than its outputs. Train it "
            "in one process, or use geocrowdnet-f."
        )


@contextmanager
def shared_layers(network: nn.Module, processes: Processes, n_rows: int) -> Iterator[None]:
    """Let dropout draw, and batch norm measure, for the whole batch while each process passes its own rows through."""
    if not processes.several:
        yield
        return
    parts = list(network.modules())
    norms = [part for part in parts if isinstance(part, _BatchNorm) and part.training]
    dropouts = [part for part in parts if isinstance(part, Dropout)]
    for dropout in dropouts:
        dropout.share_of = (processes.own(n_rows).start, n_rows)
    for norm in norms:
        norm.forward = partial(normalize_whole_batch, norm)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for dropout in dropouts:
            dropout.share_of = None
        for norm in norms:
            del norm.forward


def normalize_whole_batch(norm: _BatchNorm, inputs: Tensor) -> Tensor:
    """Batch norm with mean and variance over the rows of all processes."""
    from torch.distributed.nn.functional import all_reduce  # a sum whose gradient is the sum of all gradients

    axes = [axis for axis in range(inputs.ndim) if axis != 1]
    shape = [1, -1, *([1] * (inputs.ndim - 2))]
    count = inputs.new_tensor(float(inputs.numel() // inputs.shape[1]))
    distributed.all_reduce(count)
    mean = all_reduce(inputs.sum(dim=axes)) / count  # type: ignore[no-untyped-call]
    centred = inputs - mean.view(shape)
    variance = all_reduce(centred.square().sum(dim=axes)) / count  # type: ignore[no-untyped-call]
    if norm.track_running_stats and norm.running_mean is not None and norm.running_var is not None:
        assert norm.num_batches_tracked is not None
        norm.num_batches_tracked.add_(1)
        share = 1 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
        with torch.no_grad():
            norm.running_mean.lerp_(mean.detach(), share)
            norm.running_var.lerp_(variance.detach() * (count / (count - 1)), share)
    outputs: Tensor = centred * torch.rsqrt(variance + norm.eps).view(shape)
    if norm.affine:
        outputs = outputs * norm.weight.view(shape) + norm.bias.view(shape)
    return outputs


def same_everywhere(checksum: str, processes: Processes) -> None:
    if not processes.several:
        return
    found: list[Any] = [None] * processes.n
    distributed.all_gather_object(found, checksum)
    if len(set(found)) > 1:
        odd = next(process for process, one in enumerate(found) if one != found[0])
        raise InvalidParameterError(
            f"Process {odd} has other annotations or features than process 0. Give all processes the same."
        )

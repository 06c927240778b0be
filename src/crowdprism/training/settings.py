"""How to train: everything the loop is told, in one frozen record; device and threads of a run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from crowdprism.errors import InvalidParameterError
from crowdprism.parameters import OneOf, Real, Whole, check_parameters
from crowdprism.training.batches import Augmentation
from crowdprism.training.optimizers import OPTIMIZERS, SCHEDULES

PRECISIONS = ("float32", "bfloat16")
CPU = torch.device("cpu")
WORK_PER_THREAD = 2**28  # multiply-adds of a forward pass: two threads where a step takes a tenth of a second


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of one training run; every random stream is derived from `seed`, `member` and the epoch."""

    epochs: int = 50  # passes over the items
    batch_size: int = 64  # items (not annotations) per step
    optimizer: str = "adam"  # see OPTIMIZERS
    schedule: str = "cosine"  # see SCHEDULES
    learning_rate: float = 3e-3  # of the network
    weight_decay: float = 0.0
    annotator_learning_rate: float = 3e-2  # of the crowd head
    annotator_weight_decay: float = 0.0
    clip_norm: float | None = None  # largest norm of the whole gradient
    warm_start: float = 0.0  # share of all steps without penalties
    ramp: float = 0.0  # share of all steps over which penalties then grow to full strength
    hold_annotators: float = 0.0  # share of all steps in which the crowd head stays as it started
    patience: int | None = None  # stop after this many epochs without a better validation figure
    keep_best: bool = False  # restore the weights of the best validated epoch at the end
    equal_epochs: str = "latest"  # which of equally good epochs counts as the best; or "earliest"
    device: str = "auto"  # cuda, then mps, then cpu
    precision: str = "float32"  # "bfloat16" runs the network under autocast
    compile: bool = False  # pass the network through `torch.compile`
    borrow_stream: bool = False  # a user's network may draw from torch's global stream: lend it ours for each step
    even_batches: bool = True  # see `epoch_order`
    augmentation: Augmentation = field(default_factory=Augmentation)
    rounds: int = 1  # equal parts of the epochs, with which the schedule and the optimisers' state start anew, ...
    fresh_network: bool = False  # ... and the network's weights, as EM with a retrained network needs
    max_batches: int | None = None  # end each epoch after this many steps
    seed: int = 0
    member: int = 0

    allowed: ClassVar[Mapping[str, Any]] = {
        **dict.fromkeys(("epochs", "batch_size"), Whole(1)),
        "optimizer": OneOf(*OPTIMIZERS),
        "schedule": OneOf(*SCHEDULES),
        **dict.fromkeys(("learning_rate", "weight_decay"), Real(0)),
        **dict.fromkeys(("annotator_learning_rate", "annotator_weight_decay"), Real(0)),
        "clip_norm": (Real(0, above=True), None),
        **dict.fromkeys(("warm_start", "ramp", "hold_annotators"), Real(0, 1)),
        "patience": (Whole(0), None),
        "equal_epochs": OneOf("latest", "earliest"),
        "precision": OneOf(*PRECISIONS),
        "max_batches": (Whole(1), None),
    }

    def check(self) -> None:
        check_parameters(vars(self), {**self.allowed, "rounds": Whole(1, self.epochs)})
        check_parameters(vars(self.augmentation), Augmentation.allowed)

    def round_of(self, epoch: int) -> tuple[int, int]:
        """Return the first epoch of the round that an epoch belongs to, and the number of epochs of that round."""
        firsts = [place * self.epochs // self.rounds for place in range(self.rounds + 1)]
        place = max(place for place in range(self.rounds) if firsts[place] <= epoch)
        return firsts[place], firsts[place + 1] - firsts[place]

    def is_better(self, validation: float, best: float) -> bool:
        """Whether a validation figure replaces the best so far; any number replaces NaN."""
        equal = validation == best and self.equal_epochs == "latest"
        return bool(validation > best or equal or (math.isnan(best) and not math.isnan(validation)))

    def penalty_factor(self, step: int, total: int) -> float:
        """Return the factor of penalties at a step: 0 during the warm start, then rising to 1."""
        begin = self.warm_start * total
        if step < begin:
            return 0.0
        length = self.ramp * total
        return 1.0 if length < 1 else min(1.0, (step - begin + 1) / length)


@dataclass(frozen=True)
class EpochRecord:
    """What callbacks are told at the end of an epoch: `parts` are the mean loss ("data"), penalties and "total"."""

    epoch: int
    epochs: int
    parts: dict[str, float]
    validation: float | None
    learning_rate: float
    best_epoch: int | None
    member: int = 0
    threads: int = 1


Callback = Callable[[EpochRecord], Any]


def choose_device(name: str) -> torch.device:
    """Return the device of that name; `"auto"` is cuda, else mps, else cpu."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, found in there.items() if found))
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InvalidParameterError(f"There is no device {name!r}; use auto, cpu, cuda or mps.") from error
    if not there.get(device.type, True):
        raise InvalidParameterError(
            f"torch {torch.__version__} finds no {device.type} device here: this computer has none, or torch was "
            "built without it.",
            parameter="device",
            remedy="Use {device:'auto'} or {device:'cpu'}.",
        )
    return device


# The threads that torch's OpenMP started do not survive a fork, and waiting for them never ends.
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def use_threads(count: int) -> None:
    """Let torch use up to this many processor threads, in the whole process."""
    if count < 1:
        raise InvalidParameterError(f"The number of threads must be at least 1, not {count}.")
    torch.set_num_threads(count)


@torch.no_grad()
def multiply_adds(network: nn.Module, item_shape: Sequence[int], device: torch.device) -> int:
    """Multiply-adds of matrix products and convolutions in the forward pass of one item, in evaluation mode."""
    was_training = network.training
    counter = FlopCounterMode(display=False)
    network.eval()
    try:
        with counter:
            network(torch.zeros(2, *item_shape, device=device))
    finally:
        network.train(was_training)
    return int(counter.get_total_flops()) // 4  # two operations each, two items


def choose_threads(network: nn.Module, item_shape: Sequence[int], n_items: int, device: torch.device = CPU) -> int:
    """How many threads a network's passes should use: one per `WORK_PER_THREAD`, at most torch's number.

    Threads of a small network wait for each other, and where another process keeps a core busy for that as well.
    """
    most = torch.get_num_threads()
    if most == 1 or device.type != "cpu":
        return most
    return max(1, min(most, n_items * multiply_adds(network, item_shape, device) // WORK_PER_THREAD))


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads within the block, in this thread and those that start meanwhile."""
    before = torch.get_num_threads()
    if count == before:  # nothing to restore: another thread's block may have set it
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

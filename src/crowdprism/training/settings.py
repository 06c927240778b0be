"""How to train: everything the loop is told, in one frozen record; device and threads of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from crowdprism.errors import InvalidParameterError
from crowdprism.parameters import OneOf, Real, Whole, check_parameters
from crowdprism.training.augmentation import Augmentation
from crowdprism.training.optimizers import OPTIMIZERS, SCHEDULES

PRECISIONS = ("float32", "bfloat16")
SHARE = Real(0, 1)
WORK_PER_THREAD = 2**24  # multiply-adds of a step's forward pass that are worth another thread; see `choose_threads`


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of one training run.

    Attributes
    ----------
    epochs, batch_size
        Passes over the items, and items (not annotations) per step.
    optimizer, schedule
        See `OPTIMIZERS` and `SCHEDULES`.
    learning_rate, weight_decay
        Of the network.
    annotator_learning_rate, annotator_weight_decay
        Of the crowd head.
    clip_norm
        Largest norm of the whole gradient, or None.
    warm_start, ramp
        Shares of all steps: penalties are off during the first, and grow linearly to full strength over the second.
    hold_annotators
        Share of all steps during which the crowd head stays as it started, so that the network first learns what the
        start says and not the annotators what a random network says.
    patience
        Stop after this many epochs without a better validation figure, or None.
    keep_best
        Restore the weights of the best validated epoch (the latest among equals) at the end.
    device, precision, compile
        `"auto"` takes cuda, then mps, then cpu. `"bfloat16"` runs the network under autocast. `compile` passes the
        network through `torch.compile`.
    borrow_stream
        The network may draw from torch's global stream (a user's own module): lend it ours for each step.
    even_batches
        See `epoch_order`.
    rounds, fresh_network
        Train in this many equal rounds of epochs: the schedule, the optimisers' state and, with `fresh_network`, the
        network's weights start anew with each round, as EM with a retrained network needs.
    max_batches
        End each epoch after this many steps, or None.
    seed, member
        Every random stream is derived from these and the epoch.
    """

    epochs: int = 50
    batch_size: int = 64
    optimizer: str = "adam"
    schedule: str = "cosine"
    learning_rate: float = 3e-3
    weight_decay: float = 0.0
    annotator_learning_rate: float = 3e-2
    annotator_weight_decay: float = 0.0
    clip_norm: float | None = None
    warm_start: float = 0.0
    ramp: float = 0.0
    hold_annotators: float = 0.0
    patience: int | None = None
    keep_best: bool = False
    device: str = "auto"
    precision: str = "float32"
    compile: bool = False
    borrow_stream: bool = False
    even_batches: bool = True
    augmentation: Augmentation = field(default_factory=Augmentation)
    rounds: int = 1
    fresh_network: bool = False
    max_batches: int | None = None
    seed: int = 0
    member: int = 0

    allowed: ClassVar[Mapping[str, Any]] = {
        "epochs": Whole(1),
        "batch_size": Whole(1),
        "optimizer": OneOf(*OPTIMIZERS),
        "schedule": OneOf(*SCHEDULES),
        "learning_rate": Real(0),
        "weight_decay": Real(0),
        "annotator_learning_rate": Real(0),
        "annotator_weight_decay": Real(0),
        "clip_norm": (Real(0, above=True), None),
        "warm_start": SHARE,
        "ramp": SHARE,
        "hold_annotators": SHARE,
        "patience": (Whole(0), None),
        "precision": OneOf(*PRECISIONS),
        "max_batches": (Whole(1), None),
    }

    def check(self) -> None:
        """Raise for values that cannot be trained with."""
        check_parameters(vars(self), {**self.allowed, "rounds": Whole(1, self.epochs)})
        self.augmentation.check()

    def round_of(self, epoch: int) -> tuple[int, int]:
        """Return the first epoch of the round that an epoch belongs to, and the number of epochs of that round.

        Examples
        --------
        >>> settings = TrainingSettings(epochs=5, rounds=2)
        >>> [settings.round_of(epoch) for epoch in range(5)]
        [(0, 2), (0, 2), (2, 3), (2, 3), (2, 3)]
        """
        firsts = [place * self.epochs // self.rounds for place in range(self.rounds + 1)]
        place = max(place for place in range(self.rounds) if firsts[place] <= epoch)
        return firsts[place], firsts[place + 1] - firsts[place]

    def penalty_factor(self, step: int, total: int) -> float:
        """Return the factor of penalties at a step: 0 during the warm start, then rising to 1.

        Examples
        --------
        >>> settings = TrainingSettings(warm_start=0.2, ramp=0.2)
        >>> [round(settings.penalty_factor(step, 10), 2) for step in (1, 2, 3, 4)]
        [0.0, 0.5, 1.0, 1.0]
        """
        begin = self.warm_start * total
        if step < begin:
            return 0.0
        length = self.ramp * total
        return 1.0 if length < 1 else min(1.0, (step - begin + 1) / length)


@dataclass(frozen=True)
class EpochRecord:
    """What callbacks are told at the end of an epoch.

    `parts` holds the mean loss per annotation ("data"), each penalty and their sum ("total"); `threads` is the number
    of processor threads that the run uses.
    """

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
    """Return the device of that name; `"auto"` is cuda, else mps, else cpu.

    Examples
    --------
    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name != "auto":
        try:
            return torch.device(name)
        except RuntimeError as error:
            raise InvalidParameterError(f"There is no device {name!r}; use auto, cpu, cuda or mps.") from error
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


# -- processor threads ------------------------------------------------------------------------------------------

# The threads that torch's OpenMP started do not survive a fork, and waiting for them never ends.
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def use_threads(count: int) -> None:
    """Let torch use up to this many processor threads, in the whole process."""
    if count < 1:
        raise InvalidParameterError(f"The number of threads must be at least 1, not {count}.")
    torch.set_num_threads(count)


@torch.no_grad()
def multiply_adds(network: nn.Module, features: torch.Tensor) -> int:
    """Return the multiply-adds of matrix products and convolutions in a forward pass, in evaluation mode."""
    was_training = network.training
    counter = FlopCounterMode(display=False)
    network.eval()
    try:
        with counter:
            network(features)
    finally:
        network.train(was_training)
    return int(counter.get_total_flops()) // 2


def choose_threads(work: int, device: torch.device) -> int:
    """Return how many threads a run should use: one per `WORK_PER_THREAD`, at most those that torch has now.

    Threads of a small network spend their time waiting for each other, and where another process keeps a core busy
    they wait for that process: a small network on two threads then takes 26 times as long as on one. On another
    device than the CPU the number stays as it is.

    Parameters
    ----------
    work
        Multiply-adds of the forward pass of one step: those of an item times the items of a batch.
    """
    most = torch.get_num_threads()
    return most if device.type != "cpu" else max(1, min(most, work // WORK_PER_THREAD))


@contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads within the block, in the thread that runs it.

    Python threads that start meanwhile begin with that number as well; torch has no number of its own for them.
    """
    before = torch.get_num_threads()
    if count == before:  # nothing to restore: another thread's block may have set it
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

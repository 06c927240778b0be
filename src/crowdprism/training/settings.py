"""How to train: everything the loop is told, in one frozen record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from crowdprism.errors import InvalidParameterError
from crowdprism.training.augmentation import Augmentation
from crowdprism.training.optimizers import check_names

PRECISIONS = ("float32", "bfloat16")


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

    def check(self) -> None:
        """Raise for values that cannot be trained with."""
        check_names(self.optimizer, self.schedule)
        for name in ("epochs", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidParameterError(f"{name} must be a whole number of at least 1, not {value!r}.")
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or not 1 <= self.rounds <= self.epochs:
            raise InvalidParameterError(
                f"rounds must be a whole number from 1 to the number of epochs ({self.epochs}), not {self.rounds!r}."
            )
        for name in ("learning_rate", "annotator_learning_rate", "weight_decay", "annotator_weight_decay"):
            if not getattr(self, name) >= 0:
                raise InvalidParameterError(f"{name} must be at least 0, not {getattr(self, name)!r}.")
        for name in ("warm_start", "ramp", "hold_annotators"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidParameterError(f"{name} is a share of all steps, 0 to 1, not {getattr(self, name)!r}.")
        if self.precision not in PRECISIONS:
            raise InvalidParameterError(f"precision must be one of {', '.join(PRECISIONS)}, not {self.precision!r}.")

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


@dataclass(frozen=True)
class EpochRecord:
    """What callbacks are told at the end of an epoch.

    `parts` holds the mean loss per annotation ("data"), each penalty and their sum ("total").
    """

    epoch: int
    epochs: int
    parts: dict[str, float]
    validation: float | None
    learning_rate: float
    best_epoch: int | None
    member: int = 0


Callback = Callable[[EpochRecord], Any]


def use_threads(count: int) -> None:
    """Let torch use this many processor threads, in the whole process."""
    if count < 1:
        raise InvalidParameterError(f"The number of threads must be at least 1, not {count}.")
    torch.set_num_threads(count)

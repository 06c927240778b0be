"""Optimisers and schedules; the annotators' table is updated row by row where it is large."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from crowdprism.errors import InvalidParameterError
from crowdprism.networks import step_kernels
from crowdprism.networks.row_table import RowTable
from crowdprism.training.compiled_adam import CompiledAdam, suits

OptimizerName = Literal["adam", "adamw", "radam"]
ScheduleName = Literal["none", "cosine", "one-cycle"]
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "radam": torch.optim.RAdam,
}
SCHEDULES = ("none", "cosine", "one-cycle")
BETAS = (0.9, 0.999)
EPSILON = 1e-8
RECTIFY_FROM = 5.0  # RAdam adapts only once its approximated length exceeds this (Liu et al. 2020)
ONE_CYCLE_RISE = 0.3  # share of steps with rising rate
ONE_CYCLE_START = 25.0  # the rate starts at maximum / 25
ONE_CYCLE_END = 1e4  # and ends at start / 10 000
ONE_CYCLE_BETAS = (0.85, 0.95)


def schedule_at(name: str, step: int, total: int) -> tuple[float, float | None]:
    """Return the learning-rate factor at a step (from 0) and, for the one-cycle schedule, the momentum beta.

    A pure function of the step, so there is no schedule state to save. One-cycle is as torch's default.

    Examples
    --------
    >>> round(schedule_at("cosine", 50, 100)[0], 6)
    0.5
    """
    if name == "none":
        return 1.0, None
    if name == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * step / max(total, 1))), None
    peak = ONE_CYCLE_RISE * total - 1
    start, end = 1 / ONE_CYCLE_START, 1 / (ONE_CYCLE_START * ONE_CYCLE_END)
    low, high = ONE_CYCLE_BETAS
    if step <= peak or total <= 1:
        share = step / peak if peak > 0 else 1.0
        return _cosine(start, 1.0, share), _cosine(high, low, share)
    share = (step - peak) / (total - 1 - peak)
    return _cosine(1.0, end, share), _cosine(low, high, share)


def _cosine(first: float, last: float, share: float) -> float:
    return last + (first - last) / 2.0 * (1.0 + math.cos(math.pi * share))


def check_names(optimizer: str, schedule: str) -> None:
    """Raise for a misspelt optimiser or schedule, listing the names."""
    if optimizer not in OPTIMIZERS:
        raise InvalidParameterError(f"There is no optimizer {optimizer!r}; there are {', '.join(OPTIMIZERS)}.")
    if schedule not in SCHEDULES:
        raise InvalidParameterError(f"There is no schedule {schedule!r}; there are {', '.join(SCHEDULES)}.")


def make_optimizer(
    name: str, groups: Sequence[tuple[Iterable[nn.Parameter], float, float]], *, compiled: bool = False
) -> torch.optim.Optimizer | CompiledAdam | None:
    """Return one optimiser over groups of (parameters, learning rate, weight decay); None if there is none.

    `compiled` asks for our own loops (not RAdam's) where they are quicker than torch's.
    """
    listed: list[dict[str, Any]] = [
        {"params": chosen, "lr": rate, "weight_decay": decay, "base_lr": rate}
        for parameters, rate, decay in groups
        if (chosen := [parameter for parameter in parameters if parameter.requires_grad])
    ]
    if not listed:
        return None
    options: dict[str, Any] = {"betas": BETAS, "eps": EPSILON}
    if compiled and suits([parameter for group in listed for parameter in group["params"]]):
        return CompiledAdam(listed, decoupled=name == "adamw", **options)
    kinds = {parameter.device.type for group in listed for parameter in group["params"]}
    if name != "radam" and kinds <= {"cpu", "cuda"}:
        options["fused"] = True  # one kernel for all parameters
    optimizer: torch.optim.Optimizer = OPTIMIZERS[name](listed, **options)
    return optimizer


def set_rate(optimizer: torch.optim.Optimizer | CompiledAdam | RowAdam, factor: float, beta: float | None) -> None:
    """Scale each group's learning rate from its base, and set the momentum where the schedule has one."""
    for group in optimizer.param_groups:
        group["lr"] = factor * group["base_lr"]
        if beta is not None:
            group["betas"] = (beta, BETAS[1])


class RowAdam:
    """Adam over `RowTable`s in which each row has its own clock, which ticks when a batch touches the row.

    For a touched row this is one ordinary Adam (AdamW, RAdam) step with the row's own step number in the bias
    corrections. Rows that are not touched keep value, moments and clock: they neither coast on old momentum nor
    forget. So the result equals `torch.optim.Adam` on each annotator's own sequence of gradients, and equals it on
    the whole table where every row is touched at every step. Deterministic; cost follows the touched rows.

    With `compiled`, tables that are updated whole are taken too, and compiled loops do the arithmetic (not RAdam's).
    """

    def __init__(
        self,
        tables: Sequence[RowTable],
        *,
        name: str = "adam",
        learning_rate: float,
        weight_decay: float = 0.0,
        compiled: bool = False,
    ) -> None:
        self.tables = [table for table in tables if table.touched_only or compiled]
        self.name = name
        self.compiled = compiled
        self._settings = torch.empty(5, dtype=torch.float64)
        self.param_groups: list[dict[str, Any]] = [
            {"lr": learning_rate, "base_lr": learning_rate, "betas": BETAS, "weight_decay": weight_decay}
        ]
        self.mean = [torch.zeros_like(table.values) for table in self.tables]
        self.square = [torch.zeros_like(table.values) for table in self.tables]
        self.clock = [
            torch.zeros(len(table.values), dtype=torch.int32, device=table.values.device) for table in self.tables
        ]

    def gradients(self) -> list[Tensor]:
        """Gradients of the rows of the current step, for norm clipping."""
        return [working[1] for table in self.tables if (working := table.working()) is not None]

    def step(self) -> None:
        """Update the touched rows of every table and write them back."""
        update = self._compiled_rows if self.compiled else self._rows
        for table, *state in zip(self.tables, self.mean, self.square, self.clock, strict=True):
            working = table.working()
            if working is not None:
                update(table, *working, *state)

    def _compiled_rows(
        self, table: RowTable, touched: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, clock: Tensor
    ) -> None:
        group = self.param_groups[0]
        self._settings.numpy()[:] = (group["lr"], *group["betas"], EPSILON, group["weight_decay"])
        tables = (table.values, mean, square, clock)
        step_kernels.adam_rows(*tables, touched, gradient, self._settings, decoupled=self.name == "adamw")

    @torch.no_grad()
    def _rows(
        self, table: RowTable, touched: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, clock: Tensor
    ) -> None:
        assert table.pending is not None
        clock.index_add_(0, touched, torch.ones_like(touched, dtype=torch.int32))
        steps = clock.index_select(0, touched).view(-1, *[1] * (gradient.ndim - 1))
        value = table.pending.leaf.detach().clone()  # the leaf keeps the rows as they were
        first, second = mean.index_select(0, touched), square.index_select(0, touched)
        self._update(value, gradient, first, second, steps, self.param_groups[0])
        for whole, rows in ((table.values, value), (mean, first), (square, second)):
            whole.index_copy_(0, touched, rows)

    def _update(
        self, value: Tensor, gradient: Tensor, first: Tensor, second: Tensor, steps: Tensor, group: dict[str, Any]
    ) -> None:
        rate, decay = group["lr"], group["weight_decay"]
        beta1, beta2 = group["betas"]
        if decay and self.name == "adamw":
            value.mul_(1 - rate * decay)
        elif decay:
            gradient = gradient.add(value, alpha=decay)
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        steps = steps.double()
        correction1, correction2 = 1 - beta1**steps, 1 - beta2**steps
        if self.name == "radam":
            change = rectified(first, second, steps, correction1, correction2, beta2)
            value.sub_(rate * change)
            return
        denominator = second.sqrt().mul_((1 / correction2.sqrt()).to(value.dtype)).add_(EPSILON)
        denominator.mul_((correction1 / rate).to(value.dtype)) if rate else denominator.fill_(torch.inf)
        value.addcdiv_(first, denominator, value=-1.0)

    def state(self) -> dict[str, Tensor]:
        """Everything a checkpoint must hold."""
        return {
            f"{kind}.{place}": tensor
            for kind in ("mean", "square", "clock")
            for place, tensor in enumerate(getattr(self, kind))
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take back what `state` returned."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


def rectified(
    first: Tensor, second: Tensor, steps: Tensor, correction1: Tensor, correction2: Tensor, beta2: float
) -> Tensor:
    """Return RAdam's direction for rows with their own step numbers (Liu et al. 2020, algorithm 2)."""
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * steps * beta2**steps / correction2
    ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    scale = torch.where(length > RECTIFY_FROM, ratio.clamp_min(0).sqrt() * correction2.sqrt(), 0.0).to(first.dtype)
    centred = first / correction1.to(first.dtype)
    return torch.where(scale > 0, centred * scale / (second.sqrt() + EPSILON), centred)

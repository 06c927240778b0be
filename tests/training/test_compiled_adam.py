"""Our Adam in one call against torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from crowdprism.training import compiled_adam, make_optimizer
from crowdprism.training.checkpoint import load_optimizer, optimizer_tensors
from crowdprism.training.compiled_adam import CompiledAdam
from crowdprism.training.optimizers import set_rate

SHAPES = [(6, 1, 5, 5), (6,), (1,), (3, 7)]
STEPS = 30


def parameters(*, shift: float = 0.0) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator) + shift) for shape in SHAPES]


def optimizer(name: str, trained: list[torch.nn.Parameter], *, compiled: bool) -> Any:
    return make_optimizer(name, [(trained[:2], 0.01, 0.1), (trained[2:], 0.1, 0.0)], compiled=compiled)


def train(steps: range, trained: list[torch.nn.Parameter], adam: Any) -> None:
    """Steps with a schedule; the third parameter gets a gradient at every second step only."""
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for place, parameter in enumerate(trained):
            gradient = torch.randn(parameter.shape, generator=generator)
            parameter.grad = None if place == 2 and step % 2 else gradient
        set_rate(adam, 1.0 / (1 + step), 0.85 + 0.001 * step)
        adam.step()


def same(left: list[torch.nn.Parameter], right: list[torch.nn.Parameter]) -> bool:
    return all(torch.allclose(one, other, atol=1e-6) for one, other in zip(left, right, strict=True))


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_compiled_adam_takes_the_steps_of_torch(name: str) -> None:
    ours, theirs = parameters(), parameters()
    adam = optimizer(name, ours, compiled=True)
    assert isinstance(adam, CompiledAdam)
    train(range(STEPS), ours, adam)
    train(range(STEPS), theirs, optimizer(name, theirs, compiled=False))
    assert same(ours, theirs)
    assert not same(ours, parameters())


@pytest.mark.parametrize("first", [True, False])
def test_a_state_of_either_continues_with_the_other(first: bool) -> None:
    straight = parameters()
    train(range(STEPS), straight, optimizer("adam", straight, compiled=False))
    resumed = parameters()
    begun = optimizer("adam", resumed, compiled=first)
    train(range(STEPS // 2), resumed, begun)
    stored = {name: tensor.clone() for name, tensor in optimizer_tensors(begun).items()}
    ended = optimizer("adam", resumed, compiled=not first)
    load_optimizer(ended, stored)
    train(range(STEPS // 2, STEPS), resumed, ended)
    assert same(resumed, straight)


def test_loading_forgets_what_the_state_does_not_have() -> None:
    trained = parameters()
    adam = optimizer("adam", trained, compiled=True)
    train(range(3), trained, adam)
    load_optimizer(adam, {})
    assert not adam.clock.any()
    assert not any(moment.any() for moment in [*adam.mean, *adam.square])


def test_large_strided_or_wide_parameters_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    strided = torch.nn.Parameter(torch.zeros(4, 3).T)
    for trained in ([wide], [strided]):
        found = make_optimizer("adam", [(trained, 0.1, 0.0)], compiled=True)
        assert isinstance(found, torch.optim.Adam)
    monkeypatch.setattr(compiled_adam, "LARGEST", 3)
    assert not compiled_adam.suits(parameters())
    assert compiled_adam.suits([torch.nn.Parameter(torch.zeros(3))])

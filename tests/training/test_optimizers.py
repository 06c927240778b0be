"""RowAdam against torch's optimisers, and schedules against torch's."""

from __future__ import annotations

import pytest
import torch

from crowdprism.networks import Batch, RowTable
from crowdprism.training.optimizers import OPTIMIZERS, RowAdam, make_optimizer, schedule_at, set_rate

N_ROWS, STEPS = 5, 40


def touching(rows: list[int]) -> Batch:
    none = torch.empty(0, dtype=torch.long)
    return Batch(torch.zeros(1), none, none, torch.tensor(rows), none, None, 1.0, 1, none)


def gradients() -> torch.Tensor:
    return torch.randn(STEPS, N_ROWS, 3, 3, generator=torch.Generator().manual_seed(0))


def start() -> torch.Tensor:
    return torch.randn(N_ROWS, 3, 3, generator=torch.Generator().manual_seed(1))


def run_rows(name: str, touches: list[list[int]], decay: float) -> torch.Tensor:
    table = RowTable(start(), touched_only=True)
    optimizer = RowAdam([table], name=name, learning_rate=0.05, weight_decay=decay)
    for step, rows in enumerate(touches):
        leaf = table.rows(touching(rows))
        leaf.grad = gradients()[step][rows]
        optimizer.step()
        table.forget()
    return table.values.detach()


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_touching_all_rows_at_every_step_equals_torch(name: str, decay: float) -> None:
    weight = torch.nn.Parameter(start())
    reference = OPTIMIZERS[name]([weight], lr=0.05, weight_decay=decay)
    for step in range(STEPS):
        weight.grad = gradients()[step]
        reference.step()
    found = run_rows(name, [list(range(N_ROWS))] * STEPS, decay)
    assert torch.allclose(found, weight.detach(), atol=2e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_row_is_an_adam_run_over_the_steps_that_touch_it(name: str) -> None:
    touches = [[step % N_ROWS, (step * 2 + 1) % N_ROWS] for step in range(STEPS)]
    touches = [sorted(set(rows)) for rows in touches]
    found = run_rows(name, touches, 0.0)
    for row in range(N_ROWS):
        weight = torch.nn.Parameter(start()[row])
        reference = OPTIMIZERS[name]([weight], lr=0.05, weight_decay=0.0)
        for step, rows in enumerate(touches):
            if row in rows:
                weight.grad = gradients()[step][row]
                reference.step()
        assert torch.allclose(found[row], weight.detach(), atol=2e-6)


def test_rows_never_touched_stay_as_they_are() -> None:
    found = run_rows("adam", [[0, 3]] * STEPS, 0.0)
    assert torch.equal(found[[1, 2, 4]], start()[[1, 2, 4]])
    assert not torch.equal(found[0], start()[0])


def test_the_one_cycle_schedule_equals_that_of_torch() -> None:
    total = 57
    weight = torch.nn.Parameter(torch.zeros(1))
    reference = torch.optim.Adam([weight], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(reference, max_lr=0.4, total_steps=total)
    for step in range(total):
        factor, beta = schedule_at("one-cycle", step, total)
        assert 0.4 * factor == pytest.approx(reference.param_groups[0]["lr"], rel=1e-9)
        assert beta == pytest.approx(reference.param_groups[0]["betas"][0], rel=1e-9)
        reference.step()
        if step < total - 1:
            schedule.step()


def test_the_cosine_schedule_falls_from_one_towards_zero() -> None:
    factors = [schedule_at("cosine", step, 10)[0] for step in range(10)]
    assert factors[0] == 1.0
    assert factors == sorted(factors, reverse=True)
    assert 0 < factors[-1] < 0.05
    assert schedule_at("none", 7, 10) == (1.0, None)


def test_groups_keep_their_own_rate_and_decay() -> None:
    network, annotators = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
    optimizer = make_optimizer("adam", [([network], 0.1, 0.01), ([annotators], 1.0, 0.0)])
    set_rate(optimizer, 0.5, None)
    assert [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [(0.05, 0.01), (0.5, 0.0)]


def test_the_step_number_is_the_rows_own_after_a_state_is_taken_back() -> None:
    table = RowTable(start(), touched_only=True)
    first = RowAdam([table], learning_rate=0.05)
    second = RowAdam([RowTable(start(), touched_only=True)], learning_rate=0.05)
    for step, rows in enumerate([[0, 1], [1], [1, 4]]):
        table.rows(touching(rows)).grad = gradients()[step][rows]
        first.step()
        table.forget()
    second.load_state(first.state())
    assert second.clock[0].tolist() == [1.0, 3.0, 0.0, 0.0, 1.0]
    assert all(torch.equal(second.state()[name], tensor) for name, tensor in first.state().items())


def test_tables_that_are_updated_whole_are_left_to_torch() -> None:
    whole, part = RowTable(start(), touched_only=False), RowTable(start(), touched_only=True)
    assert RowAdam([whole, part], learning_rate=0.1).tables == [part]
    optimizer = make_optimizer("adam", [([whole.values, part.values], 0.1, 0.0)])
    assert optimizer.param_groups[0]["params"] == [whole.values]
    assert make_optimizer("adam", [([part.values], 0.1, 0.0)]) is None

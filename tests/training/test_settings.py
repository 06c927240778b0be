"""Settings that cannot work are refused by name; threads follow the work and never exceed the user's number."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

from crowdprism.errors import InvalidParameterError
from crowdprism.networks import build_network
from crowdprism.training import TrainingSettings
from crowdprism.training.batches import Augmentation
from crowdprism.training.settings import (
    WORK_PER_THREAD,
    choose_device,
    choose_threads,
    limited_threads,
    multiply_adds,
    use_threads,
)

CPU = torch.device("cpu")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, not 0"),
        ({"epochs": True}, "epochs must be"),
        ({"batch_size": 1.5}, "batch_size must be"),
        ({"warm_start": 2.0}, "warm_start must be a number of at least 0 and at most 1"),
        ({"precision": "half"}, "precision must be 'float32' or 'bfloat16', not 'half'"),
        ({"optimizer": "sgdd"}, "optimizer must be 'adam', 'adamw' or 'radam', not 'sgdd'"),
        ({"schedule": "cos"}, "schedule must be 'none', 'cosine' or 'one-cycle', not 'cos'"),
        ({"learning_rate": float("nan")}, "learning_rate must be"),
        ({"clip_norm": 0.0}, "clip_norm must be a number above 0 or None"),
        ({"rounds": 6, "epochs": 5}, "rounds must be a whole number of at least 1 and at most 5"),
        ({"augmentation": Augmentation(mixup=-1.0)}, "mixup must be"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        TrainingSettings(**options).check()


def test_the_defaults_are_allowed() -> None:
    TrainingSettings().check()


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="auto, cpu, cuda or mps"):
        choose_device("tpux")


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("linear", (7,), 7 * 3),
        ("mlp", (7,), 7 * 128 + 128 * 3),
        ("lenet5", (1, 28, 28), 28**2 * 6 * 25 + 10**2 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 3),
    ],
)
def test_multiply_adds_are_those_of_products_and_convolutions(name: str, shape: tuple[int, ...], expected: int) -> None:
    network = build_network(name, shape, 3, generator=torch.Generator()).train()
    assert multiply_adds(network, shape, CPU) == expected
    assert network.training


def test_counting_leaves_running_statistics_and_random_streams_alone() -> None:
    network = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2)).train()
    before, state = torch.get_rng_state(), {name: tensor.clone() for name, tensor in network.state_dict().items()}
    multiply_adds(network, (3,), CPU)
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(tensor, state[name]) for name, tensor in network.state_dict().items())


def test_small_work_takes_one_thread_and_large_work_what_the_user_allows(two_threads: None) -> None:
    network = nn.Linear(2**10, 2**8)  # 2^18 multiply-adds an item
    enough = 2 * WORK_PER_THREAD // 2**18
    assert choose_threads(network, (2**10,), 1) == choose_threads(network, (2**10,), enough - 1) == 1
    assert choose_threads(network, (2**10,), enough) == choose_threads(network, (2**10,), 100 * enough) == 2
    torch.set_num_threads(1)
    assert choose_threads(network, (2**10,), 100 * enough) == 1


def test_threads_are_limited_within_the_block_only(two_threads: None) -> None:
    def fail() -> None:
        with limited_threads(1):
            raise ValueError(f"{torch.get_num_threads()} inside")

    with pytest.raises(ValueError, match="1 inside"):
        fail()
    assert torch.get_num_threads() == 2


def test_a_block_in_another_thread_leaves_this_one_alone(two_threads: None) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with limited_threads(1):
            entered.set()
            leave.wait()

    other = threading.Thread(target=hold)
    other.start()
    entered.wait()
    assert torch.get_num_threads() == 2
    with limited_threads(1):
        pass
    leave.set()
    other.join()
    assert torch.get_num_threads() == 2


def test_a_number_of_threads_below_one_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="at least 1, not 0"):
        use_threads(0)

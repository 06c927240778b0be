"""Dropout keeps the right share, scales what it keeps, and draws from its own stream."""

from __future__ import annotations

import pytest
import torch

from crowdprism.networks.dropout import Dropout, set_generator
from crowdprism.seeding import torch_stream


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_stated_share_is_dropped_and_the_rest_scaled_up(share: float) -> None:
    layer = Dropout(share)
    set_generator(layer, torch_stream(0, "dropout"))
    outputs = layer(torch.ones(301, 1003))
    assert float((outputs == 0).float().mean()) == pytest.approx(share, abs=0.005)
    assert torch.allclose(outputs[outputs > 0], torch.tensor(1 / (1 - share)))


def test_the_same_stream_drops_the_same_and_the_global_one_is_left_alone() -> None:
    layer = Dropout(0.5)
    before = torch.random.get_rng_state()
    drawn = []
    for _ in range(2):
        set_generator(layer, torch_stream(1, "dropout"))
        drawn.append(layer(torch.ones(7, 5)))
    assert torch.equal(*drawn)
    assert torch.equal(before, torch.random.get_rng_state())


def test_evaluation_and_a_share_of_zero_change_nothing() -> None:
    inputs = torch.ones(3, 3)
    assert torch.equal(Dropout(0.5).eval()(inputs), inputs)
    assert torch.equal(Dropout(0.0)(inputs), inputs)

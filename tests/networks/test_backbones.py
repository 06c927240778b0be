"""Sizes and shapes of the networks; dropout keeps the right share and draws from its own stream."""

from __future__ import annotations

import copy

import pytest
import torch

from crowdprism.networks import NETWORKS, Dropout, build_network
from crowdprism.networks.backbones import set_generator
from crowdprism.seeding import torch_stream

SHAPES = {"lenet5": (1, 28, 28), "resnet9": (3, 32, 32), "resnet18": (3, 32, 32), "music": (124,), "labelme": (8192,)}
# Counted layer by layer from the published sizes.
PARAMETERS = {
    "lenet5": 61_706,
    "resnet9": 6_575_370,
    "resnet18": 11_173_962,
    "music": 124 * 128 + 128 + 128 * 10 + 10,
    "labelme": 8192 * 128 + 128 + 128 * 8 + 8,
}


@pytest.mark.parametrize("name", SHAPES)
def test_each_published_network_has_the_published_number_of_parameters(name: str) -> None:
    network = build_network(name, SHAPES[name], 8 if name == "labelme" else 10, generator=torch_stream(0, "weights"))
    assert sum(parameter.numel() for parameter in network.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_each_network_gives_one_logit_per_class(name: str) -> None:
    shape = SHAPES.get(name, (12,))
    network = build_network(name, shape, 4, generator=torch_stream(0, "weights")).eval()
    assert network(torch.zeros(2, *shape)).shape == (2, 4)


def test_resnet18_takes_grey_images() -> None:
    network = build_network("resnet18", (1, 28, 28), 10, generator=torch_stream(0, "weights")).eval()
    assert network(torch.zeros(1, 1, 28, 28)).shape == (1, 10)
    assert network[0].padding == (0, 0)


def test_copies_never_carry_the_generator() -> None:
    layer = Dropout(0.25)
    set_generator(layer, torch_stream(0, "dropout"))
    assert copy.deepcopy(layer).generator is None


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

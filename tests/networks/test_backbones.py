"""Sizes, shapes and seeding of the networks."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from crowdprism.errors import InvalidParameterError
from crowdprism.networks import NETWORKS, Dropout, build_network
from crowdprism.networks.backbones import count_parameters
from crowdprism.networks.build import resolve_network
from crowdprism.networks.dropout import set_generator
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
    assert count_parameters(network) == PARAMETERS[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_each_network_gives_one_logit_per_class(name: str) -> None:
    shape = SHAPES.get(name, (12,))
    network = build_network(name, shape, 4, generator=torch_stream(0, "weights")).eval()
    assert network(torch.zeros(2, *shape)).shape == (2, 4)


def test_resnet18_takes_grey_images() -> None:
    network = build_network("resnet18", (1, 28, 28), 10, generator=torch_stream(0, "weights")).eval()
    assert network(torch.zeros(1, 1, 28, 28)).shape == (1, 10)
    assert network[0].padding == (0, 0)


def test_weights_follow_the_generator_and_leave_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    for network in ("resnet9", lambda shape, n_classes: nn.Linear(*shape, n_classes)):
        shape = (3, 32, 32) if network == "resnet9" else (7,)
        twice = [build_network(network, shape, 3, generator=torch_stream(1, "weights")) for _ in range(2)]
        other = build_network(network, shape, 3, generator=torch_stream(2, "weights"))
        for first, second in zip(twice[0].parameters(), twice[1].parameters(), strict=True):
            assert torch.equal(first, second)
        assert not torch.equal(next(iter(twice[0].parameters())), next(iter(other.parameters())))
    assert torch.equal(before, torch.get_rng_state())


def test_weights_are_drawn_as_torch_draws_them() -> None:
    drawn = build_network("linear", (400,), 300, generator=torch_stream(0, "weights"))[1].requires_grad_(False)
    assert float(drawn.weight.abs().max()) <= 1 / 20
    assert float(drawn.weight.std()) == pytest.approx(1 / 20 / 3**0.5, rel=0.02)
    assert float(drawn.bias.abs().max()) <= 1 / 20


def test_dropout_keeps_the_mean_and_repeats_with_its_generator() -> None:
    layer = Dropout(0.25).train()
    set_generator(layer, torch_stream(0, "dropout"))
    first = layer(torch.ones(200, 200))
    assert float(first.mean()) == pytest.approx(1.0, abs=0.01)
    assert float((first == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    set_generator(layer, torch_stream(0, "dropout"))
    assert torch.equal(first, layer(torch.ones(200, 200)))
    assert copy.deepcopy(layer).generator is None
    assert torch.equal(layer.eval()(first), first)


@pytest.mark.parametrize(
    ("network", "shape", "told"),
    [
        ("lenet5", (2, 28, 28), "1 or 3 channels, but items have 2"),
        ("lenet5", (28, 28, 1), "1 or 3 channels, but items have 28"),
        ("lenet5", (1, 32, 32), "28 x 28 images, not 32 x 32"),
        ("resnet9", (20,), "takes images"),
    ],
)
def test_images_that_do_not_fit_are_refused_with_their_shape(network: str, shape: tuple[int, ...], told: str) -> None:
    with pytest.raises(InvalidParameterError, match=told):
        build_network(network, shape, 3, generator=torch_stream(0, "weights"))


def test_a_misspelt_network_lists_the_names() -> None:
    with pytest.raises(InvalidParameterError, match="lenet5, resnet9"):
        resolve_network("lenet", (1, 28, 28))


def test_unknown_network_options_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="network_options"):
        build_network("mlp", (4,), 2, options={"depth": 3}, generator=torch_stream(0, "weights"))

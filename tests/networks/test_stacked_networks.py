"""A stack of networks computes, trains and refuses as its networks do."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from crowdprism.networks import CrowdHead, GeometricHead, build_network, diagonal_confusions, make_annotator_layer
from crowdprism.networks.stacked_networks import StackedNetwork, can_stack
from crowdprism.seeding import torch_stream


def networks(name: str = "music", *, n: int = 3, **options: object) -> list[nn.Module]:
    return [build_network(name, (5,), 3, options=options, generator=torch_stream(seed, "weights")) for seed in range(n)]


def heads(n: int = 3, **options: object) -> list[GeometricHead]:
    form, touched = options.pop("form", "free"), options.pop("touched_only", None)
    start = diagonal_confusions(4, 3, 0.6)
    return [GeometricHead(make_annotator_layer(form, start, touched_only=touched), **options) for _ in range(n)]


def test_a_stack_of_networks_computes_what_they_compute() -> None:
    own = [network.eval() for network in networks()]
    features = torch.randn(4, 5, generator=torch_stream(0, "features"))
    apart = torch.cat([network(features) for network in own])
    assert torch.allclose(StackedNetwork(own).eval()(features.repeat(3, 1)), apart, atol=1e-6)


def test_gradients_and_running_statistics_reach_each_network() -> None:
    features = torch.randn(3 * 6, 5, generator=torch_stream(0, "features"))
    together, alone = ([nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3)) for _ in range(3)] for _ in range(2))
    for first, second in zip(together, alone, strict=True):
        second.load_state_dict(first.state_dict())
    stack = StackedNetwork(together).train()
    stack(features).square().sum().backward()
    stack.write_back()
    for network, reference, own in zip(together, alone, features.chunk(3), strict=True):
        reference(own).square().sum().backward()
        for first, second in zip(network.parameters(), reference.parameters(), strict=True):
            assert torch.allclose(first.grad, second.grad, atol=1e-4)
        assert torch.allclose(network[0].running_mean, reference[0].running_mean, atol=1e-6)
        assert torch.allclose(network[0].running_var, reference[0].running_var, atol=1e-6)
        assert int(network[0].num_batches_tracked) == 1


def test_models_in_a_stack_drop_different_units() -> None:
    twice = networks("mlp", n=2, dropout=0.5)
    twice[1].load_state_dict(twice[0].state_dict())
    first, second = StackedNetwork(twice).train()(torch.ones(2, 5)).chunk(2)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    ("chosen", "crowd", "possible"),
    [
        (networks(), heads(), True),
        (networks(), heads(form="pooled"), True),
        (networks(), heads(form="skill"), False),
        (networks(), heads(touched_only=True), False),
        (networks(), [*heads(2), *heads(1, loss="joint")], False),
        (networks(), [CrowdHead()] * 3, False),
        ([*networks(n=2), *networks("mlp", n=1)], heads(), False),
        ([*networks("mlp", n=2), *networks("mlp", n=1, hidden=(7,))], heads(), False),
        ([*networks("mlp", n=2), *networks("mlp", n=1, dropout=0.1)], heads(), False),
        ([nn.Linear(5, 3) for _ in range(3)], heads(), False),
    ],
)
def test_only_equal_chains_of_plain_layers_with_alike_heads_can_be_stacked(
    chosen: list[nn.Module], crowd: list[CrowdHead], possible: bool
) -> None:
    assert can_stack(chosen, crowd) is possible

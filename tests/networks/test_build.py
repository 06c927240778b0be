"""Networks by name, factory or module: seeded weights, shapes that fit, errors that say what does not."""

from __future__ import annotations

import copy
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from crowdprism.errors import InvalidParameterError
from crowdprism.networks import NETWORKS, Dropout, build, build_network
from crowdprism.networks.build import (
    EmbeddingTap,
    global_stream,
    initialize,
    remove_last_linear,
    resolve_network,
    seeded,
    set_generator,
)
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


@pytest.mark.parametrize("layer", [lambda: nn.LayerNorm(4), lambda: nn.Embedding(3, 4), lambda: nn.GRU(4, 4)])
def test_a_layer_that_initialize_does_not_know_is_an_error_and_not_garbage(layer) -> None:
    with pytest.raises(NotImplementedError, match=f"{type(layer()).__name__} starts, and its weight"):
        seeded(lambda: nn.Sequential(nn.Linear(4, 4), layer()), torch.Generator())


def test_a_named_network_with_an_unknown_layer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(build.FEATURE_NETWORKS, "linear", lambda n, k: nn.Sequential(nn.Linear(n, k), nn.LayerNorm(k)))
    with pytest.raises(NotImplementedError, match="LayerNorm"):
        build_network("linear", (4,), 3, generator=torch.Generator())


def test_batch_norms_start_as_torch_starts_them() -> None:
    norm = nn.BatchNorm1d(3)
    with torch.no_grad():
        for tensor in (*norm.parameters(), norm.running_mean, norm.running_var):
            tensor.fill_(7.0)
    initialize(norm, torch.Generator())
    fresh = nn.BatchNorm1d(3).state_dict()
    assert all(torch.equal(tensor, fresh[name]) for name, tensor in norm.state_dict().items())


def test_threads_that_borrow_the_global_stream_draw_what_they_draw_alone() -> None:
    together = threading.Barrier(2)

    def draw(seed: int) -> torch.Tensor:
        generator = torch_stream(seed, "lent")
        together.wait()
        drawn = []
        for _ in range(20):
            with global_stream(generator):
                time.sleep(0.001)  # lets the other thread in
                drawn.append(torch.rand(3))
        return torch.stack(drawn)

    before = torch.get_rng_state()
    with ThreadPoolExecutor(2) as pool:
        at_once = list(pool.map(draw, (0, 1)))
    together = threading.Barrier(1)
    assert all(torch.equal(found, draw(seed)) for seed, found in enumerate(at_once))
    assert torch.equal(before, torch.get_rng_state())


def test_the_embedding_is_what_the_last_linear_layer_sees() -> None:
    network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    features = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    tap = EmbeddingTap(network)
    network(features)
    seen = tap.value
    tap.remove()
    assert remove_last_linear(network) == tap.width == 5
    assert torch.equal(network(features), seen)
    with pytest.raises(InvalidParameterError, match=r"no torch\.nn\.Linear inside"):
        EmbeddingTap(nn.Linear(2, 2))


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

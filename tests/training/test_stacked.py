"""A stack of models is the same models, trained together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from crowdprism.networks import CrowdHead, GeometricHead, build_network, make_annotator_layer
from crowdprism.networks.annotator_layer import diagonal_confusions
from crowdprism.networks.build import initialize
from crowdprism.seeding import torch_stream
from crowdprism.simulate import one_coin, per_item, simulate_annotations
from crowdprism.training import Augmentation, FlatAnnotations, InputScaling, TensorItems, Trainer, TrainingSettings
from crowdprism.training.stacked import StackedModel, StackedNetwork, StackedTrainer, can_stack

N_ITEMS, N_CLASSES, N_ANNOTATORS = 90, 3, 6
SETTINGS = TrainingSettings(
    hold_annotators=0.1, epochs=4, batch_size=16, learning_rate=3e-3, annotator_learning_rate=3e-2, warm_start=0.25
)


@pytest.fixture(scope="module")
def data():
    truth = np.arange(N_ITEMS) % N_CLASSES
    annotations = simulate_annotations(
        truth, one_coin(np.linspace(0.5, 0.95, N_ANNOTATORS), N_CLASSES), per_item(N_ITEMS, N_ANNOTATORS, labels=2)
    ).with_gold(None)
    random = np.random.default_rng(0)
    features = torch.from_numpy(np.eye(N_CLASSES)[truth] * 2 + random.normal(size=(N_ITEMS, N_CLASSES))).float()
    items = TensorItems(features, InputScaling.identity(), torch.device("cpu"))
    return items, FlatAnnotations.of(annotations), annotations, truth


def normed_network(generator: torch.Generator) -> nn.Module:
    """Batch norms as the published head for music has them: not behind a bias, which would have no gradient."""
    network = nn.Sequential(
        nn.Flatten(), nn.BatchNorm1d(3, affine=False), nn.Linear(3, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3)
    )
    initialize(network, generator)
    return network


def make_model(
    settings: TrainingSettings,
    *,
    options: dict | None,
    loss: str,
    regularizer: str | None,
    strength: float,
    form: str = "free",
):
    generator = torch_stream(settings.seed, "weights", settings.member)
    network = (
        normed_network(generator)
        if options is None
        else build_network("mlp", (3,), N_CLASSES, options=options, generator=generator)
    )
    layer = make_annotator_layer(form, diagonal_confusions(N_ANNOTATORS, N_CLASSES, 0.7))
    head = GeometricHead(
        layer, loss=loss, temper=0.5, regularizer=regularizer, strength=strength, shrinkage=1.0, n_annotations=180
    )
    return StackedModel(network, head, settings)


@pytest.mark.parametrize("loss", ["ccem", "joint"])
@pytest.mark.parametrize("regularizer", ["F", "W", None])
@pytest.mark.parametrize(("form", "batch_norm"), [("free", False), ("pooled", True)])
def test_models_in_a_stack_end_where_they_end_alone(
    data, loss: str, regularizer: str | None, form: str, batch_norm: bool
) -> None:
    items, flat, _, _ = data
    variants = [
        (replace(SETTINGS, seed=0), 0.05),
        (replace(SETTINGS, seed=1, learning_rate=1e-2, annotator_learning_rate=1e-2), 0.05),
        (replace(SETTINGS, seed=2, weight_decay=1e-2), 0.2),
        (replace(SETTINGS, seed=2, member=1), 0.2),
    ]
    # Adam divides the rounding errors of a unit that is nearly dead by themselves, and a batch norm enlarges them.
    close = 5e-3 if batch_norm else 2e-5
    options = None if batch_norm else {"hidden": (8,), "dropout": 0.0}

    def make():
        return [
            make_model(settings, options=options, loss=loss, regularizer=regularizer, strength=strength, form=form)
            for settings, strength in variants
        ]

    (features,) = items.batches([np.arange(N_ITEMS)], None)
    together, alone = make(), make()
    StackedTrainer(together, items, flat).run()
    for stacked, single in zip(together, alone, strict=True):
        Trainer(single.network, single.head, items, flat, single.settings).run()
        with torch.no_grad():
            assert torch.allclose(stacked.network(features), single.network(features), atol=close)
        assert torch.allclose(stacked.head.confusions(), single.head.confusions(), atol=close)


def test_each_model_keeps_its_own_best_epoch(data) -> None:
    items, flat, _, _ = data
    models = [
        make_model(
            replace(SETTINGS, seed=seed, keep_best=True), options={}, loss="joint", regularizer="F", strength=0.1
        )
        for seed in range(3)
    ]
    seen = []

    wanted = [1, 3, 0]  # the epoch that is to be best, per model

    def measure(probs: np.ndarray, confusions: np.ndarray) -> float:
        assert confusions.shape == (N_ANNOTATORS, N_CLASSES, N_CLASSES)
        seen.append(torch.from_numpy(probs).float())
        epoch, place = divmod(len(seen) - 1, 3)
        return float(epoch == wanted[place])

    trainer = StackedTrainer(models, items, flat, measure=measure)
    trainer.run()
    assert [outcome.best_epoch for outcome in trainer.outcomes()] == wanted
    (features,) = items.batches([np.arange(N_ITEMS)], None)
    for place, (model, epoch) in enumerate(zip(models, wanted, strict=True)):
        with torch.no_grad():
            assert torch.allclose(torch.softmax(model.network(features), dim=-1), seen[3 * epoch + place], atol=1e-5)


def test_the_same_seed_gives_the_same_stack(data) -> None:
    items, flat, _, _ = data

    def train() -> list[torch.Tensor]:
        settings = replace(SETTINGS, augmentation=Augmentation(noise=0.5))
        models = [
            make_model(replace(settings, seed=seed), options={}, loss="joint", regularizer="F", strength=0.1)
            for seed in range(2)
        ]
        before = torch.random.get_rng_state()
        StackedTrainer(models, items, flat).run()
        assert torch.equal(before, torch.random.get_rng_state())
        return [parameter.detach() for model in models for parameter in model.network.parameters()]

    assert all(torch.equal(first, second) for first, second in zip(train(), train(), strict=True))


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
    models = [StackedModel(*pair, SETTINGS) for pair in zip(chosen, crowd, strict=True)]
    assert can_stack(models) is possible


def test_only_alike_settings_can_be_stacked() -> None:
    def possible(*settings: TrainingSettings) -> bool:
        parts = zip(networks(n=len(settings)), heads(len(settings)), settings, strict=True)
        return can_stack([StackedModel(*own) for own in parts])

    assert possible(SETTINGS, replace(SETTINGS, seed=4, weight_decay=0.1))
    assert not possible(SETTINGS, replace(SETTINGS, epochs=5))
    assert not possible(replace(SETTINGS, augmentation=Augmentation(mixup=1.0)))
    assert not possible(replace(SETTINGS, clip_norm=1.0))

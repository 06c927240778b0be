"""DoctorNet: one output per annotator, averaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.classifiers import DoctorNet, TwoStage, load_classifier
from crowdprism.classifiers.doctornet import DoctorHead, DoctorNetwork
from crowdprism.errors import InvalidParameterError

SMALL: dict[str, Any] = {
    "epochs": 6,
    "network_options": {"hidden": (16,)},
    "learning_rate": 0.01,
    "input_noise": 0.0,
    "temperature": 1.0,
}


def test_with_one_annotator_it_is_plain_training(lone_annotator: Any) -> None:
    crowd = lone_annotator
    doctor = DoctorNet(**SMALL).fit(crowd.features, crowd.annotations)
    plain = TwoStage(**SMALL).fit(crowd.features, crowd.annotations)
    assert np.allclose(doctor.predict_proba(crowd.features), plain.predict_proba(crowd.features), atol=1e-5)


def small_network(n_annotators: int) -> DoctorNetwork:
    trunk = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    network = DoctorNetwork(trunk, n_annotators, 3)
    with torch.no_grad():
        network.outputs.values.normal_(generator=torch.Generator().manual_seed(0))
    return network.eval()


def test_the_prediction_is_the_weighted_average_of_the_annotators_outputs() -> None:
    network = small_network(2)
    with torch.no_grad():
        network.influence.values.copy_(torch.tensor([2.0, 0.0]))  # weights 3 and 1
    features = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    hidden = network.trunk(features)
    first, second = (
        torch.softmax(hidden @ outputs[:, :-1].T + outputs[:, -1], dim=1) for outputs in network.outputs.values
    )
    assert torch.allclose(network(features).exp(), 0.75 * first + 0.25 * second, atol=1e-6)


def test_annotators_without_labels_take_no_part_in_the_average() -> None:
    network = small_network(2)
    features = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    network.counted.copy_(torch.tensor([1.0, 0.0]))
    outputs = network.outputs.values[0]
    alone = torch.softmax(network.trunk(features) @ outputs[:, :-1].T + outputs[:, -1], dim=1)
    assert torch.allclose(network(features).exp(), alone, atol=1e-6)


def test_learning_weights_leaves_network_and_outputs_untouched(crowd: Any) -> None:
    network = small_network(5).train()
    batch = crowd.batch()
    gradients = []
    for weighted in (False, True):
        network.zero_grad()
        network.outputs.forget()
        network.influence.forget()
        network(batch.features)
        DoctorHead(network, weighted=weighted).loss(crowd.log_class_probs(), batch).backward()
        gradients.append((network.trunk[0].weight.grad.clone(), network.outputs.working()[1].grad.clone()))  # type: ignore
    assert all(torch.equal(plain, weighted) for plain, weighted in zip(*gradients, strict=True))
    assert network.influence.working()[1].grad.abs().sum() > 0  # type: ignore


def test_a_better_imitated_annotator_gets_more_weight(crowd: Any) -> None:
    model = DoctorNet(weighted=True, **{**SMALL, "epochs": 30}).fit(crowd.features, crowd.annotations)
    weights = model.predictor_.members[0].network.influence.values  # skills fall from 0.9 to 0.5
    assert weights[:2].mean() > weights[3:].mean()


def test_it_has_no_confusions_and_says_why(crowd: Any, tmp_path: Any) -> None:
    model = DoctorNet(**SMALL).fit(crowd.features, crowd.annotations)
    assert model.confusions_ is None
    with pytest.raises(InvalidParameterError, match="geocrowdnet does"):
        model.label_posterior(crowd.features, crowd.annotations)
    loaded = load_classifier(model.save(tmp_path / "run"))
    assert np.array_equal(loaded.predict_proba(crowd.features), model.predict_proba(crowd.features))


def test_weights_that_depend_on_the_item_start_equal_and_follow_the_embedding() -> None:
    trunk = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    network = DoctorNetwork(trunk, 2, 3, by_item=True, squeeze=torch.nn.Linear(4, 2)).eval()
    with torch.no_grad():
        network.outputs.values.normal_(generator=torch.Generator().manual_seed(0))
        features = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
        hidden = network.trunk(features)
        first, second = (torch.softmax(hidden @ own[:, :-1].T + own[:, -1], dim=1) for own in network.outputs.values)
        assert torch.allclose(network(features).exp(), (first + second) / 2, atol=1e-6)
        network.sight.values.copy_(torch.tensor([[1.0, 0.5], [0.0, 0.0]]))  # type: ignore[union-attr]
        weight = (1 + network.squeeze(hidden) @ torch.tensor([1.0, 0.5])).clamp_min(1e-6).unsqueeze(1)
        assert torch.allclose(network(features).exp(), (weight * first + second) / (weight + 1), atol=1e-6)


@pytest.mark.parametrize("bottleneck", [None, 2])
def test_weights_of_items_are_learned(crowd: Any, bottleneck: int | None) -> None:
    model = DoctorNet(weighted="item", bottleneck=bottleneck, **SMALL).fit(crowd.features, crowd.annotations)
    sight = model.predictor_.members[0].network.sight.values
    assert sight.shape == (5, 16 if bottleneck is None else 2)
    assert sight.abs().sum() > 0
    assert model.result_.method == ("doctornet-item" if bottleneck is None else "doctornet-bottleneck")
    with pytest.raises(InvalidParameterError, match="use weighted='item' with it"):
        DoctorNet(bottleneck=2).fit(crowd.features, crowd.annotations)

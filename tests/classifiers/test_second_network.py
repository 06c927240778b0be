"""Instance-dependent confusions: reductions, and annotators who err on one kind of item only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.annotations import Annotations
from crowdprism.classifiers import InstanceConfusions
from crowdprism.classifiers.second_network import SecondNetworkHead
from crowdprism.networks import coupled_cross_entropy, diagonal_confusions, log_columns
from crowdprism.networks.build import EmbeddingTap


def make_head(strength: float) -> tuple[SecondNetworkHead, torch.nn.Module]:
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    head = SecondNetworkHead(InstanceConfusions(), EmbeddingTap(network), 5, 3, seed=0, member=0)
    head.strength = strength
    return head.eval(), network


def test_without_dependence_on_items_it_is_coupled_cross_entropy_with_the_trace(crowd: Any) -> None:
    head, network = make_head(0.5)
    with torch.no_grad():
        head.mixer[-1].weight.zero_()  # type: ignore[index]
    batch = crowd.batch()
    log_probs = torch.log_softmax(network(batch.features), dim=1)
    columns = log_columns(diagonal_confusions(5, 3, 0.9).log(), batch.annotator, batch.label)
    assert torch.allclose(head.loss(log_probs, batch), coupled_cross_entropy(log_probs, columns, batch.item), rtol=1e-5)
    assert float(head.penalties(log_probs, batch)["trace"].detach()) == pytest.approx(0.5 * 3 * 0.9, abs=1e-4)
    assert make_head(0.0)[0].penalties(log_probs, batch) == {}


def test_errors_on_one_kind_of_item_are_learned() -> None:
    # Half of the annotators mistake class 1 for class 0 wherever the second feature is large.
    random = np.random.default_rng(0)
    truth, hard = random.integers(2, size=(2, 500))
    features = np.stack([4 * truth + random.normal(size=500), 4.0 * hard], axis=1).astype(np.float32)
    sloppy = np.where(hard == 1, 0, truth)
    table = np.stack([truth, truth, truth, sloppy, sloppy], axis=1)
    model = InstanceConfusions(epochs=10, input_noise=0.0, temperature=1.0, standardize=True)
    model.fit(features, Annotations.from_dense(table))
    assert model.score(features, truth) > 0.93

"""annot-mix: mixing of triples and its reductions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.annotations import Annotations
from crowdprism.classifiers import AnnotMix, InstanceConfusions
from crowdprism.classifiers.annot_mix import AnnotatorMixHead, SecondNetworkHead
from crowdprism.errors import InvalidParameterError
from crowdprism.networks import coupled_cross_entropy, diagonal_confusions
from crowdprism.networks.build import EmbeddingTap
from crowdprism.networks.losses import log_columns

SMALL: dict[str, Any] = {"epochs": 3, "network_options": {"hidden": (16,)}, "input_noise": 0.0, "temperature": 1.0}


def make_head(alpha: float = 1.0, n_annotators: int = 5) -> tuple[AnnotatorMixHead, torch.nn.Module]:
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    head = AnnotatorMixHead(AnnotMix(alpha=alpha), EmbeddingTap(network), n_annotators, 3, seed=0, member=0)
    return head.eval(), network  # without dropout and batch statistics


def test_with_mixing_off_a_batch_stays_as_it_is(crowd: Any) -> None:
    head, _ = make_head(alpha=0.0)
    batch = crowd.batch()
    assert head.transform(batch, np.random.default_rng(0)) is batch


def test_shares_of_one_are_the_loss_without_mixing(crowd: Any) -> None:
    head, network = make_head()
    plain_batch = crowd.batch()
    plain = head.loss(torch.log_softmax(network(plain_batch.features), dim=1), plain_batch)
    batch = head.transform(plain_batch, np.random.default_rng(0))
    n = len(batch.label)
    certain = replace(batch, share=torch.ones(n), features=plain_batch.features.index_select(0, plain_batch.item))
    mixed = head.loss(torch.log_softmax(network(certain.features), dim=1), certain)
    assert torch.allclose(plain, mixed, rtol=1e-5)


def test_without_dependence_on_items_it_is_coupled_cross_entropy(crowd: Any) -> None:
    head, network = make_head(alpha=0.0)
    with torch.no_grad():
        head.mixer[-1].weight.zero_()  # type: ignore[index]
    batch = crowd.batch()
    log_probs = torch.log_softmax(network(batch.features), dim=1)
    columns = log_columns(diagonal_confusions(5, 3, 0.9).log(), batch.annotator, batch.label)
    assert torch.allclose(head.loss(log_probs, batch), coupled_cross_entropy(log_probs, columns, batch.item), rtol=1e-5)
    assert torch.allclose(head.confusions(), diagonal_confusions(5, 3, 0.9), atol=1e-5)


def test_items_annotators_and_labels_are_mixed_by_the_same_share(crowd: Any) -> None:
    head, _ = make_head()
    before = crowd.batch()
    batch = head.transform(before, np.random.default_rng(0))
    rows = before.features.index_select(0, before.item)
    for place in (0, 7):
        share, partner = batch.share[place], batch.partner[place]  # type: ignore[index]
        assert torch.allclose(batch.features[place], share * rows[place] + (1 - share) * rows[partner])
    assert len(batch.features) == len(before.label)
    assert bool(((batch.share >= 0) & (batch.share <= 1)).all())  # type: ignore[operator]


def test_the_loss_of_a_mixture_equals_the_formula_annotation_by_annotation(crowd: Any) -> None:
    head, network = make_head()
    with torch.no_grad():
        head.of_annotator.values.normal_(std=3.0, generator=torch.Generator().manual_seed(0))
    batch = head.transform(crowd.batch(), np.random.default_rng(0))
    log_probs = torch.log_softmax(network(batch.features), dim=1)
    embedding = network[:2](batch.features)  # type: ignore[index]
    slow = torch.zeros(())
    for place in range(len(batch.label)):
        share, partner = batch.share[place], batch.partner[place]  # type: ignore[index]
        table = head.of_annotator.values
        mixed = share * table[batch.annotator[place]] + (1 - share) * table[batch.annotator[partner]]
        confusion = head.log_confusions_of(mixed[None], embedding[place][None])[0].exp()
        labels = log_probs[place].exp() @ confusion
        slow = slow - share * labels[batch.label[place]].log() - (1 - share) * labels[batch.label[partner]].log()
    assert head.loss(log_probs, batch).item() == pytest.approx(slow.item(), rel=1e-4)


def test_confusions_do_not_shape_the_network(crowd: Any) -> None:
    head, network = make_head(alpha=0.0)
    batch = crowd.batch()
    log_probs = torch.log_softmax(network(batch.features), dim=1)
    head.loss(log_probs.detach(), batch).backward()
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_batch_with_a_single_annotation_can_be_trained_on() -> None:
    truth = np.arange(9) % 3
    features = np.eye(3, dtype=np.float32)[truth]
    model = AnnotMix(batch_size=1, **SMALL).fit(features, truth[:, None])
    assert np.isfinite(model.predict_proba(features)).all()


def test_the_network_is_left_without_hooks(crowd: Any) -> None:
    model = AnnotMix(**SMALL).fit(crowd.features, crowd.annotations)
    assert not any(part._forward_pre_hooks for part in model.predictor_.members[0].network.modules())


def test_two_kinds_of_mixing_at_once_are_refused(crowd: Any) -> None:
    with pytest.raises(InvalidParameterError, match="alpha=0"):
        AnnotMix(mixup=1.0).fit(crowd.features, crowd.annotations)


def make_second_head(strength: float) -> tuple[SecondNetworkHead, torch.nn.Module]:
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    head = SecondNetworkHead(InstanceConfusions(), EmbeddingTap(network), 5, 3, seed=0, member=0)
    head.strength = strength
    return head.eval(), network


def test_without_dependence_on_items_it_is_coupled_cross_entropy_with_the_trace(crowd: Any) -> None:
    head, network = make_second_head(0.5)
    with torch.no_grad():
        head.mixer[-1].weight.zero_()  # type: ignore[index]
    batch = crowd.batch()
    log_probs = torch.log_softmax(network(batch.features), dim=1)
    columns = log_columns(diagonal_confusions(5, 3, 0.9).log(), batch.annotator, batch.label)
    assert torch.allclose(head.loss(log_probs, batch), coupled_cross_entropy(log_probs, columns, batch.item), rtol=1e-5)
    assert float(head.penalties(log_probs, batch)["trace"].detach()) == pytest.approx(0.5 * 3 * 0.9, abs=1e-4)
    assert make_second_head(0.0)[0].penalties(log_probs, batch) == {}


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

"""Coupled-view learning: which items are easy, and what each view takes from the other."""

from __future__ import annotations

from typing import Any

import torch

from crowdprism.classifiers import CoupledView
from crowdprism.classifiers.coupled_view import CoupledViewHead, small_loss
from crowdprism.networks import EpochView, diagonal_confusions
from crowdprism.networks.losses import counted_confusions, expected_counts, log_posterior


def test_the_easy_items_of_each_label_are_those_of_the_highest_probability() -> None:
    log_probs = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7], [0.99, 0.01]]).log()
    label = torch.tensor([0, 0, 1, 1, 0])
    among = torch.tensor([True, True, True, True, False])
    assert small_loss(log_probs, label, among, 0.5).tolist() == [1, 0, 1, 0, 0]
    assert small_loss(log_probs, label, among, 1.0).tolist() == [1, 1, 1, 1, 0]


def test_in_the_last_round_targets_are_the_posterior_of_the_labels_and_counts_those_of_the_network(crowd: Any) -> None:
    method = CoupledView(epochs=4, epochs_per_round=1)
    batch, log_probs = crowd.batch(), crowd.log_class_probs()
    start = diagonal_confusions(5, 3, 0.8)
    head = CoupledViewHead(method, torch.full((120, 3), 1 / 3), torch.ones(120, dtype=torch.bool), start)
    given = batch.item, batch.annotator, batch.label, None
    head.end_epoch(EpochView(3, *given, torch.nn.Identity(), lambda: log_probs))
    by_labels = log_posterior(torch.zeros(120, 3), start, *given, smallest=method.smallest).exp()
    assert torch.allclose(head.targets, by_labels, atol=1e-6)
    counts = expected_counts(log_probs.exp(), *given, 5)
    assert torch.allclose(head.confusions(), counted_confusions(counts, method.smoothing), atol=1e-6)  # type: ignore


def test_hard_items_wait(crowd: Any) -> None:
    method = CoupledView(epochs=10, first_share=0.5)
    batch, log_probs = crowd.batch(), crowd.log_class_probs()
    votes = torch.full((120, 3), 1 / 3)
    head = CoupledViewHead(method, votes, torch.ones(120, dtype=torch.bool), diagonal_confusions(5, 3, 0.8))
    head.end_epoch(EpochView(0, batch.item, batch.annotator, batch.label, None, torch.nn.Identity(), lambda: log_probs))
    used = int((head.targets.sum(dim=1) > 0).sum())
    assert 60 <= used <= 70  # 55 %


def test_it_learns_a_crowd_of_mixed_skill(crowd: Any) -> None:
    model = CoupledView(epochs=15, input_noise=0.0, temperature=1.0).fit(crowd.features, crowd.annotations)
    assert model.score(crowd.features, crowd.truth) > 0.75
    accuracy = model.annotator_accuracy_
    assert accuracy is not None
    assert accuracy[0] > accuracy[4]

"""VolMinNet and T-Revision: one matrix for all labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.classifiers import TRevision, VolMinNet
from crowdprism.classifiers.one_noise import OneMatrixHead, RevisionHead
from crowdprism.networks import EpochView, diagonal_confusions
from crowdprism.networks.losses import coupled_cross_entropy, label_cross_entropy, log_columns
from crowdprism.simulate import pair_flip, per_item, simulate_annotations

PLAIN = {"input_noise": 0.0, "temperature": 1.0}


def test_the_loss_is_coupled_cross_entropy_with_equal_confusions(crowd: Any) -> None:
    head = OneMatrixHead(5, diagonal_confusions(1, 3, 0.8)[0])
    batch, log_probs = crowd.batch(), crowd.log_class_probs()
    columns = log_columns(diagonal_confusions(5, 3, 0.8).log(), batch.annotator, batch.label)
    assert torch.allclose(head.loss(log_probs, batch), coupled_cross_entropy(log_probs, columns, batch.item))


def test_the_volume_is_the_log_of_the_determinant(crowd: Any) -> None:
    matrix = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    head = OneMatrixHead(5, matrix, strength=0.5)
    (term,) = head.penalties(crowd.log_class_probs(), crowd.batch()).values()
    assert float(term.detach()) == pytest.approx(0.5 * float(torch.linalg.slogdet(matrix)[1]), abs=1e-4)
    assert OneMatrixHead(5, matrix).penalties(crowd.log_class_probs(), crowd.batch()) == {}


def test_revision_starts_as_plain_training_and_reads_the_matrix_at_anchors(crowd: Any) -> None:
    head = RevisionHead(5, 3, anchor_epoch=1)
    batch, log_probs = crowd.batch(), crowd.log_class_probs()
    head.start_epoch(0)
    plain = label_cross_entropy(log_probs.index_select(0, batch.item), batch.label)
    assert torch.allclose(head.loss(log_probs, batch), plain)
    nothing = torch.zeros(0, dtype=torch.long)
    head.end_epoch(EpochView(0, nothing, nothing, nothing, None, torch.nn.Identity(), lambda: log_probs))
    rows = [log_probs[log_probs[:, k].argsort()[-12:]].exp().mean(dim=0) for k in range(3)]  # 0.3 of 120 / 3
    assert torch.allclose(head.confusions()[4], torch.stack(rows), atol=1e-5)
    head.start_epoch(1)
    columns = log_columns(head.confusions().log(), batch.annotator, batch.label)
    assert torch.allclose(head.loss(log_probs, batch), coupled_cross_entropy(log_probs, columns, batch.item))


@pytest.mark.parametrize(("method", "error"), [(VolMinNet(strength=0.1), 0.1), (TRevision(), 0.2)], ids=["volume", "T"])
def test_a_lone_annotator_who_confuses_classes_in_pairs_is_seen_through(method: Any, error: float) -> None:
    random = np.random.default_rng(0)
    truth = np.arange(600) % 3
    features = (5 * np.eye(3)[truth] + random.normal(size=(600, 3))).astype(np.float32)
    flips = pair_flip(1, 3, flip=0.35)
    annotations = simulate_annotations(truth, flips, per_item(600, 1, labels=1)).with_gold(None)
    model = method.set_params(epochs=25, **PLAIN).fit(features, annotations)
    assert model.score(features, truth) > 0.98
    assert np.abs(model.confusions_ - flips).max() < error

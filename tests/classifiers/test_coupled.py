"""TraceReg: its term, its start and what it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.annotations import Annotations
from crowdprism.classifiers import COINNet, GeoCrowdNet, TraceReg, TRevision, VolMinNet
from crowdprism.classifiers.coupled import OneMatrixHead, OutlierHead, RevisionHead, TraceHead
from crowdprism.errors import UnsuitableDataError
from crowdprism.networks import EpochView, coupled_cross_entropy, diagonal_confusions
from crowdprism.networks.losses import label_cross_entropy, log_columns
from crowdprism.simulate import pair_flip, per_item, simulate_annotations
from crowdprism.training import FlatAnnotations


def head(**options: Any) -> TraceHead:
    chosen: dict[str, Any] = {"strength": 0.1, "reduction": "mean", "positive": "softplus", "vote_epochs": 0} | options
    return TraceHead(TraceReg(**chosen), 5, 3, touch_rate=torch.ones(5))


def test_the_mean_trace_falls_as_its_weight_grows(crowd: Any) -> None:
    traces = []
    for strength in (0.0, 0.3, 3.0):
        model = TraceReg(
            strength=strength,
            positive="softmax",
            epochs=8,
            network_options={"hidden": (16,)},
            input_noise=0.0,
            temperature=1.0,
        )
        model.fit(crowd.features, crowd.annotations)
        traces.append(float(np.einsum("mkk->m", model.confusions_).mean()))
    assert traces[0] > traces[1] > traces[2]


def test_the_start_is_the_normalised_softplus_of_six_times_identity_minus_five() -> None:
    positive = np.log1p(np.exp(6 * np.eye(3) - 5))
    expected = positive / positive.sum(axis=1, keepdims=True)
    assert np.allclose(head().confusions()[0].numpy(), expected, atol=1e-6)
    assert expected[0, 0] > 0.95


def test_the_sum_of_traces_is_the_mean_times_the_number_of_annotators(crowd: Any) -> None:
    batch, log_probs = crowd.batch(), crowd.log_class_probs()
    mean = head(reduction="mean").penalties(log_probs, batch)["trace"].item()
    total = head(reduction="sum").penalties(log_probs, batch)["trace"].item()
    assert total == pytest.approx(5 * mean, rel=1e-6)
    assert mean == pytest.approx(0.1 * float(torch.trace(head().confusions()[0])), rel=1e-5)


def test_during_the_vote_epochs_confusions_get_no_gradient(crowd: Any) -> None:
    voting = head(vote_epochs=2)
    voting.start_epoch(0)
    log_probs = crowd.log_class_probs().requires_grad_()
    voting.loss(log_probs, crowd.batch()).backward()
    assert voting.table.values.grad is None
    assert log_probs.grad is not None
    voting.start_epoch(2)
    voting.loss(log_probs, crowd.batch()).backward()
    assert voting.table.values.grad is not None


SMALL: dict[str, Any] = {
    "epochs": 8,
    "network_options": {"hidden": (16,)},
    "random_state": 1,
    "input_noise": 0.0,
    "temperature": 1.0,
}


def test_with_an_infinite_price_of_outliers_it_is_geocrowdnet_f(crowd: Any) -> None:
    model = COINNet(strength=0.02, outlier_strength=float("inf"), **SMALL).fit(crowd.features, crowd.annotations)
    plain = GeoCrowdNet(
        regularizer="F", strength=0.02, loss="ccem", confusion_form="free", shrinkage=0.0, start_diagonal=0.6, **SMALL
    ).fit(crowd.features, crowd.annotations)
    assert np.allclose(model.predict_proba(crowd.features), plain.predict_proba(crowd.features), atol=1e-6)
    assert np.allclose(model.confusions_, plain.confusions_, atol=1e-6)


def test_outliers_shrink_as_their_price_grows(crowd: Any) -> None:
    sizes = []
    for price in (0.0, 0.1, 10.0):
        model = COINNet(outlier_strength=price, warm_start=0.0, **SMALL).fit(crowd.features, crowd.annotations)
        sizes.append(float(model.outlier_scores_.mean()))
    assert sizes[0] > sizes[1]
    assert sizes[2] < 0.2 * sizes[0]


def outlier_head(crowd: Any) -> OutlierHead:
    flat = FlatAnnotations.of(crowd.annotations)
    return OutlierHead(diagonal_confusions(5, 3, 0.7), torch.from_numpy(flat.item), flat.n_items, 0.0, 0.1)


def test_without_deviations_the_loss_is_the_coupled_one(crowd: Any) -> None:
    head, batch, log_probs = outlier_head(crowd), crowd.batch(), crowd.log_class_probs()
    plain = coupled_cross_entropy(log_probs, head.layer.log_columns(batch), batch.item)
    assert torch.allclose(head.loss(log_probs, batch), plain, rtol=1e-5)


def test_terms_are_stored_for_made_annotations_only_and_sum_to_zero(crowd: Any) -> None:
    head = outlier_head(crowd)
    assert head.outliers is not None
    assert head.outliers.values.shape == (crowd.annotations.n_annotations, 3)
    with torch.no_grad():
        head.outliers.values.normal_(generator=torch.Generator().manual_seed(0))
    terms = head.terms(head.outliers.rows(crowd.batch()))
    assert torch.allclose(terms.sum(dim=1), torch.zeros(len(terms)), atol=1e-6)


def test_a_planted_outlier_has_the_largest_score() -> None:
    truth = np.arange(90) % 3
    table = np.stack([truth] * 4, axis=1)
    table[0] = 2  # everybody calls item 0, which looks like class 0, a 2
    features = 4 * np.eye(3)[truth]
    model = COINNet(epochs=40, strength=0.0, outlier_strength=0.001, warm_start=0.0, input_noise=0.0, temperature=1.0)
    model.fit(features.astype(np.float32), Annotations.from_dense(table))
    assert int(model.outlier_scores_.argmax()) == 0


def test_a_lone_annotator_is_refused_and_another_method_named(lone_annotator: Any) -> None:
    with pytest.raises(UnsuitableDataError, match=r"coinnet .* at least two .* geocrowdnet-f"):
        COINNet().fit(lone_annotator.features, lone_annotator.annotations)


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

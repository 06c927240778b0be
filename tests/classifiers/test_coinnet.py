"""COINNet: outlier terms, their price and their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.annotations import Annotations
from crowdprism.classifiers import COINNet, GeoCrowdNet
from crowdprism.classifiers.coinnet import OutlierHead
from crowdprism.errors import UnsuitableDataError
from crowdprism.networks import coupled_cross_entropy, diagonal_confusions
from crowdprism.training import FlatAnnotations

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
    return OutlierHead(
        diagonal_confusions(5, 3, 0.7), torch.from_numpy(flat.item), flat.n_items, strength=0.0, outlier_strength=0.1
    )


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

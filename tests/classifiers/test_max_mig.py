"""Max-MIG: the information gain and its refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from crowdprism.classifiers import MaxMIG
from crowdprism.classifiers.max_mig import DIVERGENCES, MutualInformationHead, negative_information_gain
from crowdprism.errors import UnsuitableDataError

EVEN = torch.full((3,), 1 / 3)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_constant_classifier_gains_nothing(divergence: str) -> None:
    constant = EVEN.expand(12, -1)
    informed = torch.eye(3).repeat(4, 1)
    for combined in (constant, informed):
        assert float(negative_information_gain(constant, combined, EVEN, divergence)) == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_agreeing_with_the_labels_gains_more_than_disagreeing(divergence: str) -> None:
    informed = 0.9 * torch.eye(3).repeat(4, 1) + 0.1 / 3
    agreeing = negative_information_gain(informed, informed, EVEN, divergence)
    shifted = negative_information_gain(informed.roll(1, dims=1), informed, EVEN, divergence)
    assert float(agreeing) < 0 < float(shifted)


def test_the_gain_of_the_kl_divergence_equals_the_formula_pair_by_pair() -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.softmax(torch.randn(6, 3, generator=generator), dim=1) for _ in range(2))
    scores = [[float((left[i] * right[j] / EVEN).sum()) for j in range(6)] for i in range(6)]
    together = sum(1 + torch.log(torch.tensor(scores[i][i])) for i in range(6)) / 6
    apart = sum(scores[i][j] for i in range(6) for j in range(6) if i != j) / 30
    assert float(negative_information_gain(left, right, EVEN)) == pytest.approx(float(-together + apart), abs=1e-3)


def test_labels_are_combined_as_dawid_and_skene_would(crowd: Any) -> None:
    """With V_m the log confusions, the combination is the posterior by the labels alone."""
    confusions = torch.softmax(torch.randn(5, 3, 3, generator=torch.Generator().manual_seed(0)), dim=2)
    head = MutualInformationHead(confusions.log(), EVEN, divergence="kl", refresh_prior=False)
    batch = crowd.batch()
    combined = head.combined(batch, batch.item, len(crowd.truth))
    product = torch.ones(3)
    for annotator, label in zip(batch.annotator[batch.item == 0], batch.label[batch.item == 0], strict=True):
        product = product * confusions[annotator, :, label]
    assert torch.allclose(combined[0], product / product.sum(), atol=1e-6)


def test_a_batch_with_too_few_annotated_items_is_refused_and_another_method_named(crowd: Any) -> None:
    with pytest.raises(UnsuitableDataError, match=r"max-mig .* batch_size, .* geocrowdnet"):
        MaxMIG(batch_size=2).fit(crowd.features, crowd.annotations)


def test_too_few_labelled_items_are_refused_though_the_batch_is_large(crowd: Any) -> None:
    few = crowd.annotations.select(crowd.annotations.item >= 110)
    with pytest.raises(UnsuitableDataError, match=r"max-mig .*\(10 of 120 items .* leave out items .* geocrowdnet"):
        MaxMIG(batch_size=24).fit(crowd.features, few)

"""CrowdLayer against its formulas."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from crowdprism.classifiers import CrowdLayer
from crowdprism.classifiers.crowdlayer import VARIANTS, CrowdLayerHead
from crowdprism.errors import InvalidParameterError


def slow_loss(head: CrowdLayerHead, probs: torch.Tensor, batch: Any) -> float:
    """Item by item, as the paper writes it."""
    values = {name: table.values for name, table in head.parts.items()}
    total = 0.0
    for item, annotator, label in zip(batch.item, batch.annotator, batch.label, strict=True):
        sigma = probs[item]
        if head.variant == "MW":
            z = values["weight"][annotator].T @ sigma
        else:
            z = sigma * values["weight"][annotator] if "weight" in values else sigma
            z = z + values["bias"][annotator] if "bias" in values else z
        total -= float(torch.log_softmax(z, dim=0)[label])
    return total


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_equals_its_formula_item_by_item(crowd: Any, variant: str) -> None:
    head = CrowdLayerHead(variant, 5, 3, scale=1.0, vote_epochs=0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    batch, log_probs = crowd.batch(), crowd.log_class_probs()
    assert head.loss(log_probs, batch).item() == pytest.approx(slow_loss(head, log_probs.exp(), batch), rel=1e-5)


def test_at_the_start_all_variants_are_the_same_model(crowd: Any) -> None:
    losses = [
        float(CrowdLayerHead(variant, 5, 3, scale=1.0, vote_epochs=0).loss(crowd.log_class_probs(), crowd.batch()))
        for variant in VARIANTS
    ]
    assert losses == pytest.approx([losses[0]] * len(VARIANTS), rel=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_confusions_start_at_the_softmax_of_the_identity(variant: str) -> None:
    confusions = CrowdLayerHead(variant, 2, 3, scale=1.0, vote_epochs=0).confusions()
    expected = torch.softmax(torch.eye(3), dim=1)
    assert torch.allclose(confusions, expected.expand(2, -1, -1))


def test_rows_of_a_confusion_matrix_are_true_classes(crowd: Any) -> None:
    head = CrowdLayerHead("MW", 1, 2, scale=1.0, vote_epochs=0)
    with torch.no_grad():
        head.parts["weight"].values[0] = torch.tensor([[5.0, 0.0], [5.0, 0.0]])  # says class 0 whatever is true
    assert head.confusions()[0, 1, 0] > 0.99


def test_an_unknown_variant_is_refused(crowd: Any) -> None:
    with pytest.raises(InvalidParameterError, match=r"VW\+B"):
        CrowdLayer(variant="XW").fit(crowd.features, crowd.annotations)  # type: ignore[arg-type]

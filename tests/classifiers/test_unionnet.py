"""Union-Net against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.classifiers.unionnet import UnionHead


def drawn_head(variant: str) -> UnionHead:
    head = UnionHead(variant, 5, 3, off_diagonal=1e-5)
    with torch.no_grad():
        head.values.copy_(torch.randn(5, 3, 3, generator=torch.Generator().manual_seed(0)))
    return head


def test_the_transition_of_a_true_class_sums_to_one_over_all_annotators_and_labels() -> None:
    sums = drawn_head("B").log_transition().exp().sum(dim=(0, 2))
    assert torch.allclose(sums, torch.ones(3), atol=1e-6)


@pytest.mark.parametrize("variant", ["A", "B"])
def test_the_loss_equals_the_stacked_form_of_the_paper(crowd: Any, variant: str) -> None:
    head, batch = drawn_head(variant), crowd.batch()
    probs = crowd.log_class_probs().exp().double()
    stacked = head.values.detach().double().permute(0, 2, 1).reshape(15, 3)  # (annotator x label, true class)
    union = np.zeros((len(probs), 15))
    for item, annotator, label in zip(batch.item, batch.annotator, batch.label, strict=True):
        union[item, int(annotator) * 3 + int(label)] += 1
    if variant == "B":
        predicted = probs @ torch.softmax(stacked, dim=0).T
    else:
        predicted = torch.softmax(probs @ stacked.T, dim=1)
    expected = -(torch.from_numpy(union) * predicted.log()).sum()
    assert float(head.loss(crowd.log_class_probs(), batch)) == pytest.approx(float(expected), rel=1e-5)


def test_confusions_are_the_annotators_normalised_share_of_the_transition() -> None:
    head = drawn_head("B")
    block = head.log_transition().exp()
    assert torch.allclose(head.confusions(), block / block.sum(dim=2, keepdim=True), atol=1e-6)

"""Union-Net against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.classifiers import unionnet
from crowdprism.classifiers.unionnet import UnionHead


def drawn_head(variant: str) -> UnionHead:
    head = UnionHead(variant, 5, 3, off_diagonal=1e-5)
    with torch.no_grad():
        head.values.copy_(torch.randn(3, 15, generator=torch.Generator().manual_seed(0)))
    return head


def test_the_transition_of_a_true_class_sums_to_one_over_all_annotators_and_labels() -> None:
    sums = drawn_head("B").log_transition().exp().sum(dim=(0, 2))
    assert torch.allclose(sums, torch.ones(3), atol=1e-6)


@pytest.mark.parametrize("variant", ["A", "B"])
def test_the_loss_equals_the_stacked_form_of_the_paper(crowd: Any, variant: str) -> None:
    head, batch = drawn_head(variant), crowd.batch()
    probs = crowd.log_class_probs().exp().double()
    stacked = head.values.detach().double().T  # (annotator x label, true class)
    union = np.zeros((len(probs), 15))
    for item, annotator, label in zip(batch.item, batch.annotator, batch.label, strict=True):
        union[item, int(annotator) * 3 + int(label)] += 1
    if variant == "B":
        predicted = probs @ torch.softmax(stacked, dim=0).T
    else:
        predicted = torch.softmax(probs @ stacked.T, dim=1)
    expected = -(torch.from_numpy(union) * predicted.log()).sum()
    assert head.loss(crowd.log_class_probs(), batch).item() == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("spread", [1.0, 1000.0])
def test_sums_taken_block_by_block_have_the_value_and_gradient_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, spread: float
) -> None:
    monkeypatch.setattr(unionnet, "BLOCK", 4)  # 15 columns: three blocks and a short one
    drawn = torch.Generator().manual_seed(1)
    probs = torch.rand(6, 3, generator=drawn, dtype=torch.float64, requires_grad=True)
    transition = (spread * torch.randn(3, 15, generator=drawn, dtype=torch.float64)).requires_grad_()
    factor = torch.rand(6, generator=drawn, dtype=torch.float64)
    found = unionnet._LogSumOfScores.apply(probs, transition)
    whole = torch.logsumexp(probs @ transition, dim=1)
    assert torch.allclose(found, whole)
    for ours, expected in zip(
        torch.autograd.grad((factor * found).sum(), (probs, transition)),
        torch.autograd.grad((factor * whole).sum(), (probs, transition)),
        strict=True,
    ):
        assert torch.allclose(ours, expected)


def test_columns_of_the_transition_are_annotators_and_their_labels() -> None:
    head = UnionHead("B", 2, 3, off_diagonal=0.0)
    with torch.no_grad():
        head.values.zero_()
        head.values[0, 3 + 2] = 5.0  # the second annotator calls class 0 by class 2's name
    assert float(head.confusions()[1, 0, 2]) > 0.9
    assert torch.allclose(head.confusions()[0], torch.full((3, 3), 1 / 3))


def test_confusions_are_the_annotators_normalised_share_of_the_transition() -> None:
    head = drawn_head("B")
    block = head.log_transition().exp()
    assert torch.allclose(head.confusions(), block / block.sum(dim=2, keepdim=True), atol=1e-6)

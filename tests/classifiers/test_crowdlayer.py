"""CrowdLayer against its formulas."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.classifiers import CoNAL, CrowdLayer, crowdlayer
from crowdprism.classifiers.crowdlayer import VARIANTS, CommonNoiseHead, CrowdLayerHead, UnionHead
from crowdprism.errors import InvalidParameterError
from crowdprism.training import FlatAnnotations


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


def head(strength: float = 1e-5, scale: float = 2.0) -> CommonNoiseHead:
    method = CoNAL(strength=strength, embedding=4, start_scale=scale)
    return CommonNoiseHead(method, (5, 3, 3), touch_rate=torch.ones(5), generator=torch.Generator().manual_seed(0))


def test_while_common_and_individual_noise_agree_the_gate_does_not_matter(crowd: Any) -> None:
    layer = CrowdLayerHead("MW", 5, 3, scale=2.0, vote_epochs=0)
    expected = layer.loss(crowd.log_class_probs(), crowd.batch())
    assert torch.allclose(head().loss(crowd.log_class_probs(), crowd.batch()), expected, rtol=1e-5)


def test_gates_lie_between_the_sigmoids_of_minus_one_and_one(crowd: Any) -> None:
    gates = head().gates(crowd.batch())
    limits = torch.sigmoid(torch.tensor([-1.0, 1.0]))
    assert bool((gates >= limits[0] - 1e-6).all() and (gates <= limits[1] + 1e-6).all())
    assert float(gates.detach().std()) > 0


def test_the_loss_equals_the_formula_annotation_by_annotation(crowd: Any) -> None:
    drawn = head()
    with torch.no_grad():
        drawn.individual.values.normal_(generator=torch.Generator().manual_seed(1))
    batch, probs = crowd.batch(), crowd.log_class_probs().exp()
    gates = drawn.gates(batch)
    slow = 0.0
    for place, (item, annotator, label) in enumerate(zip(batch.item, batch.annotator, batch.label, strict=True)):
        mixed = gates[place] * drawn.common + (1 - gates[place]) * drawn.individual.values[annotator]
        slow -= float(torch.log_softmax(mixed.T @ probs[item], dim=0)[label])
    assert float(drawn.loss(crowd.log_class_probs(), batch)) == pytest.approx(slow, rel=1e-5)


def test_the_penalty_is_minus_the_sum_of_distances_and_has_no_nan_gradient_at_the_start(crowd: Any) -> None:
    drawn = head(strength=0.1)
    term = drawn.penalties(crowd.log_class_probs(), crowd.batch())["distance"]
    term.backward()
    assert float(term) == 0
    assert bool(torch.isfinite(drawn.common.grad).all())  # type: ignore[arg-type]
    with torch.no_grad():
        drawn.individual.values[0] += 1.0
    moved = drawn.penalties(crowd.log_class_probs(), crowd.batch())["distance"]
    assert float(moved) == pytest.approx(-0.1 * 3.0, rel=1e-5)  # the Frobenius norm of nine ones


def test_one_step_per_epoch_takes_one_step_per_epoch(crowd: Any) -> None:
    steps = []

    class Counting(CoNAL):
        def _make_head(self, problem: Any) -> Any:
            made = super()._make_head(problem)
            made.after_step = lambda batch: steps.append(len(batch.index))
            return made

    Counting(epochs=3, batch_size=20, one_step_per_epoch=True, input_noise=0.0, temperature=1.0).fit(
        crowd.features, crowd.annotations
    )
    assert steps == [20, 20, 20]


def test_the_mean_gate_of_an_annotator_counts_weights_and_ignores_annotations_of_weight_zero(crowd: Any) -> None:
    weighted, repeated, ignored = head(), head(), head()
    a = crowd.annotations
    twice = a.concat(a.select(a.label == 0))
    heavy = replace(a, weight=np.where(a.label == 0, 2, 1).astype(np.float32))
    for one, crowd_of in (
        (weighted, heavy),
        (repeated, twice),
        (ignored, replace(a, weight=np.zeros_like(heavy.weight))),
    ):
        batch = FlatAnnotations.of(crowd_of).batch(np.arange(a.n_items), torch.from_numpy(crowd.features))
        one.loss(crowd.log_class_probs(), batch)
    assert torch.allclose(weighted.mean_gate, repeated.mean_gate, atol=1e-6)
    assert torch.equal(ignored.mean_gate, torch.full((5,), 0.5))


def drawn_head(variant: str) -> UnionHead:
    head = UnionHead(variant, 5, 3, off_diagonal=1e-5)
    with torch.no_grad():
        head.values.copy_(torch.randn(3, 15, generator=torch.Generator().manual_seed(0)))
    return head


@pytest.mark.parametrize("true_class", range(3))
def test_the_transition_of_a_true_class_sums_to_one_over_all_annotators_and_labels(crowd: Any, true_class: int) -> None:
    head, sure, total = drawn_head("B"), torch.eye(3)[[true_class]].log(), 0.0
    for annotator, label in product(range(5), range(3)):
        answer = {"item": torch.tensor([0]), "annotator": torch.tensor([annotator]), "label": torch.tensor([label])}
        total += head.loss(sure, replace(crowd.batch(), **answer)).neg().exp().item()
    assert total == pytest.approx(1, abs=1e-6)


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
    monkeypatch.setattr(crowdlayer, "BLOCK", 4)  # 15 columns: three blocks and a short one
    drawn = torch.Generator().manual_seed(1)
    probs = torch.rand(6, 3, generator=drawn, dtype=torch.float64, requires_grad=True)
    transition = (spread * torch.randn(3, 15, generator=drawn, dtype=torch.float64)).requires_grad_()
    factor = torch.rand(6, generator=drawn, dtype=torch.float64)
    found = crowdlayer._LogSumOfScores.apply(probs, transition)
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
    block = head.by_annotator(torch.softmax(head.values, dim=1))
    assert torch.allclose(head.confusions(), block / block.sum(dim=2, keepdim=True), atol=1e-6)

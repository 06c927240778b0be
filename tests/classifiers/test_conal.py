"""CoNAL: gate, mixture of noises and the distance term."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.classifiers import CoNAL
from crowdprism.classifiers.conal import CommonNoiseHead
from crowdprism.classifiers.crowdlayer import CrowdLayerHead
from crowdprism.training import FlatAnnotations


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

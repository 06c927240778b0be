"""Crowd heads: gradients of touched rows against those of the whole table, penalties in closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_batches import make_batch

from crowdprism.networks import Batch, FreeConfusions, GeometricHead, diagonal_confusions, heads, make_annotator_layer
from crowdprism.networks.annotator_layer import FORMS
from crowdprism.networks.heads import TargetHead
from crowdprism.networks.losses import log_volume
from crowdprism.training.optimizers import RowAdam

N_ANNOTATORS, N_CLASSES = 6, 4


def random_start() -> torch.Tensor:
    logits = torch.randn(N_ANNOTATORS, N_CLASSES, N_CLASSES, generator=torch.Generator().manual_seed(0))
    return (logits + 2 * torch.eye(N_CLASSES)).softmax(-1)


def gradient_of(head: GeometricHead) -> torch.Tensor:
    """The gradient of the table, with zeros where no row was touched."""
    table = head.layer.table
    if not table.touched_only:
        return table.values.grad
    touched, rows = table.working()
    return torch.zeros_like(table.values).index_copy(0, touched, rows.grad)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("kind", ["ccem", "joint"])
@pytest.mark.parametrize("form", FORMS)
def test_the_loss_equals_plain_loops_over_items_and_classes(form: str, kind: str, weighted: bool) -> None:
    batch = make_batch([5, 0, 5, 2, 1, 0, 3], [1, 0, 3, 2, 2, 1, 0])
    random = torch.Generator().manual_seed(4)
    if weighted:
        weight = torch.rand(7, generator=random) + 0.2
        batch = replace(batch, weight=weight, count=float(weight.sum()))
    log_probs = torch.randn(3, N_CLASSES, generator=random).log_softmax(-1)
    head = GeometricHead(make_annotator_layer(form, random_start()), loss=kind, temper=0.5)  # type: ignore[arg-type]
    probs, confusions = log_probs.double().exp().numpy(), head.confusions().double().numpy()
    weights = np.ones(7) if batch.weight is None else batch.weight.double().numpy()
    evidence = [(i, m, y, w) for i, m, y, w in zip(batch.item, batch.annotator, batch.label, weights, strict=True)]
    slow = 0.0
    for item in range(3):
        own = [(confusions[m, :, y], w) for i, m, y, w in evidence if i == item]
        if kind == "ccem":
            slow -= sum(w * np.log(probs[item] @ column) for column, w in own)
        else:
            discount = max(1.0, sum(w for _, w in own)) ** -0.5
            slow -= np.log(probs[item] @ np.prod([column ** (w * discount) for column, w in own], axis=0))
    assert float(head.loss(log_probs, batch).detach()) == pytest.approx(slow, rel=1e-5)
    assert head.count(batch) == pytest.approx(weights.sum() if kind == "ccem" else 3)


@pytest.mark.parametrize("form", FORMS)
def test_touched_rows_get_the_gradient_of_the_whole_table(form: str) -> None:
    batch = make_batch([5, 0, 5, 2], [1, 0, 3, 2])
    log_probs = torch.randn(3, N_CLASSES, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    whole = GeometricHead(make_annotator_layer(form, random_start(), touched_only=False))
    part = GeometricHead(make_annotator_layer(form, random_start(), touched_only=True))
    whole.loss(log_probs, batch).backward()
    part.loss(log_probs, batch).backward()
    assert torch.allclose(gradient_of(part), gradient_of(whole), atol=1e-6)
    for first, second in zip(whole.parameters(), part.parameters(), strict=True):
        if second.requires_grad:
            assert torch.allclose(first.grad, second.grad, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_the_volume_of_touched_rows_has_the_gradient_of_the_whole_volume(form: str) -> None:
    everybody = make_batch(list(range(N_ANNOTATORS)), [0] * N_ANNOTATORS)
    log_probs = torch.zeros(3, N_CLASSES)
    found = []
    for touched_only in (False, True):
        layer = make_annotator_layer(form, random_start(), touched_only=touched_only)
        head = GeometricHead(layer, regularizer="W", strength=0.5)
        head.start_epoch(0)
        term = head.penalties(log_probs, everybody)["volume"]
        term.backward()
        found.append((term.detach(), gradient_of(head)))
    for whole, part in zip(*found, strict=True):
        assert torch.allclose(whole.float(), part.float(), atol=1e-5)


def test_scaled_gradients_of_touched_rows_add_up_to_the_whole_over_all_batches() -> None:
    rate = torch.tensor([0.5, 0.5, 1.0, 1.0, 1.0, 1.0])
    layer = make_annotator_layer("free", random_start(), touched_only=True)
    head = GeometricHead(layer, regularizer="W", strength=1.0, touch_rate=rate)
    head.start_epoch(0)
    batches = [make_batch([0, 2, 3, 4, 5], [0] * 5), make_batch([1, 2, 3, 4, 5], [0] * 5)]
    mean = torch.zeros(N_ANNOTATORS, N_CLASSES, N_CLASSES)
    for batch in batches:
        head.forget()
        head.penalties(torch.zeros(3, N_CLASSES), batch)["volume"].backward()
        mean += gradient_of(head) / len(batches)
    whole = make_annotator_layer("free", random_start(), touched_only=False)
    full = GeometricHead(whole, regularizer="W", strength=1.0)
    full.penalties(torch.zeros(3, N_CLASSES), batches[0])["volume"].backward()
    assert torch.allclose(mean, whole.table.values.grad, atol=1e-5)


def test_skills_of_a_large_crowd_get_the_volume_gradient_through_the_matrices_of_the_batch() -> None:
    batch = make_batch(list(range(N_ANNOTATORS)), [0] * N_ANNOTATORS, n_items=N_ANNOTATORS)
    gradients = []
    for forms_all in (True, False):
        layer = make_annotator_layer("skill", random_start(), touched_only=False)
        layer.forms_all = forms_all
        head = GeometricHead(layer, regularizer="W", strength=1.0)
        head.penalties(torch.zeros(N_ANNOTATORS, N_CLASSES), batch)["volume"].backward()
        gradients.append(layer.table.values.grad)
    assert torch.allclose(*gradients, atol=1e-5)
    assert gradients[0].abs().min() > 1e-4


@pytest.mark.parametrize("form", FORMS)
def test_the_gram_of_a_large_table_is_renewed_every_few_steps(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "RENEW_EVERY", 2)
    layer = make_annotator_layer(form, random_start(), touched_only=True)
    head = GeometricHead(layer, regularizer="W", strength=0.5)
    optimizer = RowAdam(head.tables, learning_rate=0.1)
    head.start_epoch(0)
    exact = []
    for _ in range(4):
        batch = make_batch([0, 1, 2], [1, 2, 0])
        volume = head.penalties(torch.zeros(3, N_CLASSES).log_softmax(-1), batch)["volume"]
        exact.append(float(volume.detach()) == pytest.approx(-0.5 * float(log_volume(layer.gram())), abs=1e-9))
        volume.backward()
        optimizer.step()
        head.after_step(batch)
        head.forget()
    assert exact == [True, False, True, False]


def test_each_epoch_begins_with_the_gram_as_it_is() -> None:
    layer = make_annotator_layer("free", random_start(), touched_only=True)
    head = GeometricHead(layer, regularizer="W", strength=1.0)
    batch = make_batch([0], [0])
    head.start_epoch(0)
    head.penalties(torch.zeros(3, N_CLASSES), batch)
    with torch.no_grad():
        layer.table.values += 1.0 * torch.eye(N_CLASSES)
    head.start_epoch(1)
    found = float(head.penalties(torch.zeros(3, N_CLASSES), batch)["volume"].detach())
    assert found == pytest.approx(-float(log_volume(layer.gram())))


@pytest.mark.parametrize("form", FORMS)
def test_shrinkage_draws_an_annotator_to_the_crowd(form: str) -> None:
    layer = make_annotator_layer(form, diagonal_confusions(N_ANNOTATORS, N_CLASSES, 0.7))
    head = GeometricHead(layer, shrinkage=2.0, n_annotations=4)
    batch = make_batch([0], [1], n_items=1)
    zero = head.penalties(torch.zeros(1, N_CLASSES), batch)["shrinkage"].item()
    with torch.no_grad():
        layer.table.values[0] += 1.0
    size = layer.table.values[0].numel()
    away = head.penalties(torch.zeros(1, N_CLASSES), batch)["shrinkage"].item()
    assert zero == pytest.approx(0.0, abs=1e-6)
    assert away == pytest.approx(2.0 / 4 * 0.5 * size, rel=1e-4)


def test_the_reference_volume_is_dropped_and_counted_where_predictions_collapse() -> None:
    layer = make_annotator_layer("free", random_start())
    head = GeometricHead(layer, regularizer="F", strength=0.1, reference=True)
    log_probs = torch.zeros(3, N_CLASSES).log_softmax(-1)
    assert float(head.penalties(log_probs, make_batch([0], [0]))["volume"]) == 0.0
    assert head.n_skipped == 1


def test_the_f_term_is_minus_strength_times_the_log_volume() -> None:
    head = GeometricHead(make_annotator_layer("free", random_start()), regularizer="F", strength=0.3)
    log_probs = torch.randn(8, N_CLASSES, generator=torch.Generator().manual_seed(2)).log_softmax(-1)
    term = float(head.penalties(log_probs, make_batch([0], [0]))["volume"])
    gram = log_probs.exp().double().T @ log_probs.exp().double()
    assert term == pytest.approx(-0.3 * float(log_volume(gram)))
    assert math.isfinite(term)


def test_targets_are_fitted_by_cross_entropy_per_item() -> None:
    targets = torch.tensor([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    head = TargetHead(targets, used=torch.tensor([True, False, True]))
    batch = make_batch([0, 0], [0, 1], n_items=2)
    log_probs = torch.tensor([[0.9, 0.1], [0.4, 0.6]]).log()
    expected = -math.log(0.9) - 0.25 * math.log(0.4) - 0.75 * math.log(0.6)
    assert float(head.loss(log_probs, batch)) == pytest.approx(expected, rel=1e-6)
    assert head.count(batch) == 2.0
    assert head.visited.tolist() == [0, 2]


def test_the_pull_to_class_shares_has_the_gradient_of_their_cross_entropy_with_the_mean_prediction() -> None:
    shares = torch.tensor([0.7, 0.3])
    head = GeometricHead(FreeConfusions(torch.eye(2)[None].clamp(0.1, 0.9)), class_shares=shares)
    outputs = torch.tensor([[0.3, -0.2], [0.1, 0.4]], requires_grad=True)
    none = torch.zeros(0, dtype=torch.long)
    batch = Batch(torch.zeros(2, 1), torch.arange(2), none, none, none, None, 1.0, 1, none)
    mean = torch.softmax(outputs, dim=1).mean(dim=0)
    head.mean_prediction.copy_(mean.detach())  # as after many batches like this
    (found,) = torch.autograd.grad(head.penalties(torch.log_softmax(outputs, dim=1), batch)["class_shares"], outputs)
    mean = torch.softmax(outputs, dim=1).mean(dim=0)
    (expected,) = torch.autograd.grad(-(shares * mean.log()).sum(), outputs)
    assert torch.allclose(found, expected)

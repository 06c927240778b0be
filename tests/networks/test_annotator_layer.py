"""Confusion matrices as parameters: starts, forms, and rows that are touched one batch at a time."""

from __future__ import annotations

import math

import pytest
import torch

from crowdprism.errors import InvalidParameterError
from crowdprism.networks import GeometricHead, diagonal_confusions, geometric_head, log_volume, make_annotator_layer
from crowdprism.networks.annotation_batch import Batch
from crowdprism.networks.annotator_layer import FORMS, diagonal_logit, identity_diagonal
from crowdprism.training import RowAdam

N_ANNOTATORS, N_CLASSES = 6, 4


def make_batch(annotator: list[int], label: list[int], n_items: int = 3) -> Batch:
    codes = torch.tensor(annotator)
    return Batch(
        features=torch.zeros(n_items, 1),
        index=torch.arange(n_items),
        item=torch.arange(len(annotator)) % n_items,
        annotator=codes,
        label=torch.tensor(label),
        weight=None,
        count=float(len(annotator)),
        n_labelled=n_items,
        annotation=torch.arange(len(annotator)),
    )


def random_start() -> torch.Tensor:
    logits = torch.randn(N_ANNOTATORS, N_CLASSES, N_CLASSES, generator=torch.Generator().manual_seed(0))
    return (logits + 2 * torch.eye(N_CLASSES)).softmax(-1)


@pytest.mark.parametrize("n_classes", [2, 10, 100])
@pytest.mark.parametrize("form", FORMS)
def test_the_start_has_the_stated_diagonal_whatever_the_number_of_classes(form: str, n_classes: int) -> None:
    layer = make_annotator_layer(form, diagonal_confusions(3, n_classes, 0.75))
    confusions = layer.confusions()
    assert torch.allclose(confusions.diagonal(dim1=1, dim2=2), torch.tensor(0.75), atol=1e-5)
    assert torch.allclose(confusions.sum(-1), torch.ones(3, n_classes), atol=1e-5)


def test_the_reference_start_has_identity_logits() -> None:
    layer = make_annotator_layer("free", diagonal_confusions(2, 10, identity_diagonal(10)))
    assert torch.allclose(layer.table.values[0], torch.eye(10), atol=1e-5)
    assert float(layer.confusions()[0, 0, 0]) == pytest.approx(0.232, abs=5e-4)


@pytest.mark.parametrize("form", ["free", "pooled"])
def test_rich_forms_start_at_any_given_confusions(form: str) -> None:
    assert torch.allclose(make_annotator_layer(form, random_start()).confusions(), random_start(), atol=1e-5)


def test_a_diagonal_at_or_below_chance_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="above chance"):
        diagonal_logit(0.1, 10)


def test_a_misspelt_form_lists_the_forms() -> None:
    with pytest.raises(InvalidParameterError, match="free, pooled, skill"):
        make_annotator_layer("fre", random_start())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("touched_only", [False, True])
def test_columns_are_the_gathered_log_confusions(form: str, touched_only: bool) -> None:
    layer = make_annotator_layer(form, random_start(), touched_only=touched_only)
    batch = make_batch([5, 0, 5, 2], [1, 0, 3, 2])
    expected = layer.log_confusions()[batch.annotator, :, batch.label]
    assert torch.allclose(layer.log_columns(batch), expected, atol=1e-6)


def test_the_skill_form_keeps_memory_linear_in_annotators() -> None:
    layer = make_annotator_layer("skill", diagonal_confusions(500, 100, 0.7))
    assert sum(parameter.numel() for parameter in layer.parameters()) == 500 + 100 + 100 * 100


@pytest.mark.parametrize("form", FORMS)
def test_touched_rows_get_the_gradient_of_the_whole_table(form: str) -> None:
    batch = make_batch([5, 0, 5, 2], [1, 0, 3, 2])
    log_probs = torch.randn(3, N_CLASSES, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    whole = GeometricHead(make_annotator_layer(form, random_start(), touched_only=False))
    part = GeometricHead(make_annotator_layer(form, random_start(), touched_only=True))
    whole.loss(log_probs, batch).backward()
    part.loss(log_probs, batch).backward()
    pending = part.layer.table.pending
    assert torch.allclose(pending.leaf.grad, whole.layer.table.values.grad[batch.touched], atol=1e-6)
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
        rows = layer.table.pending.leaf if touched_only else layer.table.values
        found.append((term.detach(), rows.grad))
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
        mean[batch.touched] += layer.table.pending.leaf.grad / len(batches)
    whole = make_annotator_layer("free", random_start(), touched_only=False)
    full = GeometricHead(whole, regularizer="W", strength=1.0)
    full.penalties(torch.zeros(3, N_CLASSES), batches[0])["volume"].backward()
    assert torch.allclose(mean, whole.table.values.grad, atol=1e-5)


def test_the_running_gram_equals_the_exact_one_after_updates() -> None:
    layer = make_annotator_layer("free", random_start(), touched_only=True)
    head = GeometricHead(layer, regularizer="W", strength=0.5)
    optimizer = RowAdam(head.tables, learning_rate=0.1)
    head.start_epoch(0)
    for annotators in ([0, 1, 1], [3, 5, 2], [0, 4, 5]):
        batch = make_batch(annotators, [1, 2, 0])
        log_probs = torch.zeros(3, N_CLASSES).log_softmax(-1)
        (head.loss(log_probs, batch) + head.penalties(log_probs, batch)["volume"]).backward()
        optimizer.step()
        head.after_step(batch)
        head.forget()
    assert not torch.allclose(layer.confusions(), random_start(), atol=1e-2)
    assert torch.allclose(head.total_gram, layer.gram(), atol=1e-5)


def test_a_gram_too_heavy_for_each_step_is_renewed_every_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometric_head, "HEAVY_GRAM", 0)
    monkeypatch.setattr(geometric_head, "RENEW_EVERY", 2)
    layer = make_annotator_layer("free", random_start(), touched_only=True)
    head = GeometricHead(layer, regularizer="W", strength=0.5)
    optimizer = RowAdam(head.tables, learning_rate=0.1)
    head.start_epoch(0)
    exact = []
    for _ in range(4):
        batch = make_batch([0, 1, 2], [1, 2, 0])
        head.penalties(torch.zeros(3, N_CLASSES).log_softmax(-1), batch)["volume"].backward()
        assert head.total_gram is not None
        exact.append(torch.allclose(head.total_gram, layer.gram(), atol=1e-7))
        optimizer.step()
        head.after_step(batch)
        head.forget()
    assert exact == [True, False, True, False]


def test_the_exact_gram_of_many_annotators_is_formed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = make_annotator_layer("free", random_start())
    whole = layer.gram()
    monkeypatch.setattr("crowdprism.networks.annotator_layer.GRAM_CHUNK", 2 * N_CLASSES**2)
    assert torch.allclose(layer.gram(), whole, rtol=1e-12)


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

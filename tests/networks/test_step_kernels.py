"""The compiled step against the one that torch differentiates."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crowdprism import Annotations
from crowdprism.networks import GeometricHead, geometric_head, make_annotator_layer, step_kernels
from crowdprism.networks.annotation_batch import Batch
from crowdprism.training import FlatAnnotations, RowAdam
from crowdprism.training import batches as flat_annotations

N_ITEMS, N_ANNOTATORS, N_CLASSES = 40, 7, 4


def crowd(*, weighted: bool) -> FlatAnnotations:
    random = np.random.default_rng(0)
    n = 3 * N_ITEMS
    item, annotator = random.integers(N_ITEMS, size=n), random.integers(N_ANNOTATORS - 1, size=n)  # the last gives none
    return FlatAnnotations.of(
        Annotations.from_triplets(
            item,
            annotator,
            random.integers(N_CLASSES, size=n),
            weight=random.uniform(0.2, 2.0, size=n) if weighted else None,
            item_names=range(N_ITEMS),
            annotator_names=range(N_ANNOTATORS),
            classes=range(N_CLASSES),
        )
    )


def compiled_batch(flat: FlatAnnotations, index: np.ndarray) -> Batch:
    return next(flat.compiled_batches([index]))(torch.zeros(len(index), 1))


def make_head(form: str, kind: str, regularizer: str | None, *, touched_only: bool) -> GeometricHead:
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(N_ANNOTATORS, N_CLASSES, N_CLASSES, generator=generator).softmax(-1)
    head = GeometricHead(
        make_annotator_layer(form, start, touched_only=touched_only),
        loss=kind,  # type: ignore[arg-type]
        temper=0.5,
        regularizer=regularizer,  # type: ignore[arg-type]
        strength=0.3,
        shrinkage=5.0,
        n_annotations=100,
        touch_rate=torch.linspace(0.3, 0.9, N_ANNOTATORS),
    )
    with torch.no_grad():  # away from the start, so that shrinkage has something to do
        head.layer.table.values += torch.randn(head.layer.table.values.shape, generator=generator)
    head.start_epoch(0)
    return head


def sorted_rows(head: GeometricHead) -> torch.Tensor:
    """The gradient of the table, with zeros where no row was touched."""
    working = head.layer.table.working()
    assert working is not None
    whole = torch.zeros_like(head.layer.table.values)
    whole[working[0]] = working[1]
    return whole


@pytest.mark.parametrize("touched_only", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("regularizer", ["F", "W", None])
@pytest.mark.parametrize("kind", ["ccem", "joint"])
@pytest.mark.parametrize("form", ["free", "pooled"])
def test_a_compiled_step_has_the_values_and_gradients_of_the_differentiated_one(
    form: str, kind: str, regularizer: str | None, weighted: bool, touched_only: bool
) -> None:
    flat = crowd(weighted=weighted)
    index = np.random.default_rng(2).permutation(N_ITEMS)[:25]
    outputs = torch.randn(25, N_CLASSES, generator=torch.Generator().manual_seed(3))
    factor = 0.7

    slow = make_head(form, kind, regularizer, touched_only=touched_only)
    leaf = outputs.clone().requires_grad_()
    batch = flat.batch(index, torch.zeros(25, 1))
    log_probs = leaf.log_softmax(-1)
    loss = slow.loss(log_probs, batch) / slow.count(batch)
    expected = {"data": float(loss.detach())}
    for name, term in slow.penalties(log_probs, batch).items():
        loss = loss + factor * term
        expected[name] = factor * float(term.detach())
    loss.backward()

    quick = make_head(form, kind, regularizer, touched_only=touched_only)
    values, gradient = quick.compiled_step(outputs, compiled_batch(flat, index), factor)
    assert values == pytest.approx(expected, rel=1e-5)
    assert torch.allclose(gradient, leaf.grad, atol=1e-6)
    assert torch.allclose(sorted_rows(quick), sorted_rows(slow), atol=1e-6)
    if form == "pooled":
        assert torch.allclose(quick.layer.common.grad, slow.layer.common.grad, atol=1e-6)  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize("compiled", [True, False])
def test_rows_that_take_turns_are_pulled_apart_as_all_are_on_average(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = crowd(weighted=False)
    index = np.arange(25)
    outputs = torch.zeros(25, N_CLASSES)

    def gradient(turn: int) -> torch.Tensor:
        head = make_head("free", "ccem", "W", touched_only=True)
        batch = compiled_batch(flat, index) if compiled else flat.batch(index, torch.zeros(25, 1))
        head._turn = turn
        if compiled:
            head.compiled_step(outputs, batch, 1.0)
        else:
            log_probs = outputs.log_softmax(-1)
            loss = head.loss(log_probs, batch) / head.count(batch)
            (loss + sum(head.penalties(log_probs, batch).values())).backward()
        return sorted_rows(head)

    whole = gradient(0)
    work = (N_ANNOTATORS - 1) * N_CLASSES**3
    monkeypatch.setattr(geometric_head, "HEAVY_PULL", work // 4 + 1)  # 4 shares of 6 rows: the last is empty
    shares = [gradient(turn) for turn in range(4)]
    assert torch.equal(shares[0], gradient(4))
    assert not torch.allclose(shares[0], shares[1], atol=1e-3)
    assert torch.allclose(torch.stack(shares).mean(dim=0), whole, atol=1e-6)


@pytest.mark.parametrize("weighted", [True, False])
def test_compiled_gathering_finds_the_same_annotations(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_annotations, "GATHERED_BATCHES", 2)
    flat = crowd(weighted=weighted)
    order = [np.array([3, 39, 0, 7]), np.array([7]), np.arange(10, 30)]
    for index, gather in zip(order, flat.compiled_batches(order), strict=True):
        features = torch.zeros(len(index), 1)
        quick, slow = gather(features), flat.batch(index, features)
        for name in ("index", "item", "annotator", "label", "weight", "annotation"):
            found, expected = getattr(quick, name), getattr(slow, name)
            assert found is expected or torch.equal(found, expected), name
        assert torch.equal(quick.touched[quick.place], quick.annotator)
        assert sorted(quick.touched.tolist()) == slow.touched.tolist()
        assert (quick.count, quick.n_labelled) == (pytest.approx(slow.count), slow.n_labelled)


def test_a_batch_without_annotations_has_no_loss_and_no_gradient() -> None:
    none = torch.empty(0, dtype=torch.long)
    batch = Batch(torch.zeros(2, 1), torch.arange(2), none, none, none, None, 1.0, 1, none)
    head = make_head("free", "ccem", None, touched_only=False)
    head.shrinkage = 0.0
    values, gradient = head.compiled_step(torch.randn(2, N_CLASSES), batch, 1.0)
    assert values == {"data": 0.0}
    assert not gradient.any()
    assert not sorted_rows(head).any()


@pytest.mark.parametrize("name", ["adam", "adamw"])
@pytest.mark.parametrize("touched_only", [True, False])
def test_compiled_adam_takes_the_same_steps(name: str, touched_only: bool) -> None:
    flat = crowd(weighted=False)
    found = []
    for compiled in (True, False):
        head = make_head("free", "ccem", None, touched_only=touched_only or not compiled)
        head.shrinkage = 0.0  # which is spread over the rows otherwise where all are at hand
        if not touched_only and not compiled:  # all rows at each step
            optimizer: RowAdam | torch.optim.Optimizer = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name](
                [head.layer.table.values.requires_grad_()], lr=0.05, weight_decay=0.1
            )
        else:
            optimizer = RowAdam(head.tables, name=name, learning_rate=0.05, weight_decay=0.1, compiled=compiled)
        for step in range(6):
            index = np.random.default_rng(step).permutation(N_ITEMS)[:5]
            batch = compiled_batch(flat, index)
            head.compiled_step(torch.zeros(5, N_CLASSES), batch, 1.0)
            if isinstance(optimizer, torch.optim.Optimizer):
                head.layer.table.values.grad = sorted_rows(head)
            optimizer.step()
            head.forget()
        found.append(head.layer.table.values.detach())
    assert torch.allclose(*found, atol=1e-6)


def test_rows_are_shared_among_threads_without_changing_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = crowd(weighted=False)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        monkeypatch.setattr(step_kernels, "THREADED_FROM", 0)
        head = make_head("free", "ccem", "W", touched_only=True)
        head.compiled_step(torch.zeros(5, N_CLASSES), compiled_batch(flat, np.arange(5)), 1.0)
        RowAdam(head.tables, learning_rate=0.05, compiled=True).step()
        found.append(head.layer.table.values.detach())
    assert torch.equal(*found)


def test_predictions_without_volume_are_lifted_by_more_jitter() -> None:
    """Equal predictions in float32: the Gram is of rank one, and the term stays finite."""
    place = torch.zeros(3, dtype=torch.long)
    done = step_kernels.crowd_step(
        torch.full((3, N_CLASSES), 50.0),
        torch.full((1, N_CLASSES, N_CLASSES), 0.25),
        place,
        place,
        torch.arange(3),
        count=3.0,
        volume=1.0,
    )
    assert np.isfinite(done.volume)
    assert bool(done.by_output.isfinite().all())

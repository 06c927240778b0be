"""Confusion matrices as parameters: starts, forms, and rows that are touched one batch at a time."""

from __future__ import annotations

import pytest
import torch
from small_batches import make_batch

from crowdprism.errors import InvalidParameterError
from crowdprism.networks import RowTable, diagonal_confusions, make_annotator_layer
from crowdprism.networks.annotator_layer import FORMS, PairTable, diagonal_logit, identity_diagonal
from crowdprism.networks.losses import confusion_gram

N_ANNOTATORS, N_CLASSES = 6, 4


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


def test_the_exact_gram_of_many_annotators_is_formed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = make_annotator_layer("free", random_start())
    whole = layer.gram()
    monkeypatch.setattr("crowdprism.networks.annotator_layer.GRAM_CHUNK", 2 * N_CLASSES**2)
    assert torch.allclose(layer.gram(), whole, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_the_gram_is_that_of_all_confusions(form: str) -> None:
    layer = make_annotator_layer(form, random_start())
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    assert torch.allclose(layer.gram(), confusion_gram(layer.confusions()), rtol=1e-5)


def test_large_tables_are_updated_where_touched_and_small_ones_whole() -> None:
    assert RowTable(torch.zeros(2**14 + 1)).touched_only
    assert not RowTable(torch.zeros(2**14)).touched_only
    skills = make_annotator_layer("skill", diagonal_confusions(500, 10, 0.7))
    assert not skills.table.touched_only  # a number each
    assert not skills.forms_all  # a matrix each


def test_a_table_gives_copies_of_the_touched_rows_until_it_forgets() -> None:
    table = RowTable(torch.arange(12.0).view(6, 2), touched_only=True)
    batch = make_batch([5, 0, 5], [0, 0, 0])
    rows = table.rows(batch)
    assert rows[table.place(batch)].tolist() == [[10.0, 11.0], [0.0, 1.0], [10.0, 11.0]]
    assert table.working() is None  # there is no gradient yet
    rows.sum().backward()
    touched, working = table.working()
    assert touched.tolist() == [0, 5]
    assert working is rows
    table.forget()
    assert table.working() is None


def test_a_pair_table_has_a_row_for_each_annotation() -> None:
    table = PairTable(torch.arange(4.0).unsqueeze(1))
    batch = make_batch([5, 0, 5], [0, 0, 0])
    assert table.rows(batch)[table.place(batch), 0].tolist() == [0.0, 1.0, 2.0]

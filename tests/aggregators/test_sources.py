"""Cells: annotations as positions of the (annotator, label) pairs that occur."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import sources
from crowdprism.aggregators.sources import Cells, cells_of
from crowdprism.annotations import Annotations
from crowdprism.errors import UnsuitableDataError
from crowdprism.results import confusion


@pytest.fixture(params=["few pairs", "many pairs", "sorted"])
def annotations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Annotations:
    random = np.random.default_rng(4)
    table = random.integers(-1, 5, size=(30, 6))
    if request.param == "few pairs":
        table = np.where(np.arange(6) % 5 == table, table, -1)  # one label per annotator
        table[0] = np.arange(6) % 5
    if request.param == "sorted":
        monkeypatch.setattr(sources, "MAX_KEYS_COUNTED", 1)
    weight = random.uniform(0.5, 2.0, int((table >= 0).sum())).astype(np.float32)
    item, annotator = np.nonzero(table >= 0)
    return Annotations.from_triplets(item, annotator, table[item, annotator], weight=weight, classes=range(5))


def counts_of(found: Cells, annotations: Annotations) -> np.ndarray:
    """(n_cells, true class) random counts."""
    return np.random.default_rng(1).random((found.n_cells, annotations.n_classes))


def test_a_cell_has_the_annotator_and_the_label_of_its_annotations(annotations: Annotations) -> None:
    found = cells_of(annotations)
    assert (found.annotator_of[found.cell] == annotations.annotator).all()
    assert (found.label_of[found.cell] == annotations.label).all()
    assert annotations.weight is not None
    assert found.total == pytest.approx(np.bincount(found.cell, annotations.weight, found.n_cells))
    assert found.complete == (found.n_cells == annotations.n_annotators * annotations.n_classes)


def test_sums_and_tables_equal_plain_loops(annotations: Annotations) -> None:
    found = cells_of(annotations)
    counts = counts_of(found, annotations)
    dense = np.zeros((annotations.n_annotators, 5, 5))
    for cell in range(found.n_cells):
        dense[found.annotator_of[cell], :, found.label_of[cell]] += counts[cell]
    assert found.dense(counts) == pytest.approx(dense)
    assert found.sum_by_annotator(counts) == pytest.approx(dense.sum(axis=2))
    rows = np.random.default_rng(2).random((annotations.n_annotators, 5))
    assert (found.by_cell(rows) == rows[found.annotator_of]).all()
    crowd = dense.sum(axis=0)
    total = crowd.sum(axis=1, keepdims=True)
    assert found.pooled(counts) == pytest.approx(np.where(total > 0, crowd / np.where(total > 0, total, 1.0), 0.2))


def test_tables_that_would_not_fit_are_refused() -> None:
    with pytest.raises(UnsuitableDataError, match="would need tables"):
        cells_of(Annotations.from_dense([[0, 1]]), columns=2**40, method="A method")


def test_sums_in_pieces_equal_sums_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    place, weight = rng.integers(0, 7, 1000), rng.random(1000).astype(np.float32)
    monkeypatch.setattr(sources, "PIECE", 64)
    np.testing.assert_allclose(sources.sum_weights(place, weight, 9), np.bincount(place, weight, 9), rtol=1e-12)
    np.testing.assert_array_equal(sources.sum_weights(place, None, 9), np.bincount(place, minlength=9))


def test_tables_are_refused_from_the_first_byte_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    a = Annotations.from_dense([[0, 1], [1, 1], [0, 0]])
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 8 * 2 * 5)
    sources.require_room(a, n_rows=5, columns=2, method="This")
    with pytest.raises(UnsuitableDataError, match=r"This would need tables.*6 \(annotator, label\) pairs.*one-coin"):
        sources.require_room(a, n_rows=6, columns=2, method="This")
    assert confusion.confusions_fit(2, 2)
    assert not confusion.confusions_fit(3, 2)

"""NumPy files hold a matrix, three columns, or what was written before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from small_files import triplets

from crowdprism.annotations import Annotations
from crowdprism.formats import read_annotations


def test_numpy_files_hold_a_matrix_or_three_columns(tmp_path: Path) -> None:
    table = np.array([[0, -1, 1], [1, 1, -1], [-1, -1, 0]])
    expected = Annotations.from_dense(table)
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "b.npz", answers=table, gold=np.array([0, 1, 1]))
    item, annotator = np.nonzero(table >= 0)
    np.savez(tmp_path / "c.npz", item=item, annotator=annotator, label=table[item, annotator])
    assert read_annotations(tmp_path / "a.npy") == expected
    with_gold = read_annotations(tmp_path / "b.npz")
    assert triplets(with_gold) == triplets(expected)
    assert with_gold.gold is not None
    assert with_gold.gold.tolist() == [0, 1, 1]
    assert read_annotations(tmp_path / "c.npz") == expected

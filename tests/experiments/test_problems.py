"""Problems: items, crowds and validation items of a trial."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdprism.experiments import (
    Crowd,
    Data,
    make_plan,
    problems,
    read_study,
)
from crowdprism.experiments.problems import make_problem


def test_validation_items_are_drawn_apart_from_the_training_items(tiny_text: str) -> None:
    data = make_plan(read_study(tiny_text), "quick").cells[0].data
    one, again, other = make_problem(data, 1), make_problem.__wrapped__(data, 1), make_problem(data, 2)
    assert (len(one.X), len(one.validation["X_valid"]), one.y.n_items) == (250, 50, 250)
    np.testing.assert_array_equal(one.X, again.X)
    np.testing.assert_array_equal(one.y.label, again.y.label)
    assert not np.array_equal(one.X, other.X)
    rows = {row.tobytes() for row in one.X}
    assert not rows & {row.tobytes() for row in one.validation["X_valid"]}


def test_the_labels_of_a_family_follow_its_confusions_in_the_order_of_annotators(tiny_text: str) -> None:
    problem = make_problem(make_plan(read_study(tiny_text), "quick").cells[0].data, 1)
    assert problem.truth.shape == (4, 10, 10)
    np.testing.assert_allclose(np.diagonal(problem.truth, axis1=1, axis2=2), 0.8)
    assert abs(problem.label_accuracy - 0.8) < 0.06  # 500 labels: three standard errors are 0.054
    assert problem.unlabelled == 0


def test_a_machine_crowd_is_made_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path))
    crowd = Crowd("machine", n_annotators=3, case=2, probability=0.5, pool_size=500)
    data = Data("digits", "images", n_items=200, valid="drawn", n_valid=20, crowd=crowd)
    first = problems.simulated(data, 1)
    monkeypatch.setattr(problems, "labels_of_machines", lambda data, seed: pytest.fail("made again"))
    again = problems.simulated(data, 1)
    np.testing.assert_array_equal(first.label, again.label)
    assert problems.make_problem(data, 1).X.shape == (180, 1, 8, 8)

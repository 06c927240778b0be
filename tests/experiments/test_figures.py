"""Figures show what was measured, and only that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdprism.experiments import Plan, make_plan, read_study, summarize
from crowdprism.experiments.figures import confusion_figure, table_figure, write_figures

pytest.importorskip("matplotlib", reason="figures need matplotlib")
ROW = {
    "status": "done",
    "seconds": 1.0,
    "valid": 1.0,
    "test": 75.0,
    "confusions": np.full((4, 10, 10), 0.1).tolist(),
    "true_confusions": np.stack([np.eye(10)] * 4).tolist(),
    "confusion_error": {"relative_l1": 0.9},
}


@pytest.fixture
def plan(tiny_text: str) -> Plan:
    return make_plan(read_study(f"keep_confusions = true\n{tiny_text}"), "quick")


def test_a_column_has_a_point_for_each_published_and_each_measured_number(plan: Plan) -> None:
    rows = {fit.key: ROW for fit in plan.fits if fit.classifier == "nn-mv"}
    (panel,) = table_figure(summarize(plan, rows)).axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["NN-MV"]
    assert [bars.get_label() for bars in panel.containers] == ["published", "measured"]
    assert [float(bars.lines[0].get_xdata()[0]) for bars in panel.containers] == [70.0, 75.0]


def test_confusions_are_drawn_for_the_truth_and_each_method(plan: Plan) -> None:
    figure = confusion_figure({"A": ROW, "B": ROW}, "Easy")
    pictures = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    assert len(pictures) == 3 * 4
    np.testing.assert_array_equal(pictures[0], np.eye(10))
    np.testing.assert_allclose(pictures[-1], 0.1)
    labels = [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()]
    assert labels[:3] == ["truth", "A\nerror 0.900", "B\nerror 0.900"]


def test_figures_are_written_only_for_what_was_measured(plan: Plan, tmp_path: Path) -> None:
    assert write_figures(summarize(plan, {}), tmp_path) == []
    rows = {fit.key: ROW for fit in plan.fits}
    written = write_figures(summarize(plan, rows), tmp_path)
    assert [path.name for path in written] == ["tiny.svg", "tiny_easy.svg"]
    assert all(path.read_text(encoding="utf-8").startswith("<?xml") for path in written)

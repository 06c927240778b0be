"""Pages: which methods they name as below the published numbers, times, and published beside measured numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdprism.experiments import Plan, make_plan, read_study, summarize
from crowdprism.experiments.pages import confusion_figure, shortfall_section, table_figure, time_table, write_figures


def rows_of(plan: Plan, test: dict[str, list[float]]) -> dict[str, Any]:
    return {
        fit.key: {"fit": fit.content, "status": "done", "seconds": 3.0, "valid": 1.0, "test": test[method][seed - 1]}
        for (_, method, seed), fits in plan.points.items()
        for fit in fits
    }


@pytest.fixture
def plan(tiny_text: str) -> Plan:
    return make_plan(read_study(tiny_text), "quick")


def test_a_mean_below_the_published_one_by_more_than_its_spread_is_named(plan: Plan) -> None:
    told = shortfall_section(summarize(plan, rows_of(plan, {"f": [77.0, 78.0], "vote": [69.0, 69.0]})))[-1]
    assert told == "- GeoCrowdNet(F), Easy digits: 77.50 (2 trials) against 80.00 - 2.00; no reason is known."


@pytest.mark.parametrize(
    ("concerns", "explained"),
    [('methods = ["vote"]', True), ('cells = ["easy"]', True), ('methods = ["f"]', False), ("", False)],
)
def test_a_deviation_of_the_method_or_the_column_explains_it(tiny_text: str, concerns: str, explained: bool) -> None:
    plan = make_plan(read_study(f'{tiny_text}\n[[deviations]]\n{concerns}\ntext = "Other ties."\n'), "quick")
    told = shortfall_section(summarize(plan, rows_of(plan, {"f": [90.0, 90.0], "vote": [60.0, 60.0]})))[-1]
    assert told.endswith("the reason is among the known deviations.") == explained


def test_without_a_published_spread_ours_or_one_point_is_allowed(tiny_text: str) -> None:
    plan = make_plan(read_study(tiny_text.replace("vote = [70.0, 1.0]", "vote = 70.0")), "quick")
    for found, named in (([68.9, 69.2], False), ([68.8, 69.1], True), ([66.0, 70.0], False)):
        told = shortfall_section(summarize(plan, rows_of(plan, {"f": [90.0, 90.0], "vote": found})))[-1]
        assert ("NN-MV" in told) == named


def test_a_budget_that_changes_the_task_names_nobody(tiny_text: str) -> None:
    text = tiny_text.replace('reduces = "all but two trials"', 'reduces = "x"\ncomparable = false')
    plan = make_plan(read_study(text), "quick")
    assert shortfall_section(summarize(plan, rows_of(plan, {"f": [1.0, 1.0], "vote": [1.0, 1.0]}))) == []


def test_times_are_medians_by_method_and_column(plan: Plan) -> None:
    assert "| NN-MV | 3.0 |" in time_table(summarize(plan, rows_of(plan, {"f": [1.0, 1.0], "vote": [1.0, 1.0]})))


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
def drawn_plan(tiny_text: str) -> Plan:
    return make_plan(read_study(f"keep_confusions = true\n{tiny_text}"), "quick")


def test_a_column_has_a_point_for_each_published_and_each_measured_number(drawn_plan: Plan) -> None:
    rows = {fit.key: ROW for fit in drawn_plan.fits if fit.classifier == "nn-mv"}
    (panel,) = table_figure(summarize(drawn_plan, rows)).axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["NN-MV"]
    assert [bars.get_label() for bars in panel.containers] == ["published", "measured"]
    assert [float(bars.lines[0].get_xdata()[0]) for bars in panel.containers] == [70.0, 75.0]


def test_confusions_are_drawn_for_the_truth_and_each_method(drawn_plan: Plan) -> None:
    figure = confusion_figure({"A": ROW, "B": ROW}, "Easy")
    pictures = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    assert len(pictures) == 3 * 4
    np.testing.assert_array_equal(pictures[0], np.eye(10))
    np.testing.assert_allclose(pictures[-1], 0.1)
    labels = [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()]
    assert labels[:3] == ["truth", "A\nerror 0.900", "B\nerror 0.900"]


def test_figures_are_written_only_for_what_was_measured(drawn_plan: Plan, tmp_path: Path) -> None:
    assert write_figures(summarize(drawn_plan, {}), tmp_path) == []
    rows = {fit.key: ROW for fit in drawn_plan.fits}
    written = write_figures(summarize(drawn_plan, rows), tmp_path)
    assert [path.name for path in written] == ["tiny.svg", "tiny_easy.svg"]
    assert all(path.read_text(encoding="utf-8").startswith("<?xml") for path in written)

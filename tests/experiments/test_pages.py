"""Pages: which methods they name as below the published numbers, times, and published beside measured numbers."""

from __future__ import annotations

from typing import Any

import pytest

from crowdprism.experiments import Plan, make_plan, read_study, summarize
from crowdprism.experiments.pages import shortfall_section, time_table


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

"""Tables: selection, means, standard errors, ranks; by hand."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdprism.experiments import Plan, Published, make_plan, read_study, summarize, write_page
from crowdprism.experiments.pages import as_csv, markdown
from crowdprism.experiments.table_results import (
    Measured,
    chosen_row,
    difference,
    distance_from_published,
    rank_agreement,
)


def rows_of(plan: Plan, test: dict[str, list[float]]) -> dict[str, Any]:
    """The first grid point of each trial has the number, and is the one that validation prefers."""
    rows = {}
    for (_, method, seed), fits in plan.points.items():
        for place, fit in enumerate(fits):
            chosen = {"test": test[method][seed - 1], "valid": 90.0} if not place else {"test": 0.0, "valid": 10.0}
            rows[fit.key] = {"fit": fit.content, "status": "done", "seconds": 1.0, **chosen}
    return rows


@pytest.fixture
def plan(tiny_text: str) -> Plan:
    return make_plan(read_study(tiny_text), "quick")


def test_the_grid_point_with_the_best_validation_figure_counts(plan: Plan) -> None:
    result = summarize(plan, rows_of(plan, {"f": [80.0, 84.0], "vote": [79.0, 80.0]}))
    ours = result.measured("easy", "f")
    assert ours is not None
    assert (ours.mean, ours.spread, ours.n_trials) == (82.0, 2.0, 2)
    assert ours.standard_error == pytest.approx(2.0)  # sqrt(8) / sqrt(2)


def test_a_trial_with_an_incomplete_grid_is_left_out(plan: Plan) -> None:
    rows = rows_of(plan, {"f": [80.0, 84.0], "vote": [79.0, 80.0]})
    del rows[plan.points["easy", "f", 2][3].key]
    ours = summarize(plan, rows).measured("easy", "f")
    assert ours is not None
    assert ours.by_seed == {1: 80.0}
    assert ours.standard_error is None


def test_a_grid_point_that_failed_loses_and_is_told(plan: Plan) -> None:
    rows = rows_of(plan, {"f": [80.0, 84.0], "vote": [79.0, 80.0]})
    fit = plan.points["easy", "f", 1][0]
    rows[fit.key] = {"fit": fit.content, "status": "failed", "reason": "TrainingError: not finite"}
    result = summarize(plan, rows)
    ours = result.measured("easy", "f")
    assert ours is not None
    assert ours.by_seed == {1: 0.0, 2: 84.0}
    assert "1 fits failed; the first with TrainingError: not finite" in markdown(result)


def test_differences_are_paired_by_seed() -> None:
    one, other = Measured({1: 50.0, 2: 90.0, 3: 70.0}), Measured({2: 89.0, 3: 67.0, 4: 10.0})
    found = difference(one, other)
    assert found is not None
    assert (found.mean, found.n_trials) == (2.0, 2)
    assert found.standard_error == pytest.approx(np.std([1, 3], ddof=1) / math.sqrt(2))
    assert difference(one, Measured({9: 1.0})) is None


def test_distances_count_both_standard_errors() -> None:
    ours = Measured({1: 80.0, 2: 84.0})
    # The published spread is over five trials with denominator five: its standard error is spread / sqrt(4).
    assert distance_from_published(ours, Published(77.0, 3.0)) == pytest.approx(5.0 / math.hypot(2.0, 1.5))
    assert distance_from_published(Measured({1: 80.0}), Published(77.0, 3.0)) is None


def test_rank_agreement_needs_three_methods(plan: Plan) -> None:
    assert (
        rank_agreement(summarize(plan, rows_of(plan, {"f": [80.0, 84.0], "vote": [79.0, 80.0]})), plan.cells[0]) is None
    )


def test_a_reversed_order_has_rank_agreement_minus_one(tiny_text: str) -> None:
    third = '[methods.ds]\ntitle = "NN-DSEM"\nclassifier = "nn-dsem"\n\n[methods.vote-random]'
    text = tiny_text.replace("[methods.vote-random]", third).replace(
        "vote = [70.0, 1.0]", "vote = [70.0, 1.0]\nds = 60"
    )
    plan = make_plan(read_study(text), "quick")
    rows = rows_of(plan, {"f": [1.0, 1.0], "vote": [2.0, 2.0], "ds": [3.0, 3.0]})
    assert rank_agreement(summarize(plan, rows), plan.cells[0]) == (pytest.approx(-1.0), 3)


def test_pages_show_published_measured_and_paired_numbers(plan: Plan, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = summarize(plan, rows_of(plan, {"f": [80.0, 84.0], "vote": [79.0, 80.0]}))
    paths = write_page(result, tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == ["tiny.md", "tiny.csv", "figures/tiny.svg"]
    page = paths[0].read_text(encoding="utf-8")
    assert "| GeoCrowdNet(F) | 80.00 ± 2.00 | 82.00 ± 2.00 | +0.9 |" in page
    assert "| Easy digits | GeoCrowdNet(F) - NN-MV | +10.00 | +2.50 ± 1.50 | +1.7 | 2 |" in page
    assert "**Reduced in this budget:** all but two trials" in page
    assert "Seeds 1, 2." in page
    table = list(csv.DictReader(paths[1].read_text(encoding="utf-8").splitlines()))
    assert table[0]["mean"] == "82"
    assert table[0]["published_mean"] == "80"
    before = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in write_page(result, tmp_path)] == before  # the same rows give the same files


def test_nothing_measured_still_makes_a_page(plan: Plan) -> None:
    empty = summarize(plan, {})
    assert "Columns not measured: Easy digits." in markdown(empty)
    assert as_csv(empty).count("\n") == 3


def test_a_budget_that_changes_the_task_shows_no_distances(tiny_text: str) -> None:
    changed = tiny_text.replace("seeds = [1, 2]", "seeds = [1, 2]\ncomparable = false")
    plan = make_plan(read_study(changed), "quick")
    page = markdown(summarize(plan, rows_of(plan, {"f": [80.0, 84.0], "vote": [79.0, 80.0]})))
    assert "| GeoCrowdNet(F) | 80.00 ± 2.00 | 82.00 ± 2.00 |\n" in page
    assert "not comparable" in page


def test_of_equal_grid_points_the_last_counts() -> None:
    rows = [{"valid": 80.0, "test": 1}, {"valid": 80.0, "test": 2}, {"valid": 70.0, "test": 3}]
    assert chosen_row(rows)["test"] == 2

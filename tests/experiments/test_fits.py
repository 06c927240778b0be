"""Plans: which fits a study has, what identifies them, and the rows that were stored for them."""

from __future__ import annotations

import csv
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdprism.errors import InvalidParameterError, UnreadableFileError
from crowdprism.experiments import (
    Plan,
    Published,
    RowStore,
    load_study,
    make_plan,
    read_study,
    study_names,
    summarize,
    write_page,
)
from crowdprism.experiments.fits import (
    Measured,
    check_parameters,
    chosen_row,
    difference,
    distance_from_published,
    key_of,
    missing_fits,
    rank_agreement,
)
from crowdprism.experiments.pages import as_csv, markdown
from crowdprism.experiments.spec import Data, read_record, without_none


@pytest.fixture
def plan(tiny_text: str) -> Plan:
    return make_plan(read_study(tiny_text), "quick")


def test_a_row_may_have_a_crowd_of_its_own() -> None:
    plan = make_plan(load_study("human-last"), "quick", methods=["gold", "nn-mv"], cells=["music"])
    kinds = {method: fits[0].data.crowd.kind for (_, method, _), fits in plan.points.items()}
    assert kinds == {"gold": "gold", "nn-mv": "human"}


def test_every_parameter_of_every_packaged_study_exists() -> None:
    for name in study_names():
        study = load_study(name)
        for budget in study.budgets:
            check_parameters(make_plan(study, budget, variants=True).fits)


def test_a_parameter_that_a_classifier_does_not_take_is_refused_before_anything_runs(tiny_text: str) -> None:
    plan = make_plan(read_study(tiny_text.replace("epochs = 2", "epoch = 2")), "quick")
    with pytest.raises(InvalidParameterError, match="has no parameter 'epoch'; it has epochs, "):
        check_parameters(plan.fits)


def test_the_grid_varies_rates_slowest_and_ties_annotators_to_the_network(tiny_text: str) -> None:
    plan = make_plan(read_study(tiny_text), "quick", methods=["f"], seeds=[1])
    points = [(fit.parameters["learning_rate"], fit.parameters["strength"]) for fit in plan.fits]
    assert points == [(0.01, 0.1), (0.01, 0.01), (0.001, 0.1), (0.001, 0.01)]
    assert all(fit.parameters["annotator_learning_rate"] == fit.parameters["learning_rate"] for fit in plan.fits)


def test_variants_are_run_only_when_named(tiny_text: str) -> None:
    study = read_study(tiny_text)
    assert {method.name for method in make_plan(study, "quick").methods} == {"f", "vote"}
    assert {method.name for method in make_plan(study, "quick", methods=["vote-random"]).methods} == {"vote-random"}
    assert study.published_for("easy", "vote-random") == study.published_for("easy", "vote")


def test_a_fit_is_known_by_its_content_and_not_by_its_table(tiny_text: str) -> None:
    one = make_plan(read_study(tiny_text), "quick", methods=["vote"]).fits
    other = make_plan(read_study(tiny_text.replace('name = "tiny"', 'name = "huge"')), "quick", methods=["vote"]).fits
    assert [fit.key for fit in one] == [fit.key for fit in other]
    assert len({fit.key for fit in one}) == len(one)


def test_a_budget_changes_what_it_names_and_nothing_else(tiny_text: str) -> None:
    changed = tiny_text.replace(
        "[published.easy]",
        "[budgets.quick.changes.easy]\ndata = { n_items = 200, crowd = { level = 0.9 } }\n[published.easy]",
    )
    cell = make_plan(read_study(changed), "quick").cells[0]
    assert (cell.data.n_items, cell.data.n_valid, cell.data.crowd.level, cell.data.crowd.n_annotators) == (
        200,
        50,
        0.9,
        4,
    )


def test_methods_with_defaults_only_take_nothing_from_study_and_budget(tiny_text: str) -> None:
    plain = tiny_text.replace('title = "NN-MV"\n', 'title = "NN-MV"\ndefaults_only = true\n', 1)
    (fit,) = make_plan(read_study(plain), "quick", methods=["vote"], seeds=[1]).fits
    assert fit.parameters == {}


ROWS = sorted((Path(__file__).parents[2] / "benchmarks" / "results" / "experiments").glob("*.jsonl"))
# Rows that no packaged study asks for; most were measured before T1 to T3 and T5 followed the reference.
NO_LONGER_WANTED = {"human.jsonl": 0, "rows.jsonl": 578}


@pytest.mark.parametrize("path", ROWS, ids=lambda path: path.name)
def test_stored_rows_are_found_by_the_keys_of_todays_fits(path: Path) -> None:
    rows = RowStore(path).read()
    for row in rows.values():
        data = without_none(asdict(read_record(Data, row["fit"]["data"], "a row")))
        assert key_of({**row["fit"], "data": data}) == key_of(row["fit"])
    studies = [load_study(name) for name in study_names()]
    plans = [make_plan(study, budget, variants=True) for study in studies for budget in study.budgets]
    keys = {fit.key for plan in plans for fit in plan.fits}
    assert len(set(rows) - keys) == NO_LONGER_WANTED[path.name]


def test_a_failed_fit_is_missing_only_if_it_is_to_be_tried_again(tiny_text: str) -> None:
    one, other = make_plan(read_study(tiny_text), "quick", methods=["vote"], seeds=[1]).fits
    rows = {one.key: {"status": "failed"}, other.key: {"status": "done"}}
    assert missing_fits([one, other], rows, retry=False, with_confusions=False) == []
    assert missing_fits([one, other], rows, retry=True, with_confusions=False) == [one]
    assert missing_fits([one, other], rows, retry=False, with_confusions=True) == [other]


def rows_of(plan: Plan, test: dict[str, list[float]]) -> dict[str, Any]:
    """The first grid point of each trial has the number, and is the one that validation prefers."""
    rows = {}
    for (_, method, seed), fits in plan.points.items():
        for place, fit in enumerate(fits):
            chosen = {"test": test[method][seed - 1], "valid": 90.0} if not place else {"test": 0.0, "valid": 10.0}
            rows[fit.key] = {"fit": fit.content, "status": "done", "seconds": 1.0, **chosen}
    return rows


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


@pytest.mark.parametrize("text", ["item,label\n1,a\n", "[1, 2]\n", '{"status": "done"}\n', "[" * 100_000])
def test_a_file_of_something_else_is_no_store_of_rows(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text(text)
    with pytest.raises(UnreadableFileError, match="something else"):
        RowStore(tmp_path / "mine").read()


@pytest.mark.parametrize("cut", ['{"fit": {"data', '{"f', ""])
def test_a_row_that_was_cut_short_is_ignored(cut: str, tmp_path: Path) -> None:
    store = RowStore(tmp_path / "rows.jsonl")
    store.path.write_text(cut)
    store.append([{"fit": {"seed": 1}, "test": 90.0}])
    assert [row["test"] for row in store.read().values()] == [90.0]

"""Plans: which fits a study has, what identifies them, and the rows that were stored for them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from crowdprism.errors import InvalidParameterError
from crowdprism.experiments import Plan, RowStore, load_study, make_plan, read_study, study_names
from crowdprism.experiments.fits import check_parameters, key_of, missing_fits
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
# Rows that no packaged study asks for; most were measured before T1 and T2 followed the reference.
NO_LONGER_WANTED = {"human.jsonl": 0, "rows.jsonl": 392}


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

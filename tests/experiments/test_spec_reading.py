"""Specifications: what is read, and what is said where something is wrong."""

from __future__ import annotations

import pytest

from crowdprism.errors import InvalidParameterError
from crowdprism.experiments import load_study, make_plan, read_study, study_names


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("epochs = 2", "epochs = 2\n[gird]", r"unknown key 'gird'; known are grid, "),
        ("source =", 'sorce = "x"\nsource =', r"unknown key 'sorce'; known are source, "),
        ('title = "NN-MV"\n', 'title = "NN-MV"\nclasifier = 3\n', r"\[methods.vote\] .*'clasifier'; known are classif"),
        ("n_items = 300", "n_item = 300", r"data has the unknown key 'n_item'; known are n_items"),
        ("level = 0.8", "levels = 0.8", r"crowd has the unknown key 'levels'; known are level"),
        ("seeds = [1, 2]", "seed = [1, 2]", r"\[budgets.quick\] has the unknown key 'seed'; known are seeds"),
        ("seeds = [1, 2]", "seeds = 3", r"seeds must be a list, not 3"),
        ("n_items = 300", 'n_items = "300"', r"n_items must be a whole number, not '300'"),
        ('kind = "family"', 'kind = "families"', r"kind must be one of human, gold, machine, family, not 'families'"),
        ("[published.easy]", "[published.esay]", r"names the cell 'esay'; it has easy"),
        ('variant_of = "vote"', 'variant_of = "voter"', r"names the method 'voter'; it has vote"),
        ('["f", "vote"]', '["f", "g"]', r"names the method 'g'"),
        ("f = [80.0, 2.0]", 'f = "80"', r"must be a mean or \[mean, spread\]"),
        ("strength = [0.1, 0.01]", "strength = 0.1", r"grid of 'strength' must be a list"),
        ('title = "Digits"', "", r"lacks the key 'title'"),
        ('title = "Digits"', "title = ", r"is no TOML"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_specification_is_an_error_that_names_what_is_known(
    tiny_text: str, right: str, wrong: str, told: str
) -> None:
    assert right in tiny_text
    with pytest.raises(InvalidParameterError, match=told):
        read_study(tiny_text.replace(right, wrong, 1))


def test_a_study_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(InvalidParameterError, match="There is no study 'T9'; there are T"):
        load_study("T9")
    with pytest.raises(InvalidParameterError, match=r"nowhere.toml cannot be read"):
        load_study("nowhere.toml")


def test_every_parameter_of_every_packaged_study_exists() -> None:
    from crowdprism.experiments.fits import check_parameters

    for name in study_names():
        study = load_study(name)
        for budget in study.budgets:
            check_parameters(make_plan(study, budget, variants=True).fits)


def test_a_parameter_that_a_classifier_does_not_take_is_refused_before_anything_runs(tiny_text: str) -> None:
    from crowdprism.experiments.fits import check_parameters

    plan = make_plan(read_study(tiny_text.replace("epochs = 2", "epoch = 2")), "quick")
    with pytest.raises(InvalidParameterError, match="has no parameter 'epoch'; it has epochs, "):
        check_parameters(plan.fits)


# Table, column, method, mean, spread: as printed.
PRINTED = [
    ("T1", "mnist-case1-1000-15", "geocrowdnet-f", 79.89, 3.08),
    ("T1", "mnist-case2-10000-5", "geocrowdnet", 60.29, 7.91),
    ("T1", "fashion-case1-1000-30", "geocrowdnet-w", 85.56, 1.91),
    ("T2", "labelme", "geocrowdnet-f", 85.85, 0.33),
    ("T2", "music", "mbem", 69.00, 2.15),
    ("T3", "gamma-0.3", "nn-mv", 33.24, 1.17),
    ("T4", "fashion-case1-750-30", "max-mig", 72.59, 8.38),
    ("T5", "mnist-case2-5000-25", "tracereg", 78.06, 6.72),
    ("T6", "fashion-case2-5000-25", "max-mig", 85.33, 2.09),
]


@pytest.mark.parametrize(("table", "cell", "method", "mean", "spread"), PRINTED)
def test_published_numbers_are_those_printed(table: str, cell: str, method: str, mean: float, spread: float) -> None:
    published = load_study(table).published_for(cell, method)
    assert published is not None
    assert (published.mean, published.spread) == (mean, spread)


def test_every_column_has_all_ten_published_methods() -> None:
    for name in ("T1", "T2", "T3", "T4", "T5", "T6"):
        study = load_study(name)
        assert {len(study.published[cell.name]) for cell in study.cells} == {10}
    assert load_study("confusions").published_for("gamma-0.01", "geocrowdnet-w").mean == 0.102


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

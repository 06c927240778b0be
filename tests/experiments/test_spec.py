"""Specifications: what is read, and what is said where something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from crowdprism.errors import InvalidParameterError
from crowdprism.experiments import load_study, read_study


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("epochs = 2", "epochs = 2\n[gird]", r"unknown key 'gird'; known are grid, "),
        ("source =", 'sorce = "x"\nsource =', r"unknown key 'sorce'; known are source, "),
        ('title = "NN-MV"\n', 'title = "NN-MV"\nclasifier = 3\n', r"\[methods.vote\] .*'clasifier'; known are classif"),
        ("n_items = 300", "n_item = 300", r"data has the unknown key 'n_item'; known are n_items"),
        ("level = 0.8", "levels = 0.8", r"crowd has the unknown key 'levels'; known are level"),
        ("seeds = [1, 2]", "seed = [1, 2]", r"\[budgets.quick\] has the unknown key 'seed'; known are seeds"),
        ("seeds = [1, 2]", "seeds = 3", r"Expected `array`, got `int` - at `\$.seeds`"),
        ("n_items = 300", 'n_items = "300"', r"Expected `int \| null`, got `str` - at `\$.n_items`"),
        ('kind = "family"', 'kind = "families"', r"kind must be one of human, gold, machine, family, not 'families'"),
        ("[published.easy]", "[published.esay]", r"names the cell 'esay'; it has easy"),
        ('variant_of = "vote"', 'variant_of = "voter"', r"names the method 'voter'; it has vote"),
        ('["f", "vote"]', '["f", "g"]', r"names the method 'g'"),
        ("f = [80.0, 2.0]", 'f = "80"', r"must be a mean or \[mean, spread\]"),
        ("strength = [0.1, 0.01]", "strength = 0.1", r"Expected `array`, got `float` - at `\$.grid"),
        ('title = "Digits"', "", r"missing required field `title`"),
        ('title = "Digits"', "title = ", r"is not valid TOML"),
        ('title = "Digits"', f"title = {'[' * 5000}", r"is not valid TOML"),
        ("[methods.vote]", "[[methods]]", r"not that of a study"),
        ("[published.easy]", "[[published.easy]]", r"not that of a study"),
        ('name = "tiny"', 'name = "../tiny"', r"matching regex .* at `\$.name"),
        ('name = "easy"', 'name = "/tmp/easy"', r"matching regex .* at `\$.name"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_specification_is_an_error_that_names_what_is_known(
    tiny_text: str, right: str, wrong: str, told: str
) -> None:
    assert right in tiny_text
    with pytest.raises(InvalidParameterError, match=told):
        read_study(tiny_text.replace(right, wrong, 1))


def test_a_study_takes_from_its_base_what_it_does_not_say_itself(tiny_text: str) -> None:
    own = tiny_text.replace('source = "nobody"', 'base = "T1"', 1)
    base, plain, study = load_study("T1"), read_study(tiny_text), read_study(own)
    assert study.source == base.source != plain.source
    assert study.parameters == plain.parameters != base.parameters
    assert study.method("vote") == plain.method("vote")
    assert study.method("conal") == base.method("conal")
    kept = {method.name for method in base.methods if not method.cells}
    assert {method.name for method in study.methods} == kept | {method.name for method in plain.methods}
    with pytest.raises(InvalidParameterError, match="There is no study 'T9'"):
        read_study(own.replace('"T1"', '"T9"'))


def test_a_study_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(InvalidParameterError, match="There is no study 'T9'; there are T"):
        load_study("T9")
    with pytest.raises(InvalidParameterError, match=r"nowhere.toml cannot be read"):
        load_study("nowhere.toml")


def test_a_specification_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidParameterError, match=r"odd.toml cannot be read"):
        load_study(str(tmp_path / "odd.toml"))


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

"""Groups of options: how they are declared, and how files and features are read by them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer

from crowdprism.cli.options import AsJson, expand_groups, standard_input_as_file


@dataclass(frozen=True)
class Size:
    """Two options."""

    width: Annotated[int, typer.Option("--width")] = 3
    height: Annotated[int, typer.Option("--height")] = 4


def draw(name: str, *, size: Size, json: AsJson = False) -> tuple[str, Size, bool]:
    """Draw."""
    return name, size, json


def test_a_group_becomes_one_parameter_per_field_and_arrives_as_one_object() -> None:
    expanded = expand_groups(draw)
    assert list(inspect.signature(expanded).parameters) == ["name", "width", "height", "json"]
    assert expanded(name="x", width=1, height=2, json=True) == ("x", Size(1, 2), True)
    assert expanded.__doc__ == "Draw."


def test_a_pipe_in_and_a_pipe_out(run, labels_csv: Path) -> None:
    outcome = run("-q", "aggregate", "-", "-m", "majority-vote", stdin=labels_csv.read_text())
    assert [line.split(",")[1] for line in outcome.out.splitlines()] == ["label", "cat", "dog", "cat"]
    assert outcome.err == ""


def test_standard_input_is_a_file_only_where_it_is_asked_for() -> None:
    with standard_input_as_file([Path("labels.csv")]) as paths:
        assert paths == [Path("labels.csv")]


@pytest.mark.parametrize("command", ["aggregate", "info", "compare", "diagnose", "suggest"])
def test_a_missing_file_names_the_nearest(command: str, failed) -> None:
    assert "Did you mean labels.csv?" in failed(command, "lables.csv")


def test_missing_features_name_the_nearest(small_folder: Path, failed) -> None:
    (small_folder / "features.npy").write_bytes(b"")
    assert "Did you mean features.npy?" in failed("train", "labels.csv", "-x", "feature.npy")


def test_reading_options_are_offered_where_they_help(small_folder: Path, failed) -> None:
    with (small_folder / "labels.csv").open("a", encoding="utf-8") as file:
        file.write("pic9,ann,\n")
    assert "--reading skip_missing=yes" in failed("aggregate", "labels.csv")
    assert "NAME=VALUE" in failed("aggregate", "labels.csv", "--reading", "skip")


def test_a_reading_option_is_heeded(small_folder: Path, run) -> None:
    with (small_folder / "labels.csv").open("a", encoding="utf-8") as file:
        file.write("pic9,ann,\n")
    outcome = run("aggregate", "labels.csv", "--reading", "skip_missing=yes")
    assert outcome.code == 0
    assert "pic5" in outcome.out


def test_features_of_other_items_show_three_of_each(small_folder: Path, failed) -> None:
    (small_folder / "x.csv").write_text("item,x\n" + "".join(f"img{i},{i}.5\n" for i in range(5)))
    said = failed("train", "labels.csv", "-x", "x.csv", "-o", "run")
    assert "'img0', 'img1', 'img2', ... (5 in all)" in said
    assert "'pic0', 'pic1', 'pic2', ... (6 in all)" in said


def test_a_file_beyond_the_allowed_size_is_refused_with_the_option_that_allows_more(labels_csv: Path, failed) -> None:
    assert "allow more with --max-size" in failed("info", labels_csv, "--max-size", "10")
    assert "Pass --max-size ... as a number of bytes" in failed("info", labels_csv, "--max-size", "lots")

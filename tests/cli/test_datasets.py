"""`crowdprism datasets` lists, describes and fetches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crowdprism.cli.app import app
from crowdprism.datasets import catalogue
from crowdprism.errors import InvalidParameterError, MissingDatasetError


def run(*words: str):
    return CliRunner().invoke(app, ["datasets", *words], catch_exceptions=True)


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROWDPRISM_DATA", raising=False)
    monkeypatch.setenv("CROWDPRISM_CACHE", str(tmp_path))


def test_all_sets_are_listed() -> None:
    done = run()
    assert done.exit_code == 0
    assert all(name in done.output for name in catalogue())
    assert {one["name"] for one in json.loads(run("--json").stdout)} == set(catalogue())


def test_a_name_alone_describes_the_set() -> None:
    done = run("music")
    assert done.exit_code == 0
    for told in ("2945", "blues", "Rodrigues", "none stated", "not here"):
        assert told in done.output
    assert json.loads(run("music", "--json").stdout)["annotators"] == 44
    assert run("describe", "music").output == done.output


def test_check_tells_damaged_files_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDPRISM_DATA", str(tmp_path))
    (tmp_path / "music").mkdir()
    for file in catalogue()["music"].files:
        (tmp_path / "music" / file).write_bytes(b"")
    assert "differ from the catalogue: annotations.csv.gz" in run("music", "--check").output
    assert "no files" in run("digits", "--check").output


def test_what_cannot_be_fetched_is_said_plainly() -> None:
    assert isinstance(run("fetch", "music").exception, MissingDatasetError)
    assert "cannot be fetched" in str(run("fetch", "music").exception)
    assert "nothing to fetch" in str(run("fetch", "digits").exception)
    assert isinstance(run("nothing").exception, InvalidParameterError)

"""`crowdprism compare` ranks, recommends, and shows what it has when interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import crowdprism as cp
from crowdprism.cli import INTERRUPTED
from crowdprism.comparison import running


def test_compare_ranks_and_recommends(crowd_folder: Path, hostile: str, run) -> None:
    words = ("compare", "labels.csv", "-m", "majority-vote,dawid-skene,crowdlayer", "--seeds", 2)
    code, out, said = run(*words, "--report", "c.html")
    assert code == 0, said
    assert "Methods, best first" in out
    assert "crowdlayer failed: It is a classifier and needs features of the items." in out
    page = (crowd_folder / "c.html").read_text(encoding="utf-8")
    assert "Methods compared" in page
    assert "crowdlayer failed: It is a classifier" in page
    assert hostile not in page
    record = json.loads(run(*words, "--json")[1])
    assert record["recommended"] in ("majority-vote", "dawid-skene")
    assert record["reason"]
    assert [row["method"] for row in record["methods"]][-1] == "crowdlayer"


def test_compare_takes_features(crowd_folder: Path, run) -> None:
    words = ("compare", "labels.csv", "-x", "features.csv", "-m", "majority-vote,geocrowdnet", "--epochs", 5, "--json")
    record = json.loads(run(*words, "--seeds", 1)[1])
    assert all(row["log_likelihood"] is not None for row in record["methods"])


@pytest.mark.usefixtures("crowd_folder")
def test_compare_shows_what_was_measured_when_interrupted(run, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = running.fit_method

    def impatient(name: str, *rest: object, **more: object) -> cp.FitResult:
        if name == "glad":
            raise KeyboardInterrupt
        return fitted(name, *rest, **more)

    monkeypatch.setattr(running, "fit_method", impatient)
    code, out, said = run("compare", "labels.csv", "-m", "majority-vote,glad", "--seeds", 1)
    assert code == INTERRUPTED
    assert "majority-vote" in out
    assert "methods measured so far: 1" in said

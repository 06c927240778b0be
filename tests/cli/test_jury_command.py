"""`crowdprism jury`: screen, JSON, page, errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def jury_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with labels of three people, two judges and a copy, and gold of half of the items."""
    random = np.random.default_rng(0)
    skills = {"h1": 0.8, "h2": 0.8, "h3": 0.8, "gpt": 0.95, "<b>weak</b>": 0.3}
    with (tmp_path / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "annotator", "label"])
        for item in range(100):
            for name, skill in skills.items():
                said = item % 2 if random.random() < skill else 1 - item % 2
                writer.writerow([item, name, "yn"[said]])
                if name == "gpt":
                    writer.writerow([item, "gpt-copy", "yn"[said]])
    (tmp_path / "gold.csv").write_text("item,label\n" + "".join(f"{item},{'yn'[item % 2]}\n" for item in range(60)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_against_people_it_tests_who_may_replace_them(run, jury_folder: Path) -> None:
    shown = run("jury", "labels.csv", "--human", "h1, h2,h3")
    assert shown.code == 0, shown.err
    assert "Measured against the majority of 3 humans, on 100 of 100 items." in shown.out
    assert "May replace a person by the alternative annotator test: gpt, gpt-copy" in shown.out
    record = json.loads(run("jury", "labels.csv", "--human", "h1,h2,h3", "--json").out)
    assert record["replaces"]["gpt"]["passed"] is True
    assert record["replaces"]["<b>weak</b>"]["passed"] is False


def test_against_gold_everyone_is_a_judge(run, jury_folder: Path) -> None:
    record = json.loads(run("jury", "labels.csv", "--gold-file", "gold.csv", "--json").out)
    assert (record["reference"], record["n_reference"], len(record["judges"])) == ("gold", 60, 6)
    names = [judge["name"] for judge in record["judges"]]
    assert record["correlation"][names.index("gpt")][names.index("gpt-copy")] == pytest.approx(1)
    assert 1 < record["n_independent"]["value"] < 6


def test_the_page_opens_offline_and_shows_names_as_text(run, jury_folder: Path) -> None:
    assert run("jury", "labels.csv", "--gold-file", "gold.csv", "-o", "jury.html").code == 0
    page = (jury_folder / "jury.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;weak&lt;/b&gt;" in page
    assert "<b>weak" not in page
    assert "<script" not in page
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Pass --gold-file gold.csv, or name the people with --human"),
        (("--human", "h1,nobody"), "1 of 2 humans are not annotators: 'nobody'"),
        (("--human", "h1,h2", "--epsilon", "3"), "epsilon must lie between 0 and 1"),
    ],
)
def test_bad_options_are_explained(run, jury_folder: Path, words: tuple, message: str) -> None:
    refused = run("jury", "labels.csv", *words)
    assert refused.code == 2
    assert message in " ".join(refused.err.split())

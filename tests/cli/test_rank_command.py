"""`crowdprism rank`: screen, JSON, page, errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with 400 comparisons of four items; `spam` answers at random."""
    random = np.random.default_rng(0)
    scores = {"best": 1.5, "good": 0.5, "poor": -0.5, "<b>worst</b>": -1.5}
    lines = ["left,right,winner,annotator,team"]
    for _ in range(400):
        left, right = random.choice(list(scores), size=2, replace=False)
        judge = str(random.choice(["ann", "bob", "cy", "spam"]))
        chance = 0.5 if judge == "spam" else 1 / (1 + np.exp(scores[right] - scores[left]))
        lines.append(f"{left},{right},{left if random.random() < chance else right},{judge},{judge[:1] < 'c'}")
    (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_becomes_a_ranking_and_a_page_in_one_command(run, pairs: Path) -> None:
    shown = run("rank", "pairs.csv", "-o", "ranking.html")
    assert shown.code == 0, shown.err
    assert "400 comparisons; left <- left, right <- right, winner <- winner, judge <- annotator" in shown.err
    assert "best is better than good" in shown.out
    page = (pairs / "ranking.html").read_text()
    assert "Judges, least reliable first" in page
    assert "<b>worst</b>" not in page
    assert "&lt;b&gt;worst&lt;/b&gt;" in page


def test_json_lists_items_best_first_and_names_the_careless_judge(run, pairs: Path) -> None:
    record = json.loads(run("rank", "pairs.csv", "--json", "--different", "poor,good", "--group", "team").out)
    assert [row["item"] for row in record["items"]] == ["best", "good", "poor", "<b>worst</b>"]
    assert min(record["judges"], key=lambda row: row["reliability"])["judge"] == "spam"
    assert record["difference"]["clear"] is True
    assert set(record["groups"]) == {"True", "False"}
    assert len(record["ask_next"]) == 5


def test_a_question_about_two_items_gets_one_sentence(run, pairs: Path) -> None:
    shown = run("rank", "pairs.csv", "--different", "best,<b>worst</b>", "--ask", "0")
    assert shown.out.startswith("best is better than <b>worst</b>: ")
    wrong = run("rank", "pairs.csv", "--different", "best,nobody")
    assert wrong.code == 2
    assert "no item 'nobody'" in wrong.err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("x,x,x,ann", "compare an item with itself; the first is 'x' in row 1"),
        ("x,y,z,ann", "winners are neither item of their comparison; the first is 'z' in row 1"),
        ("x,y,,ann", "--skip-missing"),
    ],
)
def test_bad_rows_are_refused_with_their_place(run, pairs: Path, rows: str, message: str) -> None:
    (pairs / "bad.csv").write_text(f"left,right,winner,annotator\nx,y,x,ann\n{rows}\n")
    shown = run("rank", "bad.csv", "-o", "bad.html")
    assert shown.code == 2
    assert message in " ".join(shown.err.split())
    assert not (pairs / "bad.html").exists()


def test_skipped_rows_are_counted(run, pairs: Path) -> None:
    (pairs / "gaps.csv").write_text("left,right,winner,annotator\nx,y,x,ann\nx,y,,ann\n")
    assert "left out 1 comparison without a winner" in run("rank", "gaps.csv", "--skip-missing").err

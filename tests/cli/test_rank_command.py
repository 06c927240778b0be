"""`crowdprism rank` and `crowdprism rate`: screen, JSON, page, errors; and ratings in `aggregate`."""

from __future__ import annotations

import csv
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


def test_known_winners_mark_the_judges_on_screen_page_and_json(run, pairs: Path) -> None:
    (pairs / "gold.csv").write_text("left,right,winner\nbest,poor,best\n<b>worst</b>,good,right\nbest,other,best\n")
    shown = run("rank", "pairs.csv", "--gold-file", "gold.csv", "-o", "ranking.html")
    assert shown.code == 0, shown.err
    assert "gold.csv: known winners of 2 pairs; left out 1 row with an item that nobody compared" in shown.err
    assert "the ranking puts the known winner first in 100%" in shown.out
    assert "spam in " in shown.out
    assert "answers on pairs with a known winner" in (pairs / "ranking.html").read_text()
    record = json.loads(run("rank", "pairs.csv", "--gold-file", "gold.csv", "--json").out)
    rows = [line.split(",") for line in (pairs / "pairs.csv").read_text().splitlines()[1:]]
    asked = [row for row in rows if row[3] == "spam" and set(row[:2]) in ({"best", "poor"}, {"<b>worst</b>", "good"})]
    spam = next(row for row in record["judges"] if row["judge"] == "spam")
    assert (spam["known"], spam["known_right"]) == (len(asked), sum(row[2] in ("best", "good") for row in asked))
    assert record["gold_accuracy"]["value"] == 1.0


def test_a_column_of_known_winners_is_found_by_its_name(run, pairs: Path) -> None:
    lines = (pairs / "pairs.csv").read_text().splitlines()
    marked = [lines[0] + ",gold", lines[1] + ",left", *(f"{one}," for one in lines[2:])]
    (pairs / "gold.csv").write_text("\n".join(marked))
    shown = run("rank", "gold.csv", "pairs.csv", "--json")
    assert "gold <- gold" in shown.err
    assert sum(row["known"] for row in json.loads(shown.out)["judges"]) > 1
    assert "known" not in json.loads(run("rank", "pairs.csv", "--json").out)["judges"][0]
    (pairs / "turned.csv").write_text("left,right,winner\n{1},{0},right\n".format(*lines[1].split(",")))
    (pairs / "wrong.csv").write_text("left,right,winner\n{1},{0},left\n".format(*lines[1].split(",")))
    assert run("rank", "gold.csv", "--gold-file", "turned.csv").code == 0
    refused = run("rank", "gold.csv", "--gold-file", "wrong.csv")
    assert refused.code == 2
    assert "Gold contradicts itself on 1 of 1 pairs" in " ".join(refused.err.split())


def test_a_question_about_two_items_gets_one_sentence(run, pairs: Path) -> None:
    shown = run("rank", "pairs.csv", "--different", "best,<b>worst</b>", "--ask", "0")
    assert shown.out.startswith("best is better than <b>worst</b>: ")
    wrong = run("rank", "pairs.csv", "--different", "best,nobody")
    assert wrong.code == 2
    assert "are not items: 'nobody'" in wrong.err


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
    (pairs / "unsure.csv").write_text("left,right,winner,annotator\nx,y,x,ann\nx,y,Unsure ,ann\nx,y,n/a,bob\n")
    assert "neither item of their comparison" in " ".join(run("rank", "unsure.csv").err.split())
    assert "left out 2 comparisons without a winner" in run("rank", "unsure.csv", "--skip-label", "unsure,N/A").err


# -- rate


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    random = np.random.default_rng(0)
    bias = {"ann": 0.0, "bob": 8.0, "<b>cy</b>": -1.0}
    lines = ["item,annotator,rating"]
    for item in range(30):
        lines += [f"{item},{who},{10 * (item % 7) + b + random.normal():.2f}" for who, b in bias.items()]
    (tmp_path / "scores.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_becomes_scores_and_a_page_in_one_command(run, scores: Path) -> None:
    shown = run("rate", "scores.csv", "-o", "scores.html")
    assert shown.code == 0, shown.err
    assert "intraclass correlation" in shown.out
    assert "most bob (+" in shown.out
    page = (scores / "scores.html").read_text()
    assert "30 items rated by 3 annotators" in page
    assert "<b>cy" not in page


def test_json_has_items_annotators_and_the_icc(run, scores: Path) -> None:
    record = json.loads(run("rate", "scores.csv", "--json").out)
    assert len(record["items"]) == 30
    assert record["icc"] > 0.7
    assert max(record["annotators"], key=lambda row: row["bias"])["annotator"] == "bob"


def test_words_among_numbers_are_named_with_the_way_out(run, scores: Path) -> None:
    (scores / "mixed.csv").write_text("item,annotator,rating\n1,ann,3.5\n1,bob,unsure\n2,ann,4\n2,bob,5\n")
    shown = run("rate", "mixed.csv")
    assert shown.code == 2
    assert "1 of 4 ratings are no numbers: 'unsure'" in " ".join(shown.err.split())
    assert "--skip-label" in shown.err
    assert run("rate", "mixed.csv", "--skip-label", "unsure").code == 0


@pytest.mark.parametrize("values", [["3,5", "1.000,25", "4", "5,5"], ["3.5", "1,000.25", "4", "5.5"]])
def test_ratings_may_be_written_as_in_europe_or_america(run, scores: Path, values: list[str]) -> None:
    rows = "".join(f"{row // 2};{'ann' if row % 2 else 'bob'};{value}\n" for row, value in enumerate(values))
    (scores / "sheet.csv").write_text("item;annotator;rating\n" + rows)
    shown = run("rate", "sheet.csv", "--json")
    assert shown.code == 0, shown.err
    assert "unlike the others" not in shown.err
    found = {one["item"]: one["score"] for one in json.loads(shown.out)["items"]}
    assert found[0] > 2 * found[1] > 6


def test_an_order_gives_an_expected_score_beside_the_label(run, scores: Path) -> None:
    rows = "".join(f"{item},{who},{('low', 'mid', 'high')[item % 3]}\n" for item in range(12) for who in ("ann", "bob"))
    (scores / "stars.csv").write_text("item,annotator,label\n" + rows)
    shown = run("aggregate", "stars.csv", "--order", "low,mid,high", "-o", "run", "--no-report")
    assert shown.code == 0, shown.err
    found = list(csv.DictReader((scores / "run" / "labels.csv").open()))
    assert [row["label"] for row in found[:3]] == ["low", "mid", "high"]
    assert [round(float(row["expected_score"])) for row in found[:3]] == [1, 2, 3]
    assert "ordinal-dawid-skene" in (scores / "run" / "result.json").read_text()


def test_a_contradictory_or_incomplete_order_is_refused(run, scores: Path) -> None:
    (scores / "stars.csv").write_text("item,annotator,label\n1,ann,low\n1,bob,high\n")
    assert run("aggregate", "stars.csv", "--order", "low,high,low").code == 2
    shown = run("aggregate", "stars.csv", "--order", "low,medium")
    assert shown.code == 2
    assert "'high' by annotator 'bob' on item 1" in " ".join(shown.err.split())
    assert run("aggregate", "stars.csv", "--method", "ordinal-dawid-skene").code == 2

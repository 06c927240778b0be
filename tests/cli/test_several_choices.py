"""`crowdprism aggregate --multi`: run folder, labels, JSON, errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import crowdprism as cp
from crowdprism.aggregators.multi_label import MultiLabelResult
from crowdprism.errors import ResultFormatError


@pytest.fixture
def topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lines = ["item,annotator,label"]
    for item in range(20):
        true = ["news|sport", "news", "sport", ""][item % 4]
        lines += [f"{item},{who},{true}" for who in ("ann", "bob")]
        lines.append(f"{item},cy,{'sport' if item % 3 else true}")
    (tmp_path / "topics.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_becomes_labels_and_a_page_in_one_command(run, topics: Path) -> None:
    shown = run("aggregate", "topics.csv", "--multi", "-o", "run")
    assert shown.code == 0, shown.err
    assert "MASI alpha" in shown.out
    rows = list(csv.DictReader((topics / "run" / "labels.csv").open()))
    assert [row["labels"] for row in rows[:4]] == ["news|sport", "news", "sport", ""]
    assert list(rows[0]) == ["item", "labels", "confidence", "probability:news", "probability:sport"]
    assert "How often they tick what applies" in (topics / "run" / "report.html").read_text()
    finds = {
        row["annotator"]: float(row["finds"]) for row in csv.DictReader((topics / "run" / "annotators.csv").open())
    }
    assert finds["cy"] < finds["ann"]


def test_a_run_is_loaded_again_and_replaced_by_the_next(run, topics: Path) -> None:
    for _ in range(2):
        assert run("aggregate", "topics.csv", "--multi", "-o", "run", "--no-report").code == 0
        result = cp.load("run")
        labels = [row["labels"] for row in csv.DictReader((topics / "run" / "labels.csv").open())]
        assert ["|".join(one) for one in result.labels()] == labels
        assert result.annotators.tolist() == ["ann", "bob", "cy"]


def test_choices_of_different_items_are_refused(run, topics: Path) -> None:
    run("aggregate", "topics.csv", "--multi", "-o", "run")
    (topics / "run" / "manifest.json").unlink()
    record = json.loads((topics / "run" / "choices" / "1-result.json").read_text())
    record["annotators"]["values"][0] = "zoe"
    (topics / "run" / "choices" / "1-result.json").write_text(json.dumps(record))
    with pytest.raises(ResultFormatError, match="other items or annotators"):
        MultiLabelResult.load("run")


def test_a_run_is_not_read_as_annotations(run, topics: Path) -> None:
    run("aggregate", "topics.csv", "--multi", "-o", "run")
    refused = run("info", "run")
    assert refused.code == 2
    assert "is a run or store that crowdprism wrote. Pass the annotations it was made of" in refused.err


def test_json_and_other_methods_and_a_table(run, topics: Path) -> None:
    record = json.loads(run("aggregate", "topics.csv", "--multi", "--method", "majority-vote", "--json").out)
    assert record["labels"][0]["labels"] == ["news", "sport"]
    assert {row["choice"] for row in record["choices"]} == {"news", "sport"}
    assert run("aggregate", "topics.csv", "--multi", "-o", "labels.csv").code == 0
    assert (topics / "labels.csv").read_text().startswith("item,labels,confidence,")
    assert run("aggregate", "topics.csv", "--multi").out.startswith("item,labels,")


def test_gold_is_used_and_measured_against(run, topics: Path) -> None:
    (topics / "gold.csv").write_text("item,label\n0,news|sport\n1,news\n2,news\n99,news\n")
    shown = run("aggregate", "topics.csv", "--multi", "--gold-file", "gold.csv", "-o", "run")
    assert shown.code == 0, shown.err
    assert "gold of 3 items" in shown.err
    assert "F1 against gold, which the fit did not see: 0.75" in shown.out  # item 2 is sport by all annotators
    rows = list(csv.DictReader((topics / "run" / "labels.csv").open()))
    assert rows[2]["labels"] == "news"


def test_a_choice_outside_the_list_is_refused(run, topics: Path) -> None:
    shown = run("aggregate", "topics.csv", "--multi", "--order", "news,weather")
    assert shown.code == 2
    assert "Unknown are 'sport'" in " ".join(shown.err.split())


def test_abstentions_are_never_labels(run, topics: Path) -> None:
    rows = "".join(
        f"{item},{who},{'unsure' if (item + at) % 3 == 0 else 'yn'[item % 2]}\n"
        for item in range(12)
        for at, who in enumerate(("ann", "bob", "cy"))
    )
    (topics / "unsure.csv").write_text("item,annotator,label\n" + rows)
    shown = run("aggregate", "unsure.csv", "--abstain", "Unsure")
    assert shown.code == 0, shown.err
    assert [row["label"] for row in csv.DictReader(shown.out.splitlines())] == ["y", "n"] * 6
    assert run("aggregate", "unsure.csv", "--abstain", "dunno").code == 2
    skipped = run("aggregate", "unsure.csv", "--skip-label", "unsure")
    assert "skipped, answered 'unsure': 12" in skipped.err
    all_unsure = run("aggregate", "unsure.csv", "--skip-label", "unsure,y,n")
    assert all_unsure.code == 2
    assert "all 36 answers are to be skipped" in " ".join(all_unsure.err.split())


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (["unsure"] * 4, ("--abstain", "unsure"), "There is only one class: 'unsure'; every answer is this one."),
        (
            ["unsure", "maybe"] * 2,
            ("--abstain", "unsure,maybe"),
            "All 4 answers are 'unsure', 'maybe'; nothing is left",
        ),
        (["low", "high", "huge", "low"], ("--order", "low,high"), "Unknown are 'huge'. Add them to --order ..."),
        (["low", "high"] * 2, ("--order", "low,high,low"), "1 of 3 labels are repeated; the first is 'low'"),
        (["a|b", "c", "a", "b"], ("--multi", "--order", "a,b"), "1 of 4 answers tick choices outside the 2 given ones"),
    ],
)
def test_answers_that_cannot_be_used_end_in_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run, labels: list[str], options: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{at // 2},{'ab'[at % 2]},{label}\n" for at, label in enumerate(labels))
    Path("labels.csv").write_text("item,annotator,label\n" + rows)
    shown = run("aggregate", "labels.csv", *options)
    assert shown.code == 2
    assert said in " ".join(shown.err.split())
    assert shown.err.count("error:") == 1

"""The verdict of the report on crowds whose answer is known."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.cli.run_folder import annotator_columns, save_csv
from crowdprism.diagnostics.findings import SEVERITIES, Finding
from crowdprism.files import data_folder
from crowdprism.report import ReportOptions, content
from crowdprism.report.report_records import Verdict
from crowdprism.report.verdict import from_gold, scope_of
from crowdprism.simulate import demo_annotations


def build_content(result: cp.FitResult, annotations: cp.Annotations | None = None, *, examine: bool | None = False):
    """Content without the examination, which takes a second and has tests of its own."""
    return content.build_content(result, annotations, ReportOptions(examine=examine))


def fitted(annotations: cp.Annotations, method: str = "dawid-skene", **options: Any) -> cp.FitResult:
    return cp.make_aggregator(method, **options, use_gold=False).fit(annotations).result_


@pytest.fixture(scope="module")
def crowd() -> cp.Annotations:
    return demo_annotations(np.arange(900) % 10, seed=3)


def test_a_perfect_crowd_gets_no_caution_but_an_adverse_one_does() -> None:
    good = cp.Annotations.from_dense(np.repeat(np.arange(40)[:, None] % 2, 5, axis=1))
    assert build_content(fitted(good), good).verdict.severity == "note"
    random = np.random.default_rng(0).integers(2, size=(200, 5))
    bad = cp.Annotations.from_dense(random)
    assert build_content(fitted(bad), bad).verdict.severity == "warning"


def test_swapped_classes_are_a_warning() -> None:
    a = cp.Annotations.from_dense(np.repeat(np.arange(40)[:, None] % 2, 5, axis=1))
    honest = fitted(a)
    swapped = replace(
        honest, class_probabilities=honest.class_probabilities[:, ::-1], confusions=honest.confusions[:, ::-1]
    )
    found = build_content(swapped, a, examine=True).verdict
    assert found.severity == "warning"
    assert any("swapped" in finding.sentence for finding in found.findings)


def test_crowds_that_share_no_item_are_a_warning() -> None:
    apart = cp.Annotations.from_dense([[0, 0, -1, -1], [1, 1, -1, -1], [-1, -1, 0, 0], [-1, -1, 1, 1]])
    shown = build_content(fitted(apart), apart)
    assert shown.verdict.severity == "warning"
    assert any("form 2 groups that share no items" in finding.sentence for finding in shown.verdict.findings)
    assert shown.graph.n_parts == 2


def sentences(found: Verdict) -> str:
    return " ".join(finding.sentence for finding in found.findings)


def test_findings_come_with_the_most_serious_first(crowd: cp.Annotations) -> None:
    found = build_content(fitted(crowd), crowd).verdict
    ranks = [SEVERITIES.index(finding.severity) for finding in found.findings]
    assert ranks == sorted(ranks, reverse=True)
    assert found.severity == found.findings[0].severity


def test_without_gold_a_good_crowd_is_consistent_but_not_confirmed() -> None:
    plain = cp.Annotations.from_dense(np.repeat(np.arange(40)[:, None] % 2, 5, axis=1))
    result = fitted(plain)
    found = build_content(result, plain).verdict
    assert found.level == "unconfirmed"
    assert found.headline == f"Consistent, but not confirmed: {result.expected_accuracy} expected right"
    assert found.scope.startswith("Checked: coverage, agreement.")
    assert "Without gold" in found.scope
    assert "nothing here was checked against gold" in sentences(found)
    assert any("40 answers would narrow it" in one.remedy for one in found.findings)


def test_gold_that_was_compared_is_in_the_scope(crowd: cp.Annotations) -> None:
    scope = build_content(fitted(crowd), crowd).verdict.scope
    assert "gold" in scope
    assert "Without gold" not in scope


def test_nothing_checked_is_not_called_checked() -> None:
    assert scope_of([Finding("coverage", "note", "...")]).startswith("Nothing could be checked.")


def with_some_gold(n_gold: int, *, n_wrong: int = 0, n_items: int = 400) -> cp.Annotations:
    """Five annotators who agree on every item; gold is against them on `n_wrong` items."""
    truth = np.arange(n_items) % 2
    gold = {item: int(truth[item]) if item >= n_wrong else 1 - int(truth[item]) for item in range(n_gold)}
    a = cp.Annotations.from_dense(np.repeat(truth[:, None], 5, axis=1))
    return a.with_gold(gold) if gold else a


def test_enough_gold_confirms_and_states_the_share_right() -> None:
    a = with_some_gold(100, n_wrong=10)
    found = build_content(fitted(a), a).verdict
    assert found.level == "confirmed"
    assert found.headline.startswith("Confirmed by gold: 9")
    assert "Of 100 items with gold, 90.0% have the right label." in sentences(found)


def test_little_gold_does_not_confirm_and_says_how_much_is_missing() -> None:
    a = with_some_gold(8)
    found = build_content(fitted(a), a).verdict
    assert found.level == "unconfirmed"
    (finding,) = from_gold(fitted(a), a)
    assert (finding.severity, finding.remedy) == ("note", "With 12 more, gold tells how right all labels are.")


def test_labels_no_better_than_one_class_for_all_are_not_relied_on_whatever_the_gold() -> None:
    a = with_some_gold(100, n_wrong=60)
    found = build_content(fitted(a), a).verdict
    assert found.level == "unreliable"
    assert "Naming the most frequent class" in sentences(found)


def test_gold_confirms_single_labels_too() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 400)
    a = cp.Annotations.from_triplets(np.arange(400), ["ann"] * 400, truth)
    assert build_content(fitted(a), a).verdict.level == "unreliable"
    known = a.with_gold({item: int(truth[item]) for item in range(100)})
    found = build_content(fitted(known), known).verdict
    assert (found.level, found.severity) == ("confirmed", "caution")


@pytest.mark.parametrize(("n_shared", "level"), [(2, "unreliable"), (16, "unconfirmed"), (20, "unconfirmed")])
def test_mostly_single_labels_are_not_relied_on(n_shared: int, level: str) -> None:
    rows = [[0, 0], [1, 1]] * (n_shared // 2) + [[0, -1], [-1, 1]] * ((22 - n_shared) // 2)
    a = cp.Annotations.from_dense(rows)
    found = build_content(fitted(a), a).verdict
    assert found.level == level
    assert (f"{1 - n_shared / 22:.0%} of the items have only one label" in sentences(found)) == (n_shared < 20)


@pytest.mark.parametrize(
    ("n_apart", "severity"), [(2, "note"), (20, "caution"), (100, "warning")], ids=["few", "some", "many"]
)
def test_the_severity_of_people_apart_grows_with_their_share(n_apart: int, severity: str) -> None:
    rng = np.random.default_rng(0)
    item = np.concatenate([np.repeat(np.arange(150), 2), 1000 + np.repeat(np.arange(n_apart // 2), 2)])
    annotator = np.concatenate(
        [rng.permuted(np.tile(np.arange(30), (150, 1)), axis=1)[:, :2].ravel(), 100 + np.arange(n_apart)]
    )
    label = np.concatenate([np.repeat(rng.integers(0, 2, 150), 2), np.repeat(rng.integers(0, 2, n_apart // 2), 2)])
    a = cp.Annotations.from_triplets(item, annotator, label)
    found = build_content(fitted(a), a).verdict
    (apart,) = [one for one in found.findings if one.name == "co-labelling"]
    assert apart.severity == severity
    assert (found.level == "unreliable") == (severity == "warning")


def test_warnings_of_the_fit_and_a_missing_file_are_findings() -> None:
    a = cp.Annotations.from_dense([[0, 0], [1, 1]])
    warned = replace(fitted(a, "majority-vote"), warnings=("Did not converge.",))
    found = build_content(warned).verdict
    assert {finding.name for finding in found.findings} >= {"fit", "annotations"}
    assert found.severity == "caution"


def test_names_of_careless_annotators_are_counted_and_cut(crowd: cp.Annotations) -> None:
    text = sentences(build_content(fitted(crowd), crowd).verdict)
    assert "are no better than guessing: " in text
    assert "1 of 40 annotators is giving labels against the truth: adversary-01." in text


# -- three stories ---------------------------------------------------------------------------------------------


def test_one_annotator_who_labels_at_random_is_not_relied_on() -> None:
    rng = np.random.default_rng(0)
    a = cp.Annotations.from_triplets(np.arange(200), ["ann"] * 200, rng.integers(0, 3, 200))
    shown = build_content(fitted(a), a)
    assert shown.verdict.level == "unreliable"
    assert "One annotator gave all labels" in sentences(shown.verdict)
    (row,) = shown.annotators.rows
    assert row.high - row.low > 0.5
    figure = next(figure for figure in shown.figures if figure.name == "labels expected to be right")
    assert float(figure.value.rstrip("%")) < 85


def test_copies_of_a_bad_annotator_are_named_and_not_relied_on() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 400)

    def answers(accuracy: float) -> np.ndarray:
        return np.where(rng.random(400) < accuracy, truth, (truth + rng.integers(1, 3, 400)) % 3)

    bad = answers(0.45)
    a = cp.Annotations.from_dense(
        np.stack([bad, bad, bad, answers(0.85), answers(0.85)], axis=1),
        annotator_names=["copy1", "copy2", "copy3", "good1", "good2"],
    )
    suspected = build_content(fitted(a, "majority-vote", dependence=None), a)
    assert suspected.annotators.copies == (("copy1", "copy2", "copy3"),)
    assert suspected.verdict.level == "unreliable"
    text = "3 of 5 annotators agree more with each other than skill explains (copy1, copy2, copy3); they gave 60%"
    assert text in sentences(suspected.verdict)
    found = build_content(fitted(a), a)
    assert found.verdict.level == "unreliable"
    assert "copy1, copy2 and copy3 answer as one and are counted once" in sentences(found.verdict)
    assert [one.name for one in found.verdict.findings].count("copies") == 1


def test_an_annotator_has_one_accuracy_in_result_table_file_and_page(crowd: cp.Annotations, tmp_path: Path) -> None:
    blind = replace(crowd, gold=None)
    for method in ("dawid-skene", "majority-vote", "glad"):
        result = fitted(blind, method)
        save_csv(tmp_path / "annotators.csv", annotator_columns(result))
        written = {row["annotator"]: row for row in csv.DictReader((tmp_path / "annotators.csv").open())}
        for row in build_content(result, blind).annotators.rows:
            ours = [written[row.name][name] for name in ("accuracy", "accuracy_low", "accuracy_high")]
            assert [row.accuracy, row.low, row.high] == pytest.approx([float(text) for text in ours], abs=1e-6)


def test_labelme_states_one_accuracy_for_annotator_52_and_a_range_that_holds() -> None:
    if data_folder() is None:
        pytest.skip("needs CROWDPRISM_DATA")
    known = cp.load_dataset("labelme", fetch=False).annotations
    blind = replace(known, gold=None)
    result = fitted(blind)
    place = [str(name) for name in blind.annotators.tolist()].index("52")
    (row,) = [row for row in build_content(result, blind).annotators.rows if row.name == "52"]
    assert (row.accuracy, row.low, row.high) == (
        result.annotator_accuracy[place],
        *result.annotator_accuracy_interval()[place],
    )
    own = blind.annotator == place
    right = float(np.mean(np.ma.getdata(known.gold)[blind.item[own]] == blind.label[own]))
    assert row.low - 0.01 <= right <= row.high  # 4 labels, none of them right
    assert result.expected_accuracy.low < result.accuracy(labelled_gold(known)) < result.expected_accuracy.high


def labelled_gold(annotations: cp.Annotations) -> dict[Any, Any]:
    labelled = set(annotations.items[annotations.labels_per_item > 0].tolist())
    return {name: label for name, label in annotations.gold_by_name().items() if name in labelled}


# -- what to do next


@pytest.mark.filterwarnings("ignore::crowdprism.errors.CrowdprismWarning")
def test_steps_name_items_people_and_the_command_to_run() -> None:
    random = np.random.default_rng(0)
    truth = random.integers(2, size=300)
    votes = np.repeat(truth[:, None], 5, axis=1)
    votes[:, :3] ^= random.random((300, 3)) < 0.25
    votes[:, 3] = random.integers(2, size=300)  # guesses
    a = cp.Annotations.from_dense(votes, annotator_names=["ann", "bob", "cy", "dan", "eve"])
    result = cp.make_aggregator("dawid-skene").fit(a).result_
    steps = content.build_content(result, a, ReportOptions(source="reviews.csv")).steps
    assert "crowdprism audit reviews.csv" in steps[0].command
    assert steps[0].command.endswith("--page audit.html")
    assert any(step.link == "#items" for step in steps)
    assert any("Talk to dan" in step.text for step in steps)


def test_training_that_was_interrupted_is_named() -> None:
    a = cp.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]])
    result = cp.make_aggregator("majority-vote").fit(a).result_
    told = replace(result, warnings=("Training was interrupted: labels are unfinished.",))
    shown = build_content(told, a)
    assert any("interrupted" in finding.sentence for finding in shown.verdict.findings)


def test_items_without_labels_do_not_lower_the_labels_per_item() -> None:
    a = cp.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [-1, -1, -1], [-1, -1, -1]])
    shown = build_content(cp.make_aggregator("majority-vote").fit(a).result_, a)
    (figure,) = [figure for figure in shown.figures if figure.name == "labels per item"]
    assert figure.value == "3.0"
    assert "2 items have none" in figure.remark

"""The verdict of the report on crowds whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.diagnostics.findings import SEVERITIES, Finding
from crowdprism.report import ReportOptions, content
from crowdprism.report.report_records import Verdict
from crowdprism.report.verdict import from_gold, scope_of
from crowdprism.simulate import demo_annotations


def build_content(result: cp.FitResult, annotations: cp.Annotations | None = None, *, examine: bool | None = False):
    """Content without the examination, which takes a second and has tests of its own."""
    return content.build_content(result, annotations, ReportOptions(examine=examine))


def fitted(annotations: cp.Annotations, method: str = "dawid-skene") -> cp.FitResult:
    return cp.make_aggregator(method).fit(annotations).result_


@pytest.fixture(scope="module")
def crowd() -> cp.Annotations:
    return demo_annotations(np.arange(900) % 10, seed=3)


def test_a_perfect_crowd_gets_no_caution_but_an_adverse_one_does() -> None:
    good = cp.Annotations.from_dense(np.repeat(np.arange(40)[:, None] % 2, 5, axis=1))
    assert build_content(fitted(good), good).verdict.severity in ("good", "note")
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


def test_without_gold_the_verdict_says_that_no_true_class_was_compared() -> None:
    plain = cp.Annotations.from_dense(np.repeat(np.arange(40)[:, None] % 2, 5, axis=1))
    found = build_content(fitted(plain), plain).verdict
    assert found.headline == "No problems found"
    assert found.scope.startswith("Checked: certainty, agreement, coverage.")
    assert "Without gold" in found.scope


def test_gold_that_was_compared_is_in_the_scope(crowd: cp.Annotations) -> None:
    scope = build_content(fitted(crowd), crowd).verdict.scope
    assert "gold" in scope
    assert "Without gold" not in scope


def test_nothing_checked_is_not_called_checked() -> None:
    assert scope_of([Finding("coverage", "note", "...")]).startswith("Nothing could be checked.")


def test_probabilities_above_the_share_right_are_a_caution() -> None:
    labels = np.repeat(np.arange(200)[:, None] % 2, 5, axis=1)
    a = cp.Annotations.from_triplets(
        np.repeat(np.arange(200), 5),
        np.tile(np.arange(5), 200),
        labels.reshape(-1),
        gold={item: int(item % 2) if item % 4 else 1 - int(item % 2) for item in range(200)},
    )
    (finding,) = from_gold(fitted(a), a)
    assert finding.severity == "caution"
    assert "Of 200 items with gold, 75.0% have the right label" in finding.sentence


def test_items_with_one_label_each_are_a_caution() -> None:
    single = [[0, -1], [-1, 1]] * 10 + [[0, 0], [1, 1]]
    a = cp.Annotations.from_dense(single)
    found = build_content(fitted(a), a).verdict
    assert "91% of the items have only one label" in sentences(found)


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

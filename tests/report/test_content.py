"""What the report says, checked against numbers that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.errors import InvalidParameterError
from crowdprism.report import content
from crowdprism.report.annotator_rows import MOST_MATRIX_CLASSES, largest_mistakes
from crowdprism.report.graph_layout import spring_layout
from crowdprism.report.review_items import build_review, review_reasons
from crowdprism.simulate import demo_annotations


def build_content(result: cp.FitResult, annotations: cp.Annotations | None = None, *, examine: bool | None = False):
    """Content without the examination, which takes a second and has tests of its own."""
    return content.build_content(result, annotations, examine=examine)


def fitted(annotations: cp.Annotations, method: str = "dawid-skene") -> cp.FitResult:
    return cp.make_aggregator(method).fit(annotations).result_


@pytest.fixture(scope="module")
def crowd() -> cp.Annotations:
    return demo_annotations(np.arange(900) % 10, seed=3)


def test_every_annotator_has_a_row_with_the_labels_counted(crowd: cp.Annotations) -> None:
    table = build_content(fitted(crowd), crowd).annotators
    counts = dict(zip(crowd.annotators.tolist(), crowd.labels_per_annotator.tolist(), strict=True))
    assert {row.name: row.n_labels for row in table.rows} == counts


def test_intervals_hold_the_accuracy(crowd: cp.Annotations) -> None:
    for row in build_content(fitted(crowd), crowd).annotators.rows:
        assert row.low <= row.accuracy <= row.high


def test_spammers_and_the_adversary_of_the_demo_are_remarked_on(crowd: cp.Annotations) -> None:
    rows = build_content(fitted(crowd), crowd).annotators.rows
    remarked = {
        row.name.rsplit("-", 1)[0]
        for row in rows
        if set(row.remarks) & {"no better than guessing", "answers against the truth"}
    }
    assert remarked >= {"spammer", "adversary"}
    assert "expert" not in remarked


def test_a_perfect_crowd_gets_no_caution_but_an_adverse_one_does() -> None:
    good = cp.Annotations.from_dense(np.repeat(np.arange(40)[:, None] % 2, 5, axis=1))
    assert build_content(fitted(good), good).verdict.level in ("good", "note")
    random = np.random.default_rng(0).integers(2, size=(200, 5))
    bad = cp.Annotations.from_dense(random)
    assert build_content(fitted(bad), bad).verdict.level == "warning"


def test_every_condition_of_identifiability_is_told(crowd: cp.Annotations) -> None:
    small = crowd[:150]
    shown = build_content(fitted(small), small, examine=True)
    assert {"co-labelling", "class order", "scattering of confusions"} <= {check.name for check in shown.checks}
    assert all(check.level == "note" for check in shown.checks if check.name == "error bound")


def test_many_classes_are_examined_only_on_request() -> None:
    truth = np.arange(100) % 25
    a = cp.Annotations.from_dense(np.stack([truth, truth, truth], axis=1))
    (check,) = build_content(fitted(a), a, examine=None).checks
    assert "25 classes" in check.text


def test_swapped_classes_are_a_warning() -> None:
    a = cp.Annotations.from_dense(np.repeat(np.arange(40)[:, None] % 2, 5, axis=1))
    honest = fitted(a)
    swapped = replace(
        honest, class_probabilities=honest.class_probabilities[:, ::-1], confusions=honest.confusions[:, ::-1]
    )
    found = build_content(swapped, a, examine=True).verdict
    assert found.level == "warning"
    assert any("swapped" in finding.text for finding in found.findings)


def test_crowds_that_share_no_item_are_a_warning() -> None:
    apart = cp.Annotations.from_dense([[0, 0, -1, -1], [1, 1, -1, -1], [-1, -1, 0, 0], [-1, -1, 1, 1]])
    shown = build_content(fitted(apart), apart)
    assert shown.verdict.level == "warning"
    assert any("falls apart" in finding.text for finding in shown.verdict.findings)
    assert shown.graph.n_parts == 2


def test_the_crowds_confusion_weighs_annotators_by_their_labels() -> None:
    result = cp.FitResult(
        method="made-up",
        items=np.array([0, 1]),
        annotators=np.array([0, 1]),
        classes=np.array([0, 1]),
        class_probabilities=np.eye(2),
        confusions=np.stack([np.eye(2), np.full((2, 2), 0.5)]),
        labels_per_annotator=np.array([3, 1]),
    )
    crowd = build_content(result).crowd
    assert crowd.matrix == [[88, 12], [12, 88]]


def test_largest_mistakes_come_in_order_and_leave_the_diagonal_out() -> None:
    matrix = np.array([[0.7, 0.3, 0.0], [0.5, 0.5, 0.0], [0.001, 0.0, 0.999]])
    assert [(found.true, found.given, found.percent) for found in largest_mistakes(matrix, 9)] == [
        (1, 0, 50),
        (0, 1, 30),
    ]


def test_calibration_is_absent_without_gold_and_exact_with_it(crowd: cp.Annotations) -> None:
    plain = cp.Annotations.from_dense(np.repeat(np.arange(40)[:, None] % 2, 5, axis=1))
    assert build_content(fitted(plain), plain).reliability is None
    bins = build_content(fitted(crowd), crowd).reliability
    assert sum(bins.count) == crowd.n_items


def test_an_item_that_divides_its_annotators_is_up_for_review() -> None:
    a = cp.Annotations.from_dense([[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
    review = build_review(fitted(a, "majority-vote"), a)
    assert [row.item for row in review.rows] == ["0"]
    assert review.rows[0].given == "0\u00a0×2, 1\u00a0×2"  # noqa: RUF001


def test_gold_against_a_sure_label_is_doubted() -> None:
    truth = np.arange(2000) % 2
    a = cp.Annotations.from_triplets(
        np.repeat(np.arange(2000), 5),
        np.tile(np.arange(5), 2000),
        np.repeat(truth, 5),
        gold={item: int(true) if item else 1 - int(true) for item, true in enumerate(truth)},
    )
    masks = review_reasons(fitted(a), a)
    assert np.flatnonzero(masks["the gold label may be wrong"]).tolist() == [0]


def test_many_classes_are_told_by_their_largest_mistakes() -> None:
    n_classes = MOST_MATRIX_CLASSES + 1
    truth = np.arange(200) % n_classes
    labels = np.stack([truth, truth, (truth + 1) % n_classes], axis=1)
    a = cp.Annotations.from_dense(labels)
    table = build_content(fitted(a), a).annotators
    assert all(matrix is None for matrix in table.matrices)
    assert any(confusions for confusions in table.confusions)
    assert str(n_classes) in table.note


def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch, crowd: cp.Annotations) -> None:
    monkeypatch.setattr("crowdprism.report.annotator_rows.MOST_ROWS", 7)
    monkeypatch.setattr("crowdprism.report.annotator_rows.MATRIX_CELLS", 300)
    table = build_content(fitted(crowd), crowd).annotators
    assert len(table.rows) == 7
    assert sum(matrix is not None for matrix in table.matrices) == 3
    assert "7 busiest of 40" in table.note
    assert "3 busiest" in table.note


@pytest.mark.parametrize("method", ["majority-vote", "weighted-vote", "dawid-skene", "glad", "mace"])
def test_any_method_can_be_reported_with_and_without_annotations(crowd: cp.Annotations, method: str) -> None:
    result = fitted(crowd[:200], method)
    assert build_content(result).agreement is None
    assert build_content(result, crowd[:200]).agreement is not None


def test_one_item_by_one_annotator_is_enough() -> None:
    one = cp.Annotations.from_triplets(["x"], ["ann"], ["cat"], classes=["cat", "dog"])
    shown = build_content(fitted(one), one)
    assert len(shown.annotators.rows) == 1


def test_items_and_annotators_without_labels_are_kept() -> None:
    a = cp.Annotations.from_dense([[0, 0, -1], [1, 1, -1], [-1, -1, -1], [0, 1, -1]])
    shown = build_content(fitted(a), a)
    assert len(shown.annotators.rows) == 3
    silent = next(row for row in shown.annotators.rows if row.n_labels == 0)
    assert silent.accuracy is None
    assert silent.remarks == ("no labels",)
    assert any("no label by any" in finding.text for finding in shown.verdict.findings)


def test_annotations_of_another_fit_are_refused(crowd: cp.Annotations) -> None:
    other = cp.Annotations.from_dense([[0, 1], [1, 1]])
    with pytest.raises(InvalidParameterError, match="not those of this result"):
        build_content(fitted(crowd), other)
    with pytest.raises(InvalidParameterError, match="not those of this result"):
        build_content(fitted(crowd), crowd[:5])


def test_annotations_in_another_order_say_the_same(crowd: cp.Annotations) -> None:
    result = fitted(crowd)
    turned = crowd[np.arange(crowd.n_items)[::-1]]
    assert build_content(result, turned) == build_content(result, crowd)


def test_long_histories_are_thinned_but_keep_their_ends() -> None:
    a = cp.Annotations.from_dense([[0, 1], [1, 1]])
    base = fitted(a, "majority-vote")
    values = [float(step) for step in range(5000)]
    result = cp.FitResult(
        **{name: getattr(base, name) for name in ("method", "items", "annotators", "classes", "class_probabilities")},
        history={"objective": values, "broken": [float("nan")] * 5, "short": [1.0]},
    )
    (curve,) = build_content(result).curves
    assert len(curve.steps) <= 300
    assert (curve.values[0], curve.values[-1]) == (0.0, 4999.0)


def test_the_layout_is_finite_and_draws_friends_together() -> None:
    weights = np.zeros((6, 6))
    weights[:3, :3] = weights[3:, 3:] = 10
    np.fill_diagonal(weights, 0)
    place = spring_layout(weights)
    apart = np.linalg.norm(place[:, None] - place[None], axis=2)
    assert np.isfinite(place).all()
    assert apart[0, 1] < apart[0, 4]
    assert apart[3, 4] < apart[3, 1]
    assert spring_layout(np.zeros((1, 1))).shape == (1, 2)


def test_items_that_nobody_labelled_do_not_count_as_uncertain() -> None:
    a = cp.Annotations.from_dense([[0, 0, 0], [1, 1, 1]] * 20 + [[-1, -1, -1]] * 60)
    shown = build_content(fitted(a), a)
    assert sum(shown.certainty) == 40
    assert shown.review.n_suspect == 0
    assert any("60 of 100 items have no label" in finding.text for finding in shown.verdict.findings)


def test_the_gold_figure_is_the_share_right_of_the_labelled(crowd: cp.Annotations) -> None:
    result = fitted(crowd)
    right = float(np.ma.mean(crowd.gold == np.argmax(result.class_probabilities, axis=1)))
    figures = {figure.name: figure.value for figure in build_content(result, crowd).figures}
    assert figures["right against gold"] == f"{right:.1%}"

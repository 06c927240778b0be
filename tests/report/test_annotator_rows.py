"""The annotators of the report, checked against numbers that are known."""

from __future__ import annotations

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.report import ReportOptions, content
from crowdprism.report.annotator_rows import MOST_MATRIX_CLASSES, largest_mistakes, tell_stories
from crowdprism.simulate import demo_annotations


def build_content(result: cp.FitResult, annotations: cp.Annotations | None = None, *, examine: bool | None = False):
    """Content without the examination, which takes a second and has tests of its own."""
    return content.build_content(result, annotations, ReportOptions(examine=examine))


def fitted(annotations: cp.Annotations, method: str = "dawid-skene") -> cp.FitResult:
    return cp.make_aggregator(method, use_gold=False).fit(annotations).result_


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
    assert "the 7 of 40 annotators with most labels" in table.note
    assert "the first 3 annotators" in table.note


# -- what annotators did, counted by hand


TABLE = [[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]]


def stories(**numbers):
    item, annotator = np.divmod(np.arange(12), 3)
    names = np.array(["ann", "bob", "cy"])
    labels = np.array(TABLE).reshape(-1)
    a = cp.Annotations.from_triplets(item, names[annotator].tolist(), labels, **numbers)
    return tell_stories(cp.make_aggregator("majority-vote").fit(a).result_, a)


def test_agreeing_labels_are_counted_and_mistakes_are_examples() -> None:
    ann, _, cy = stories()
    assert (ann.n_agreeing, ann.examples) == (4, ())
    assert cy.n_agreeing == 2
    assert cy.examples == (("0", 1, 0), ("3", 0, 1))
    assert cy.seconds is None


def test_seconds_are_the_median_of_known_times() -> None:
    times = np.full(12, np.nan)
    times[[0, 3, 6]] = [1.0, 10.0, 2.0]
    ann, bob, _ = stories(duration=times)
    assert ann.seconds == 2.0
    assert bob.seconds is None


def test_halves_are_by_time_and_need_enough_labels() -> None:
    assert all(story.early is None for story in stories(timestamp=np.arange(12.0)))
    n = 40
    truth = np.arange(n) % 2
    late = np.where(np.arange(n) < n // 2, truth, 1 - truth)  # wrong in the second half
    columns = np.stack([truth, truth, late], axis=1)
    item, annotator = np.divmod(np.arange(3 * n), 3)
    a = cp.Annotations.from_triplets(item, annotator, columns.reshape(-1), timestamp=item.astype(float))
    told = tell_stories(cp.make_aggregator("majority-vote").fit(a).result_, a)
    assert (told[2].early, told[2].late) == (1.0, 0.0)
    assert (told[0].early, told[0].late) == (pytest.approx(1.0), pytest.approx(1.0))

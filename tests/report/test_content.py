"""What the report says, checked against numbers that are known."""

from __future__ import annotations

import numpy as np
import pytest

import crowdprism as cp
from crowdprism.errors import InvalidParameterError
from crowdprism.report import ReportOptions, content
from crowdprism.report.content import spring_layout
from crowdprism.simulate import demo_annotations


def build_content(result: cp.FitResult, annotations: cp.Annotations | None = None, *, examine: bool | None = False):
    """Content without the examination, which takes a second and has tests of its own."""
    return content.build_content(result, annotations, ReportOptions(examine=examine))


def fitted(annotations: cp.Annotations, method: str = "dawid-skene") -> cp.FitResult:
    return cp.make_aggregator(method, use_gold=False).fit(annotations).result_


@pytest.fixture(scope="module")
def crowd() -> cp.Annotations:
    return demo_annotations(np.arange(900) % 10, seed=3)


def test_every_condition_of_identifiability_is_told(crowd: cp.Annotations) -> None:
    small = crowd[:150]
    shown = build_content(fitted(small), small, examine=True)
    assert {"co-labelling", "class order", "scattering of confusions"} <= {check.name for check in shown.checks}
    assert all(check.severity == "note" for check in shown.checks if check.name == "error bound")


def test_many_classes_are_examined_only_on_request() -> None:
    truth = np.arange(100) % 25
    a = cp.Annotations.from_dense(np.stack([truth, truth, truth], axis=1))
    (check,) = build_content(fitted(a), a, examine=None).checks
    assert "25 classes" in check.sentence


def test_calibration_is_absent_without_gold_and_exact_with_it(crowd: cp.Annotations) -> None:
    plain = cp.Annotations.from_dense(np.repeat(np.arange(40)[:, None] % 2, 5, axis=1))
    assert build_content(fitted(plain), plain).reliability is None
    bins = build_content(fitted(crowd), crowd).reliability
    assert sum(count for _, _, count in bins.bins) == crowd.n_items


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
    assert any("no label from any" in finding.sentence for finding in shown.verdict.findings)


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
    assert any("60 of 100 items have no label" in finding.sentence for finding in shown.verdict.findings)


def test_the_gold_figure_is_the_share_right_of_the_labelled(crowd: cp.Annotations) -> None:
    result = fitted(crowd)
    right = float(np.ma.mean(crowd.gold == np.argmax(result.class_probabilities, axis=1)))
    figures = {figure.name: figure.value for figure in build_content(result, crowd).figures}
    assert figures["right against gold"] == f"{right:.1%}"

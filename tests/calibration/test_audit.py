"""Audits: what is drawn, what the answers say, what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from crowdprism import Annotations, make_aggregator
from crowdprism.calibration.audit import allocated, audit_plan, audit_result, strata_of
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError
from crowdprism.results import FitResult

TRUTH = np.arange(300) % 3


@pytest.fixture(scope="module")
def labels() -> Annotations:
    """Three annotators: always right, right on even items, always one class further."""
    table = np.stack([TRUTH, np.where(np.arange(300) % 2, (TRUTH + 1) % 3, TRUTH), (TRUTH + 1) % 3], axis=1)
    return Annotations.from_dense(table, annotator_names=["ann", "bob", "cy"])


@pytest.fixture(scope="module")
def result(labels: Annotations) -> FitResult:
    """Labels of which every third is wrong; confidence rises with the position."""
    probabilities = np.full((300, 3), 0.0)
    stated = np.where(np.arange(300) // 3 % 3 == 2, (TRUTH + 1) % 3, TRUTH)
    top = np.linspace(0.4, 1.0, 300)
    probabilities[:] = ((1 - top) / 2)[:, None]
    probabilities[np.arange(300), stated] = top
    return replace(make_aggregator("majority-vote").fit(labels).result_, class_probabilities=probabilities)


def true_answers(plan) -> dict:
    return {int(item): int(TRUTH[item]) for item in plan.items[plan.asked]}


def test_the_same_seed_asks_the_same_items_and_a_larger_audit_asks_these_too(result: FitResult) -> None:
    plan, again, other, larger = (audit_plan(result, *draw) for draw in ((40, 0), (40, 0), (40, 1), (100, 0)))
    assert plan.asked.tolist() == again.asked.tolist()
    assert plan.name == again.name
    assert set(plan.asked) != set(other.asked)
    assert set(plan.asked) < set(larger.asked)
    assert plan.name.split("-")[2] == larger.name.split("-")[2]


def test_the_name_changes_with_the_labels(result: FitResult) -> None:
    changed = replace(result, class_probabilities=result.class_probabilities[:, ::-1])
    assert audit_plan(result).name != audit_plan(changed).name


def test_uncertain_items_are_asked_more_often(result: FitResult) -> None:
    plan = audit_plan(result, 30)
    assert Counter(plan.stratum[plan.asked].tolist()) == {0: 10, 1: 10, 2: 10}
    confidence = result.class_probabilities.max(axis=1) if result.confidence is None else result.confidence
    means = [confidence[plan.stratum == place].mean() for place in range(3)]
    assert means == sorted(means)
    sizes = np.bincount(plan.stratum)
    assert plan.probability == pytest.approx(10 / sizes[plan.stratum[plan.asked]])
    assert sizes[2] > sizes[1]


def test_strata_share_the_standard_deviation_evenly() -> None:
    confidence = np.random.default_rng(0).uniform(0.5, 1, 1000)
    spread = np.maximum(np.sqrt(confidence * (1 - confidence)), 0.2)
    sums = np.bincount(strata_of(confidence, 4), weights=spread)
    assert sums == pytest.approx(np.full(4, spread.sum() / 4), abs=0.5)


def test_a_stratum_never_gives_more_than_it_has() -> None:
    assert allocated(10, np.array([2, 9, 9])).tolist() == [2, 4, 4]
    assert allocated(10, np.array([2, 3])).tolist() == [2, 3]


def test_all_items_answered_give_the_exact_figures(result: FitResult, labels: Annotations) -> None:
    plan = audit_plan(result, 300, annotations=labels)
    found = audit_result(plan, true_answers(plan))
    stated = result.class_probabilities.argmax(axis=1)
    assert found.accuracy[:3] == pytest.approx([0.67] * 3)
    for code in range(3):
        assert found.classes[code].value == pytest.approx((TRUTH[stated == code] == code).mean())
        assert found.shares[code][:3] == pytest.approx([1 / 3] * 3)
    assert {name: share.value for name, share in found.annotators.items()} == pytest.approx(
        {"ann": 1.0, "bob": 0.5, "cy": 0.0}
    )
    assert found.more_to_halve is None


def test_intervals_of_audits_hold_the_truth_and_shrink_with_answers(result: FitResult, labels: Annotations) -> None:
    widths = []
    for n in (40, 160):
        found = []
        for seed in range(20):
            plan = audit_plan(result, n, seed, annotations=labels)
            found.append(audit_result(plan, true_answers(plan)))
        known = [(one.accuracy, 0.67) for one in found] + [(one.annotators["bob"], 0.5) for one in found]
        known += [(share, 1 / 3) for one in found for share in one.shares.values()]
        assert np.mean([share.low <= truth <= share.high for share, truth in known]) > 0.9
        widths.append(np.mean([one.accuracy.high - one.accuracy.low for one in found]))
    assert widths[1] < widths[0] / 2


def test_a_mean_over_many_audits_is_the_accuracy(result: FitResult) -> None:
    def estimate(seed: int) -> float:
        plan = audit_plan(result, 12, seed)
        right = TRUTH[plan.asked] == plan.stated[plan.asked]
        return float((right / plan.probability).sum() / 300)  # Horvitz and Thompson

    means = [estimate(seed) for seed in range(400)]
    assert np.mean(means) == pytest.approx(0.67, abs=4 * np.std(means) / 20)


def test_gold_counts_as_answered_and_is_not_asked(result: FitResult, labels: Annotations) -> None:
    gold = {item: int(TRUTH[item]) for item in range(100)}
    plan = audit_plan(result, 200, annotations=labels.with_gold(gold))
    assert min(plan.asked) >= 100
    assert audit_result(plan, true_answers(plan)).accuracy[:3] == pytest.approx([0.67] * 3)


def test_annotations_are_aggregated_first(labels: Annotations) -> None:
    assert audit_plan(labels, 20).stated.tolist() == (
        make_aggregator("dawid-skene").fit(labels).result_.class_probabilities.argmax(axis=1).tolist()
    )


def test_unanswered_items_may_be_left_out(result: FitResult) -> None:
    plan = audit_plan(result, 60)
    answers = true_answers(plan)
    given = {item: answers[item] if place % 3 else None for place, item in enumerate(answers)}
    assert audit_result(plan, given).n_answers == 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda answers: {**answers, "x": 0}, r"1 of 41 answers are for items that were not asked .* 'x'"),
        (lambda answers: dict.fromkeys(answers, 7), r"40 of 40 answers are not among the 3 classes .* 7 for item"),
        (
            lambda answers: [*answers.items(), *((item, (label + 1) % 3) for item, label in answers.items())],
            "40 of 80 rows",
        ),
        (lambda answers: dict(list(answers.items())[:6]), r"6 of 40 .* too few .* at least 10 answers.* Answer 4 more"),
        (lambda answers: {}, r"0 of 40 .* Answer 10 more"),
    ],
    ids=["not asked", "unknown class", "contradiction", "too few", "none"],
)
def test_bad_answers_are_counted_and_the_first_is_named(result: FitResult, change, message: str) -> None:
    plan = audit_plan(result, 40)
    with pytest.raises(InvalidAnnotationsError, match=message):
        audit_result(plan, change(true_answers(plan)))


def test_a_stratum_without_answers_is_too_few(result: FitResult) -> None:
    plan = audit_plan(result, 40)
    answers = true_answers(plan)
    with pytest.raises(InvalidAnnotationsError, match=r"one in each of the 3 strata\. Answer 1 more"):
        audit_result(plan, {item: label for item, label in answers.items() if plan.stratum[item] != 1})


def test_an_audit_needs_ten_items_and_something_unknown(result: FitResult, labels: Annotations) -> None:
    with pytest.raises(InvalidParameterError, match="at least 10"):
        audit_plan(result, 9)
    known = labels.with_gold(dict(enumerate(TRUTH.tolist())))
    with pytest.raises(InvalidAnnotationsError, match="nothing to audit"):
        audit_plan(result, annotations=known)


def test_annotators_and_classes_whose_items_are_all_of_the_first_class_are_measured() -> None:
    """Forty items that truly are of class 0, half of them labelled 1, and an annotator of these alone."""
    rows = [(item, "all", int(item % 2)) for item in range(60)] + [(item, "few", int(item % 2)) for item in range(40)]
    labels = Annotations.from_triplets(*map(list, zip(*rows, strict=True)))
    plan = audit_plan(make_aggregator("majority-vote").fit(labels).result_, 60, annotations=labels)
    found = audit_result(plan, {item: 0 if item < 40 else 1 for item in range(60)})
    assert found.annotators["few"].value == pytest.approx(0.5)
    assert found.classes[0].value == pytest.approx(20 / 30)
    only_first = audit_result(plan, dict.fromkeys(range(60), 0))
    assert only_first.classes[1].value == pytest.approx(0.0)

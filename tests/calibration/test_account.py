"""The account of a result: closed forms, what labels and gold must do, and coverage on data drawn from the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.calibration.account import (
    OWN_DEVIATION,
    Forecast,
    account_of,
    annotator_accuracy,
    average_over_u,
    expected_share,
    half_width_after,
    make_account,
    make_forecast,
)
from crowdprism.calibration.outside_view import U, outside_view
from crowdprism.results import confusion


def crowd(n_items: int = 200, n_annotators: int = 8, *, per_item: int = 3, seed: int = 0) -> Annotations:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n_items)
    item = np.repeat(np.arange(n_items), per_item)
    annotator = np.concatenate([rng.choice(n_annotators, per_item, replace=False) for _ in range(n_items)])
    label = np.where(rng.random(len(item)) < 0.75, truth[item], rng.integers(0, 3, len(item)))
    return Annotations.from_triplets(item, annotator, label, classes=range(3), gold=dict(enumerate(truth.tolist())))


def without_gold(annotations: Annotations, n_kept: int = 0) -> Annotations:
    gold = np.ma.array(annotations.gold, mask=np.arange(annotations.n_items) >= n_kept)
    return replace(annotations, gold=gold if n_kept else None)


def all_at(u: float) -> np.ndarray:
    weights = np.zeros(len(U))
    weights[np.argmin(abs(U - u))] = 1.0
    return weights


def width(estimate: object) -> float:
    return estimate.high - estimate.low  # type: ignore[attr-defined]


# -- closed forms ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("u", [-1.0, 0.0, 2.5])
def test_with_all_weight_on_one_u_confidence_is_the_sigmoid(u: float) -> None:
    scores = np.array([-3.0, -0.37, 0.0, 1.234, 4.0])
    np.testing.assert_allclose(average_over_u(scores, all_at(u)), expit(scores + u), atol=2e-4)


def test_with_all_weight_on_one_u_only_the_luck_of_the_items_is_left() -> None:
    found = expected_share(np.zeros(400), all_at(0.0), level=0.9)
    assert found.value == pytest.approx(0.5)
    assert found.high - found.value == pytest.approx(1.645 * np.sqrt(0.25 / 400), rel=0.1)  # u lies on a grid


def test_known_items_count_as_they_are() -> None:
    found = expected_share(np.zeros(50), all_at(0.0), n_known=50, n_right=45)
    assert found.value == pytest.approx((25 + 45) / 100)
    nothing_open = expected_share(np.empty(0), all_at(0.0), n_known=20, n_right=19)
    assert (nothing_open.low, nothing_open.value, nothing_open.high) == pytest.approx((0.95, 0.95, 0.95))


def test_with_u_known_and_many_labels_an_annotators_own_deviation_is_left() -> None:
    a = Annotations.from_dense(np.zeros((40_000, 2), dtype=int), classes=[0, 1])
    labels, reference = np.zeros(40_000, dtype=int), np.tile([0.5, 0.5], (40_000, 1))
    value, interval = annotator_accuracy(a, labels, Forecast(np.zeros(40_000), all_at(0.0)), reference)
    np.testing.assert_allclose(value, 0.5, atol=1e-3)
    np.testing.assert_allclose(interval - 0.5, [[-1.96 * OWN_DEVIATION, 1.96 * OWN_DEVIATION]] * 2, atol=0.01)


def test_the_width_after_no_answers_is_the_width_now() -> None:
    scores, weights = np.full(5000, 1.0), outside_view("labels").prior()
    now = expected_share(scores, weights)
    assert half_width_after(scores, weights, 0) == pytest.approx(width(now) / 2, rel=0.03)


def test_the_width_after_answers_is_that_of_simulated_answers() -> None:
    view, rng = outside_view("labels"), np.random.default_rng(0)
    scores, prior = rng.normal(1.0, 0.8, 2000), view.prior()
    halves = []
    for _ in range(300):
        u = rng.choice(U, p=prior)
        asked = rng.choice(len(scores), 40, replace=False)
        right = rng.random(40) < expit(scores[asked] + u)
        left = np.delete(scores, asked)
        found = expected_share(left, view.posterior(scores[asked], right), n_known=40, n_right=int(right.sum()))
        halves.append(width(found) / 2)
    assert half_width_after(scores, prior, 40) == pytest.approx(np.mean(halves), rel=0.12)


# -- what must hold --------------------------------------------------------------------------------------------


def test_confidence_rises_with_the_posterior_and_stays_below_it_where_that_is_sure() -> None:
    result = make_aggregator("dawid-skene").fit(without_gold(crowd())).result_
    top = result.class_probabilities.max(axis=1)
    order = np.argsort(top)
    assert (np.diff(result.confidence[order]) >= -1e-12).all()
    assert (result.confidence[top > 0.99] < 0.95).all()


def test_many_right_gold_answers_raise_the_expected_accuracy_and_narrow_it() -> None:
    a = without_gold(crowd(600))
    labels = make_aggregator("dawid-skene").fit(a).result_.labels()

    def expected(n_gold: int) -> object:
        pairs = list(zip(a.items.tolist(), labels.tolist(), strict=True))[:n_gold]
        known = a.with_gold(dict(pairs)) if pairs else a
        return account_of(make_aggregator("dawid-skene").fit(a).result_, known).expected_accuracy

    none, some, many = expected(0), expected(40), expected(200)
    assert none.value < some.value < many.value
    assert width(none) > 2 * width(some) > 3 * width(many)
    assert many.low > 0.95


def test_gold_items_have_a_confidence_of_one_or_zero() -> None:
    a = crowd()
    result = make_aggregator("dawid-skene").fit(without_gold(a)).result_
    account = account_of(result, without_gold(a, 30))
    right = result.labels()[:30] == np.asarray(a.gold[:30])
    assert np.array_equal(account.confidence[:30], right.astype(float))
    assert ((account.confidence[30:] > 0) & (account.confidence[30:] < 1)).all()
    assert account.n_gold == 30


def test_intervals_of_annotators_shrink_with_labels_and_with_gold() -> None:
    def median_width(annotations: Annotations, n_gold: int) -> float:
        result = make_aggregator("dawid-skene").fit(without_gold(annotations)).result_
        interval = account_of(result, without_gold(annotations, n_gold)).annotator_interval
        return float(np.median(interval[:, 1] - interval[:, 0]))

    few, many = crowd(60, 8), crowd(600, 8)
    assert median_width(many, 0) < median_width(few, 0)
    assert median_width(many, 300) < median_width(many, 40) < median_width(many, 0)


def test_single_labels_never_take_the_posterior() -> None:
    rng = np.random.default_rng(0)
    a = Annotations.from_triplets(np.arange(300), rng.integers(0, 4, 300), rng.integers(0, 3, 300))
    for method in ("dawid-skene", "majority-vote", "one-coin", "mace"):
        account = make_aggregator(method).fit(a).result_.account
        assert np.ptp(account.confidence) == 0
        assert 0.5 < account.confidence[0] < 0.85
        assert width(account.expected_accuracy) > 0.3


def test_one_annotator_alone_has_the_accuracy_of_their_labels() -> None:
    rng = np.random.default_rng(0)
    a = Annotations.from_triplets(np.arange(100), ["ann"] * 100, rng.integers(0, 2, 100))
    account = make_aggregator("dawid-skene").fit(a).result_.account
    assert account.annotator_accuracy[0] == pytest.approx(account.expected_accuracy.value, abs=0.02)
    low, high = account.annotator_interval[0]
    assert high - low > 0.35


def test_an_annotator_without_labels_has_no_accuracy() -> None:
    a = Annotations.from_dense([[0, 0, -1], [1, 1, -1], [1, 0, -1]])
    found = make_aggregator("dawid-skene").fit(a).result_.annotator_accuracy
    assert np.isfinite(found).tolist() == [True, True, False]


def test_the_order_of_rows_changes_nothing() -> None:
    a = without_gold(crowd())
    order = np.random.default_rng(1).permutation(a.n_annotations)
    turned = Annotations.from_triplets(a.item[order], a.annotator[order], a.label[order], classes=range(3))
    one, other = (make_aggregator("dawid-skene").fit(x).result_.account for x in (a, turned))
    assert np.array_equal(one.confidence, other.confidence)
    assert np.array_equal(one.annotator_interval, other.annotator_interval)
    assert one.expected_accuracy == other.expected_accuracy


def test_labels_of_other_methods_are_judged_by_the_reference_model() -> None:
    a = without_gold(crowd())
    votes = make_aggregator("majority-vote").fit(a).result_
    reference = make_aggregator("dawid-skene").fit(a).result_.class_probabilities
    direct = make_account(a, votes.class_probabilities.argmax(axis=1), reference)
    assert np.array_equal(votes.confidence, direct.confidence)


def test_of_two_classes_a_label_against_the_reference_is_right_where_that_is_wrong() -> None:
    a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 1, 1], [0, 0, 0]])
    reference = np.array([[0.8, 0.2], [0.1, 0.9], [0.4, 0.6], [0.95, 0.05]])
    stated = reference.argmax(axis=1)
    same, other = (make_account(a, labels, reference, own=True) for labels in (stated, 1 - stated))
    np.testing.assert_allclose(other.confidence, 1 - same.confidence, atol=1e-6)


def test_another_method_counts_for_the_label_it_agrees_with_and_against_the_other() -> None:
    a = without_gold(crowd())
    reference = make_aggregator("dawid-skene").fit(a).result_.class_probabilities
    best = reference.argmax(axis=1)
    stated = np.where(np.arange(a.n_items) < 20, (best + 1) % 3, best)
    own, other = (make_account(a, stated, reference, own=own).confidence for own in (True, False))
    assert (other > own).all()


def test_labels_of_a_classifier_are_judged_by_their_own_posterior() -> None:
    from crowdprism import make_classifier

    a = without_gold(crowd(60))
    features = np.random.default_rng(0).normal(size=(60, 2))
    quick = {"network": "linear", "epochs": 2, "input_noise": 0.0, "temperature": 1.0}
    result = make_classifier("geocrowdnet-f", **quick).fit(features, a).result_
    own = result.class_probabilities
    direct = make_account(a, own.argmax(axis=1), own, family="features")
    assert result.uses_features
    assert np.array_equal(result.confidence, direct.confidence)


def test_labels_that_saw_the_gold_are_no_evidence_of_how_right_the_others_are() -> None:
    a = crowd()
    gold = np.where(np.arange(a.n_items) < 50, np.ma.getdata(a.gold), -1)
    reference = make_aggregator("dawid-skene").fit(without_gold(a)).result_.class_probabilities
    plain = reference.argmax(axis=1)
    clamped = np.where(gold >= 0, gold, plain)
    blind = make_account(a, clamped, reference, gold=gold, blind=plain)
    honest = make_account(a, plain, reference, gold=gold)
    assert (blind.confidence[:50] == 1).all()
    np.testing.assert_array_equal(blind.confidence[50:], honest.confidence[50:])


def test_data_too_large_for_the_reference_model_are_judged_by_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    a = without_gold(crowd())
    result = make_aggregator("one-coin").fit(a).result_
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 100)
    direct = make_account(a, result.class_probabilities.argmax(axis=1), result.class_probabilities, own=True)
    assert np.array_equal(result.confidence, direct.confidence)


# -- coverage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_gold", [0, 40])
def test_intervals_hold_what_is_drawn_from_the_model_itself(n_gold: int) -> None:
    a = without_gold(crowd(400))
    result = make_aggregator("dawid-skene").fit(a).result_
    labels, reference = result.class_probabilities.argmax(axis=1), result.class_probabilities
    view, rng, held = outside_view("labels"), np.random.default_rng(n_gold), []
    scores = make_forecast(a, labels, reference, own=True).scores
    for _ in range(200):
        right = rng.random(len(labels)) < expit(scores + rng.choice(U, p=view.prior()))
        truth = np.where(right, labels, (labels + 1) % 3)
        gold = np.where(rng.permutation(len(labels)) < n_gold, truth, -1)
        weights = make_forecast(a, labels, reference, gold=gold, own=True).weights
        known = gold >= 0
        found = expected_share(scores[~known], weights, n_known=n_gold, n_right=int((known & right).sum()))
        held.append(found.low <= right.mean() <= found.high)
    assert 0.84 <= np.mean(held) <= 0.97


def test_parameters_that_are_arrays_do_not_stand_in_the_way() -> None:
    a = Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]])
    result = make_aggregator("dawid-skene", class_prior=np.array([0.5, 0.5])).fit(a).result_
    assert result.expected_accuracy is not None

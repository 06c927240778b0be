"""Annotators: kinds, quality, bias, trends, groups and copying on crowds whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.diagnostics.annotator_accounts import (
    annotator_report,
    copying,
    label_information,
    similar_annotators,
    spammer_score,
)
from crowdprism.errors import UnsuitableDataError
from crowdprism.results import FitResult
from crowdprism.simulate import (
    demo_annotations,
    demo_crowd,
    each_with_probability,
    one_coin,
    one_label_spammers,
    per_item,
    simulate_annotations,
)


def fitted(annotations: Annotations, method: str = "dawid-skene") -> FitResult:
    return make_aggregator(method, use_gold=False).fit(annotations).result_


@pytest.fixture(scope="module")
def demo() -> list[tuple[list[str], np.ndarray]]:
    """True kinds and found kinds of five demo crowds."""
    found = []
    for seed in range(5):
        truth = np.random.default_rng(seed).integers(10, size=1347)
        annotations = demo_annotations(truth, seed=seed)
        found.append((demo_crowd(seed=seed).kinds, annotator_report(fitted(annotations), annotations).kind))
    return found


@pytest.mark.parametrize(("kind", "name"), [("spammer", "careless"), ("adversary", "adverse")])
def test_spammers_and_adversaries_of_the_demo_crowd_are_found(
    demo: list[tuple[list[str], np.ndarray]], kind: str, name: str
) -> None:
    truth = np.concatenate([np.array(kinds) == kind for kinds, _ in demo])
    found = np.concatenate([given == name for _, given in demo])
    hits = (truth & found).sum()
    assert hits / found.sum() >= 0.95  # precision
    assert hits / truth.sum() >= 0.95  # recall


def test_an_annotator_with_one_label_is_unclear() -> None:
    annotations = Annotations.from_dense([[0, 0, 0]] + [[0, 0, -1]] * 19 + [[1, 1, -1]] * 20)
    assert annotator_report(fitted(annotations), annotations).kind.tolist() == ["reliable", "reliable", "unclear"]


def test_spammer_score_is_zero_for_rank_one_and_matches_pairs_of_rows() -> None:
    assert spammer_score(one_label_spammers([1], 4)) == pytest.approx(0)
    table = np.random.default_rng(0).dirichlet(np.ones(4), size=4)
    pairs = sum(np.square(table[i] - table[j]).sum() for i in range(4) for j in range(i))
    assert spammer_score(table[None])[0] == pytest.approx(pairs / (4 * 3))


def test_information_is_full_for_a_perfect_and_none_for_a_careless_annotator() -> None:
    found = label_information(np.stack([np.eye(4), np.full((4, 4), 0.25)]), np.full(4, 0.25))
    assert found == pytest.approx([2.0, 0.0])


def test_a_biased_annotator_overuses_his_favourite_class() -> None:
    crowd = one_coin([0.9] * 6, 3)
    crowd[5] = [[0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]
    annotations = simulate_annotations(np.arange(600) % 3, crowd, per_item(600, 6, labels=4))
    report = annotator_report(fitted(annotations), annotations)
    assert report.overused[5] == 2
    assert report.overuse[5] == pytest.approx(1 / 3, abs=0.07)
    assert report.overuse_z[5] > 4
    assert (report.overuse_z[:5] < 3).all()


def test_drift_and_speed_are_seen_where_times_exist() -> None:
    random = np.random.default_rng(0)
    n_items = 600
    truth = np.arange(n_items) % 3
    labels = np.repeat(truth[:, None], 4, axis=1)
    wrong = random.random((n_items, 4)) < 0.1
    when = random.random(n_items)
    seconds = random.uniform(1, 20, (n_items, 4))
    wrong[:, 3] = random.random(n_items) < 0.6 * when  # tires with time
    wrong[:, 2] = random.random(n_items) < 0.6 * (1 - seconds[:, 2] / 20)  # errs in haste
    labels[wrong] = (labels[wrong] + 1) % 3
    rows = np.repeat(np.arange(n_items), 4)
    annotations = Annotations.from_triplets(
        rows,
        np.tile(np.arange(4), n_items),
        labels.reshape(-1),
        duration=seconds.reshape(-1),
        timestamp=np.repeat(when, 4),
    )
    report = annotator_report(fitted(annotations), annotations)
    assert report.drift_z[3] < -4
    assert report.speed_z[2] > 4
    assert np.abs(report.drift_z[:2]).max() < 3


def test_without_times_trends_are_unknown() -> None:
    annotations = Annotations.from_dense([[0, 0], [1, 1]] * 20)
    assert np.isnan(annotator_report(fitted(annotations), annotations).drift).all()


def test_like_annotators_form_a_group() -> None:
    crowd = np.concatenate([one_coin([0.95] * 4, 3), one_label_spammers([0] * 3, 3)])
    annotations = simulate_annotations(np.arange(900) % 3, crowd, per_item(900, 7, labels=5))
    assert similar_annotators(fitted(annotations)).tolist() == [0, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_is_suspected_and_honest_pairs_are_not(seed: int) -> None:
    truth = np.arange(800) % 4
    pairs = each_with_probability(800, 8, probability=0.6, seed=seed)
    annotations = simulate_annotations(truth, one_coin([0.65] * 8, 4), pairs, seed=seed)
    assert not len(copying(annotations).z)
    table = annotations.to_dense()
    found = copying(Annotations.from_dense(np.column_stack([table, table[:, 0]])))  # the ninth copies the first
    assert found.first.tolist() == [0]
    assert found.second.tolist() == [8]
    assert found.agreements[0] == found.common[0]


def test_annotators_who_share_a_confusion_are_not_taken_for_copies() -> None:
    crowd = one_coin([0.8] * 8, 4)
    crowd[:3, 0] = [0.1, 0.9, 0.0, 0.0]  # three take class 0 for class 1
    annotations = simulate_annotations(np.arange(800) % 4, crowd, each_with_probability(800, 8, probability=0.7))
    assert not len(copying(annotations).z)


def test_methods_without_confusions_cannot_group() -> None:
    annotations = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 0, 0]])
    result = fitted(annotations)
    bare = FitResult(
        method="by-hand",
        items=result.items,
        annotators=result.annotators,
        classes=result.classes,
        class_probabilities=result.class_probabilities,
    )
    with pytest.raises(UnsuitableDataError, match="by-hand gives none"):
        similar_annotators(bare)
    assert np.isnan(annotator_report(bare, annotations).spammer_score).all()


def test_the_report_is_a_frame_with_the_users_names() -> None:
    annotations = Annotations.from_dense([["yes", "no"], ["no", "no"]], missing=None, annotator_names=["ann", "bob"])
    frame = annotator_report(fitted(annotations), annotations).to_frame()
    assert frame["annotator"].to_list() == ["ann", "bob"]
    assert set(frame["overused"].to_list()) <= {"yes", "no"}

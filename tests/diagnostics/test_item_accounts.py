"""Items: corrected labels, disagreement, difficulty, wrong gold."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.diagnostics.item_accounts import disagreement, item_report, label_quality, peer_agreement
from crowdprism.diagnostics.label_evidence import vote_table
from crowdprism.errors import InvalidParameterError
from crowdprism.simulate import one_coin, per_item, simulate_annotations


def test_disagreement_is_the_chance_that_two_labels_differ() -> None:
    annotations = Annotations.from_dense([[0, 0, 1, 1], [2, 2, 2, 2], [0, -1, -1, -1]])
    assert disagreement(annotations)[:2] == pytest.approx([4 / 6, 0.0])
    assert np.isnan(disagreement(annotations)[2])


def test_wrong_gold_is_found_and_right_gold_is_not() -> None:
    truth = np.arange(300) % 3
    annotations = simulate_annotations(truth, one_coin([0.9] * 6, 3), per_item(300, 6, labels=5))
    said = truth.copy()
    said[:10] = (said[:10] + 1) % 3
    rows = annotations.to_frame()
    told = Annotations.from_triplets(
        rows["item"], rows["annotator"], rows["label"], gold=dict(enumerate(said.tolist()))
    )
    report = item_report(make_aggregator("dawid-skene", use_gold=False).fit(told).result_, told)
    assert report.likely_mislabelled[:10].sum() >= 9
    assert report.likely_mislabelled[10:].mean() < 0.02


def test_an_item_that_misleads_good_annotators_is_difficult() -> None:
    truth = np.arange(300) % 3
    annotations = simulate_annotations(truth, one_coin([0.95] * 5, 3), per_item(300, 5, labels=5))
    table = annotations.to_dense()
    table[7] = [0, 1, 2, 0, 1]
    told = Annotations.from_dense(table)
    report = item_report(make_aggregator("dawid-skene", use_gold=False).fit(told).result_, told)
    assert report.difficulty.argmax() == 7
    assert report.difficulty[7] > 0.3
    assert abs(np.median(report.difficulty)) < 0.1


def test_items_are_not_difficult_because_their_annotators_are_poor() -> None:
    annotations = simulate_annotations(np.arange(600) % 3, one_coin([0.7] * 7, 3), per_item(600, 7, labels=7))
    report = item_report(make_aggregator("dawid-skene", use_gold=False).fit(annotations).result_, annotations)
    assert abs(report.difficulty.mean()) < 0.05


def test_the_report_is_a_frame_with_the_users_names() -> None:
    annotations = Annotations.from_triplets(["x", "x", "y"], ["ann", "bob", "ann"], ["cat", "cat", "dog"])
    frame = item_report(
        make_aggregator("majority-vote", use_gold=False).fit(annotations).result_, annotations
    ).to_frame()
    assert frame["label"].to_list() == ["cat", "dog"]


def example(seed: int = 0) -> tuple[Annotations, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    truth = random.integers(4, size=400)
    annotations = simulate_annotations(truth, one_coin([0.9, 0.8, 0.7, 0.6, 0.25], 4), per_item(400, 5, labels=3))
    shares = 0.5 * np.eye(4)[truth] + 0.5 * random.dirichlet(np.ones(4), size=400)
    return annotations, shares, truth


def test_peer_agreement_matches_a_loop_over_pairs() -> None:
    annotations, _, _ = example()
    same, total = np.zeros(5), np.zeros(5)
    for item in range(annotations.n_items):
        rows = range(annotations.item_start[item], annotations.item_start[item + 1])
        for row in rows:
            for other in rows:
                if row != other:
                    total[annotations.annotator[row]] += 1
                    same[annotations.annotator[row]] += annotations.label[row] == annotations.label[other]
    assert peer_agreement(annotations, vote_table(annotations)) == pytest.approx(same / total)


def test_scores_are_probabilities_and_rank_the_annotators() -> None:
    annotations, shares, _ = example()
    found = label_quality(annotations, shares)
    assert found.class_probabilities.sum(axis=1) == pytest.approx(np.ones(400))
    assert (np.diff(found.annotator_quality) < 0).all()


def test_the_consensus_is_better_than_vote_and_classifier_alone() -> None:
    annotations, shares, truth = example()
    together = (label_quality(annotations, shares).consensus == truth).mean()
    assert together > (vote_table(annotations).argmax(axis=1) == truth).mean()
    assert together >= (shares.argmax(axis=1) == truth).mean()


def test_low_quality_points_at_wrong_labels() -> None:
    annotations, shares, truth = example()
    quality = label_quality(annotations, shares).label_quality
    right = annotations.label == truth[annotations.item]
    assert quality[right].mean() > quality[~right].mean() + 0.3


def test_the_order_of_annotators_does_not_matter() -> None:
    annotations, shares, _ = example()
    turned = Annotations.from_dense(annotations.to_dense()[:, ::-1])
    first, second = label_quality(annotations, shares), label_quality(turned, shares)
    assert second.annotator_quality[::-1] == pytest.approx(first.annotator_quality)


def test_an_annotator_without_labels_has_no_quality() -> None:
    found = label_quality(Annotations.from_dense([[0, 0, -1], [1, 1, -1]]), np.eye(2))
    assert np.isnan(found.annotator_quality[2])
    assert np.isfinite(found.annotator_quality[:2]).all()


def test_an_item_without_annotations_keeps_the_classifiers_probabilities() -> None:
    shares = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    found = label_quality(Annotations.from_dense([[0, 0], [1, 1], [-1, -1]]), shares)
    assert found.class_probabilities[2] == pytest.approx(shares[2])


def test_single_labels_alone_are_accepted() -> None:
    found = label_quality(Annotations.from_dense([[0, -1], [-1, 1]]), np.eye(2))
    assert found.consensus.tolist() == [0, 1]


def test_another_shape_is_an_error() -> None:
    with pytest.raises(InvalidParameterError, match="one row per item"):
        label_quality(Annotations.from_dense([[0, 1]]), np.eye(2))

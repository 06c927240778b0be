"""Items: corrected labels, disagreement, difficulty, wrong gold."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.diagnostics.item_accounts import disagreement, item_report
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
    report = item_report(make_aggregator("dawid-skene").fit(told).result_, told)
    assert report.likely_mislabelled[:10].sum() >= 9
    assert report.likely_mislabelled[10:].mean() < 0.02


def test_an_item_that_misleads_good_annotators_is_difficult() -> None:
    truth = np.arange(300) % 3
    annotations = simulate_annotations(truth, one_coin([0.95] * 5, 3), per_item(300, 5, labels=5))
    table = annotations.to_dense()
    table[7] = [0, 1, 2, 0, 1]
    told = Annotations.from_dense(table)
    report = item_report(make_aggregator("dawid-skene").fit(told).result_, told)
    assert report.difficulty.argmax() == 7
    assert report.difficulty[7] > 0.3
    assert abs(np.median(report.difficulty)) < 0.1


def test_items_are_not_difficult_because_their_annotators_are_poor() -> None:
    annotations = simulate_annotations(np.arange(600) % 3, one_coin([0.7] * 7, 3), per_item(600, 7, labels=7))
    report = item_report(make_aggregator("dawid-skene").fit(annotations).result_, annotations)
    assert abs(report.difficulty.mean()) < 0.05


def test_the_report_is_a_frame_with_the_users_names() -> None:
    annotations = Annotations.from_triplets(["x", "x", "y"], ["ann", "bob", "ann"], ["cat", "cat", "dog"])
    frame = item_report(make_aggregator("majority-vote").fit(annotations).result_, annotations).to_frame()
    assert frame["label"].to_list() == ["cat", "dog"]

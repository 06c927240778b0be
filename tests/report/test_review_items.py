"""Items up for review, with reasons that are known beforehand."""

from __future__ import annotations

import numpy as np

import crowdprism as cp
from crowdprism.report.review_items import build_review, review_reasons


def fitted(annotations: cp.Annotations, method: str = "dawid-skene") -> cp.FitResult:
    return cp.make_aggregator(method, use_gold=False).fit(annotations).result_


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

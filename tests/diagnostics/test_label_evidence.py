"""Evidence about annotators by closed forms, and results matched with annotations."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.diagnostics.label_evidence import class_probabilities_without, dirichlet_multinomial, matching
from crowdprism.errors import InvalidParameterError
from crowdprism.results import FitResult


def test_taking_an_annotation_out_leaves_prior_and_the_others() -> None:
    annotations = Annotations.from_dense([[0, 1]])
    confusions = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]])
    prior = np.array([0.3, 0.7])
    joint = prior * confusions[0, :, 0] * confusions[1, :, 1]
    result = FitResult(
        method="by-hand",
        items=annotations.items,
        annotators=annotations.annotators,
        classes=annotations.classes,
        class_probabilities=(joint / joint.sum())[None],
        confusions=confusions,
    )
    without_first = prior * confusions[1, :, 1]
    found = class_probabilities_without(result, annotations)[0]
    assert found == pytest.approx(without_first / without_first.sum())


def test_probabilities_of_all_label_sequences_sum_to_one() -> None:
    counts = np.array([[n, 3 - n] for n in range(4)], dtype=float)
    assert (np.exp(dirichlet_multinomial(counts)) * [1, 3, 3, 1]).sum() == pytest.approx(1)


def test_annotations_in_any_order_are_brought_into_the_order_of_the_result() -> None:
    rows = [("x", "ann", "cat"), ("y", "bob", "dog"), ("y", "ann", "dog"), ("z", "bob", "cat")]
    a = Annotations.from_triplets(*zip(*rows, strict=True), gold={"z": "dog"})
    result = make_aggregator("majority-vote", use_gold=False).fit(a).result_
    assert matching(result, a) is a
    turned = a.reindexed(items=["z", "x", "y"], annotators=["bob", "ann"], classes=["dog", "cat"])
    assert matching(result, turned) == a


def test_names_that_only_one_of_the_two_has_are_an_error() -> None:
    a = Annotations.from_triplets(["x", "y"], ["ann", "bob"], ["cat", "dog"])
    result = make_aggregator("majority-vote", use_gold=False).fit(a).result_
    with pytest.raises(InvalidParameterError, match="has 2 items, they have 1, and only one of the two has 'y'"):
        matching(result, a[:1])
    other = Annotations.from_triplets(["x", "y"], ["ann", "zoe"], ["cat", "dog"])
    with pytest.raises(InvalidParameterError, match="not those of this result: it has 2 annotators"):
        matching(result, other)

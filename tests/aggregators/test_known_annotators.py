"""What is known of annotators before a fit: where it starts, and what returning annotators did before."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.aggregators.known_annotators import checked_rows, past_counts, starting_confusions
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError


def liars_and_others(n_items: int = 300) -> Annotations:
    """Three annotators who are right 19 times of 20, and one who lies 9 times of 10."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, n_items)
    right = rng.random((n_items, 4)) < [0.95, 0.95, 0.95, 0.1]
    return Annotations.from_dense(np.where(right, truth[:, None], 1 - truth[:, None]))


def test_initial_confusions_decide_between_mirror_images() -> None:
    crowd = Annotations.from_dense([[0, 1], [1, 0]] * 20, annotator_names=["ann", "bob"])
    liar = {"ann": [[0.1, 0.9], [0.9, 0.1]], "bob": [[0.9, 0.1], [0.1, 0.9]]}
    result = make_aggregator("dawid-skene", initial_confusions=liar, prior_strength=0.0).fit(crowd).result_
    assert result.labels().tolist() == [1, 0] * 20
    as_array = np.array([liar["ann"], liar["bob"]])
    same = make_aggregator("dawid-skene", initial_confusions=as_array, prior_strength=0.0).fit(crowd).result_
    np.testing.assert_array_equal(same.class_probabilities, result.class_probabilities)


def test_initial_confusions_with_rows_that_do_not_sum_to_one_are_refused() -> None:
    crowd = Annotations.from_dense([[0, 1], [1, 0]])
    with pytest.raises(InvalidParameterError, match="sum to one"):
        make_aggregator("dawid-skene", initial_confusions=np.ones((2, 2, 2))).fit(crowd)
    with pytest.raises(InvalidParameterError, match="None of the names"):
        make_aggregator("dawid-skene", initial_confusions={"zoe": np.eye(2)}).fit(crowd)


def test_a_returning_annotator_is_known_from_the_past() -> None:
    past = make_aggregator("dawid-skene").fit(liars_and_others()).result_
    today = Annotations.from_triplets(["i", "j"], [3, 3], [0, 1], classes=[0, 1])
    assert make_aggregator("dawid-skene").fit(today).result_.labels().tolist() == [0, 1]
    assert make_aggregator("dawid-skene", past_result=past).fit(today).result_.labels().tolist() == [1, 0]


def test_past_counts_are_matched_by_name_of_annotator_and_class() -> None:
    past = make_aggregator("dawid-skene").fit(liars_and_others()).result_
    today = Annotations.from_triplets(["i", "j"], [99, 2], [2, 1], classes=[1, 2, 0])
    (place,) = np.flatnonzero([name == 2 for name in today.annotators.tolist()])
    counts = past_counts(past, today)
    assert list(counts) == [place]
    order = [today.classes.tolist().index(name) for name in (0, 1)]
    np.testing.assert_array_equal(counts[place][np.ix_(order, order)], past.confusion_posterior[2])
    assert counts[place].sum() == pytest.approx(past.confusion_posterior[2].sum())


def test_a_past_result_without_counts_or_common_classes_is_refused() -> None:
    crowd = liars_and_others(30)
    with pytest.raises(InvalidParameterError, match="no counts"):
        make_aggregator("dawid-skene", past_result=make_aggregator("glad").fit(crowd).result_).fit(crowd)
    other = Annotations.from_triplets(["i", "i"], [0, 1], ["cat", "dog"])
    with pytest.raises(InvalidParameterError, match="none of the classes"):
        past_counts(make_aggregator("dawid-skene").fit(crowd).result_, other)


def test_annotators_that_are_not_named_start_from_the_common_matrix() -> None:
    a = Annotations.from_dense([[0, 1]], annotator_names=["ann", "bob"])
    common = np.array([[0.7, 0.3], [0.2, 0.8]])
    found = starting_confusions({"ann": np.eye(2), "unheard of": np.eye(2)}, a, common)
    np.testing.assert_array_equal(found, [np.eye(2), common])


def test_a_row_that_is_no_distribution_is_named_with_its_place() -> None:
    with pytest.raises(InvalidParameterError, match=r"1 rows of x .* \[0\.5, 0\.6\] at \(1,\)"):
        checked_rows([[1.0, 0.0], [0.5, 0.6]], (2, 2), "x")
    with pytest.raises(InvalidParameterError, match=r"shape \(2, 2\), not \(3, 3\)"):
        checked_rows(np.eye(2), (3, 3), "x")

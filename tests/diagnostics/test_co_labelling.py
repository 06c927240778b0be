"""Pairs of annotators and connected groups: closed forms, loops and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.annotations import Annotations
from crowdprism.diagnostics import (
    agreement,
    annotator_agreement,
    co_labelling_graph,
    cohen_kappa,
    coverage,
    pairwise_agreement,
    scott_pi,
)
from crowdprism.errors import IdentifiabilityWarning, InvalidParameterError, UnsuitableDataError


def sparse_crowd(seed: int, n_items: int = 60, n_annotators: int = 7, n_classes: int = 4, share: float = 0.5):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_items)
    table = np.where(
        rng.random((n_items, n_annotators)) < 0.6, truth[:, None], rng.integers(n_classes, size=(n_items, n_annotators))
    )
    return np.where(rng.random(table.shape) < share, table, -1)


def annotations_of(table, n_classes: int = 4) -> Annotations:
    return Annotations.from_dense(table, classes=list(range(n_classes)))


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_cohen_kappa_equals_statsmodels(weights) -> None:
    from statsmodels.stats.inter_rater import cohens_kappa

    table = sparse_crowd(2)[:, :2]
    both = table[(table >= 0).all(axis=1)]
    counts = np.zeros((4, 4))
    np.add.at(counts, (both[:, 0], both[:, 1]), 1)
    mine = cohen_kappa(annotations_of(table), 0, 1, weights)
    assert mine == pytest.approx(cohens_kappa(counts, wt=weights, return_results=False), abs=1e-12)


def test_cohen_and_scott_by_hand() -> None:
    # Both say yes 20 times, both no 15 times, 5 + 10 times they differ (Cohen's kappa .4 in the usual example).
    rows = [[1, 1]] * 20 + [[1, 0]] * 5 + [[0, 1]] * 10 + [[0, 0]] * 15
    a = Annotations.from_dense(rows, annotator_names=["ann", "bob"])
    assert cohen_kappa(a, "ann", "bob") == pytest.approx(0.4)
    shares = np.array([45, 55]) / 100
    chance = (shares**2).sum()
    assert scott_pi(a, "ann", "bob") == pytest.approx((0.7 - chance) / (1 - chance))


def test_the_pairwise_table_equals_each_pair_alone() -> None:
    a = annotations_of(sparse_crowd(4, n_items=90))
    table = pairwise_agreement(a)
    assert len(table) == 21
    for row in range(len(table)):
        first, second = table.first[row], table.second[row]
        assert table.cohen[row] == pytest.approx(cohen_kappa(a, first, second), abs=1e-12)
        assert table.scott[row] == pytest.approx(scott_pi(a, first, second), abs=1e-12)
    assert table.to_frame().shape == (21, 6)


def test_annotator_agreement_by_loops_with_repeated_answers() -> None:
    table = sparse_crowd(5)
    items, annotators = np.nonzero(table >= 0)
    labels = table[items, annotators]
    extra = np.arange(0, len(items), 5)  # every fifth annotation is given again, with another label
    items, annotators = np.r_[items, items[extra]], np.r_[annotators, annotators[extra]]
    labels = np.r_[labels, (labels[extra] + 1) % 4]
    a = Annotations.from_triplets(items, annotators, labels)
    rows = list(zip(items, annotators, labels, strict=True))
    for place, name in enumerate(a.annotators):
        shares = []
        for item, who, label in rows:
            others = [given_label for i, w, given_label in rows if i == item and w != who]
            if who == name and others:
                shares.append(np.mean([other == label for other in others]))
        assert annotator_agreement(a).raw[place] == pytest.approx(np.mean(shares))
        assert annotator_agreement(a).n_compared[place] == len(shares)


def test_unknown_or_incomparable_annotators_are_named() -> None:
    a = Annotations.from_dense([[0, -1], [-1, 1]], annotator_names=["ann", "bob"])
    with pytest.raises(InvalidParameterError, match="1 of 2 names are not annotators: 'eve'"):
        cohen_kappa(a, "ann", "eve")
    with pytest.raises(UnsuitableDataError, match="'ann' and 'bob' have no item in common"):
        cohen_kappa(a, "ann", "bob")
    with pytest.raises(InvalidParameterError, match="given twice"):
        cohen_kappa(a, "ann", "ann")


def test_parts_of_the_crowd_that_share_no_item_are_warned_of() -> None:
    table = np.full((6, 5), -1)
    table[:4, :3] = 1
    table[4:, 3:] = 0
    a = Annotations.from_dense(table, annotator_names=list("abcde"))
    with pytest.warns(IdentifiabilityWarning, match=r"2 groups.*3 annotators on 4 items; 2 annotators on 2 items"):
        report = agreement(a)
    assert report.graph.annotator_part.tolist() == [0, 0, 0, 1, 1]
    assert report.graph.item_part.tolist() == [0, 0, 0, 0, 1, 1]
    assert report.graph.n_annotations.tolist() == [12, 4]


def test_those_without_annotations_belong_to_no_part() -> None:
    a = Annotations.from_triplets([1, 1], ["a", "b"], [0, 1], item_names=[1, 2], annotator_names=["a", "b", "c"])
    graph = co_labelling_graph(a)
    assert graph.connected
    assert graph.annotator_part.tolist() == [0, 0, None]
    assert graph.item_part.tolist() == [0, None]


def test_coverage_counts_items_by_their_labels() -> None:
    found = coverage(Annotations.from_dense([[0, 1], [1, -1], [-1, -1], [1, 1]]))
    assert (found.n_shared, found.n_single, found.n_unlabelled, found.density) == (2, 1, 1, 5 / 8)

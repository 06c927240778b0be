"""Agreement coefficients against hand-computed examples, statsmodels, and slow references in plain loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdprism.annotations import Annotations
from crowdprism.diagnostics import (
    agreement,
    annotator_agreement,
    co_labelling_graph,
    cohen_kappa,
    coverage,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    pairwise_agreement,
    raw_agreement,
    scott_pi,
)
from crowdprism.errors import IdentifiabilityWarning, InvalidParameterError, UnsuitableDataError

# Krippendorff (2011), "Computing Krippendorff's alpha-reliability", section C: four observers, twelve units,
# values 1..5, missing values; the published results are .743, .815 and .849.
KRIPPENDORFF_EXAMPLE = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, -1, -1, -1],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, -1, 3],
        [-1, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, -1],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, -1],
    ]
).T


def sparse_crowd(seed: int, n_items: int = 60, n_annotators: int = 7, n_classes: int = 4, share: float = 0.5):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_items)
    table = np.where(
        rng.random((n_items, n_annotators)) < 0.6, truth[:, None], rng.integers(n_classes, size=(n_items, n_annotators))
    )
    return np.where(rng.random(table.shape) < share, table, -1)


def annotations_of(table, n_classes: int = 4) -> Annotations:
    return Annotations.from_dense(table, classes=list(range(n_classes)))


def slow_alpha(table, distance) -> float:
    """Alpha by its definition: all ordered pairs of values within units, and all pairs of values at large."""
    units = [[int(value) for value in row if value >= 0] for row in table]
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    observed = sum(
        sum(distance(a, b, values) for a, b in itertools.permutations(unit, 2)) / (len(unit) - 1) for unit in units
    ) / len(values)
    expected = sum(distance(a, b, values) for a, b in itertools.permutations(values, 2)) / (
        len(values) * (len(values) - 1)
    )
    return 1 - observed / expected


def nominal(a, b, values) -> float:
    return float(a != b)


def interval(a, b, values) -> float:
    return float((a - b) ** 2)


def ordinal(a, b, values) -> float:
    low, high = min(a, b), max(a, b)
    between = sum(low <= value <= high for value in values)
    return (between - (values.count(a) + values.count(b)) / 2) ** 2 if a != b else 0.0


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_gives_the_published_values_of_krippendorffs_example(level, published) -> None:
    assert krippendorff_alpha(Annotations.from_dense(KRIPPENDORFF_EXAMPLE), level) == pytest.approx(published, abs=5e-4)


@pytest.mark.parametrize(("level", "distance"), [("nominal", nominal), ("ordinal", ordinal), ("interval", interval)])
@pytest.mark.parametrize("seed", range(3))
def test_alpha_equals_its_definition_by_loops(level, distance, seed) -> None:
    table = sparse_crowd(seed, n_items=25)
    assert krippendorff_alpha(annotations_of(table), level) == pytest.approx(slow_alpha(table, distance), abs=1e-12)


def test_alpha_is_the_same_whether_cells_are_counted_or_sorted(monkeypatch) -> None:
    a = annotations_of(sparse_crowd(0))
    counted = krippendorff_alpha(a, "ordinal")
    monkeypatch.setattr("crowdprism.diagnostics.label_counts.COUNT_CELLS_PER_ANNOTATION", 0)
    assert krippendorff_alpha(a, "ordinal") == pytest.approx(counted, abs=1e-15)


def test_interval_alpha_does_not_change_with_the_unit_of_values_and_needs_numbers() -> None:
    named = Annotations.from_dense([["low", "mid"], ["high", "high"], ["mid", "mid"]], missing=None)
    one = krippendorff_alpha(named, "interval", values={"low": 1, "mid": 2, "high": 3})
    assert one == pytest.approx(krippendorff_alpha(named, "interval", values={"low": 15, "mid": 25, "high": 35}))
    with pytest.raises(InvalidParameterError, match="3 of 3 classes have no number"):
        krippendorff_alpha(named, "interval")
    with pytest.raises(InvalidParameterError, match="1 of 3 classes have no number: 'mid'"):
        krippendorff_alpha(named, "interval", values={"low": 1, "high": 3})
    with pytest.raises(InvalidParameterError, match="level must be"):
        krippendorff_alpha(named, "ratio")


def test_fleiss_kappa_equals_statsmodels_on_complete_data() -> None:
    from statsmodels.stats.inter_rater import fleiss_kappa as reference

    table = sparse_crowd(1, share=1.1)
    counts = np.stack([(table == k).sum(axis=1) for k in range(4)], axis=1)
    assert fleiss_kappa(annotations_of(table)) == pytest.approx(reference(counts), abs=1e-12)


def test_fleiss_kappa_of_the_original_paper_is_reproduced() -> None:
    # The ten subjects, fourteen raters and five categories of the example table commonly used for Fleiss (1971).
    counts = np.array(
        [
            [0, 0, 0, 0, 14],
            [0, 2, 6, 4, 2],
            [0, 0, 3, 5, 6],
            [0, 3, 9, 2, 0],
            [2, 2, 8, 1, 1],
            [7, 7, 0, 0, 0],
            [3, 2, 6, 3, 0],
            [2, 5, 3, 2, 2],
            [6, 5, 2, 1, 0],
            [0, 2, 2, 3, 7],
        ]
    )
    table = np.array([np.repeat(np.arange(5), row) for row in counts])
    assert fleiss_kappa(Annotations.from_dense(table)) == pytest.approx(0.210, abs=5e-4)


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


def test_gwet_ac1_by_hand() -> None:
    rows = [[1, 1]] * 20 + [[1, 0]] * 5 + [[0, 1]] * 10 + [[0, 0]] * 15
    share = 0.55
    chance = 2 * share * (1 - share)
    assert gwet_ac1(Annotations.from_dense(rows)) == pytest.approx((0.7 - chance) / (1 - chance))


def test_raw_agreement_by_loops() -> None:
    table = sparse_crowd(3)
    shares = []
    for row in table:
        given_labels = row[row >= 0]
        pairs = list(itertools.combinations(given_labels, 2))
        if pairs:
            shares.append(np.mean([x == y for x, y in pairs]))
    assert raw_agreement(annotations_of(table)) == pytest.approx(np.mean(shares))


@pytest.mark.parametrize("at_once", [1, 2**24])
def test_the_pairwise_table_equals_each_pair_alone(monkeypatch, at_once) -> None:
    monkeypatch.setattr("crowdprism.diagnostics.pair_agreement.PAIR_CELLS_AT_ONCE", at_once)
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


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_coefficients_ignore_row_order_names_and_weights(seed) -> None:
    table = sparse_crowd(seed, n_items=30)
    a = annotations_of(table)
    items, annotators = np.nonzero(table >= 0)
    labels = table[items, annotators]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(items))
    renamed = rng.permutation(4)
    b = Annotations.from_triplets(
        items[order], -annotators[order], renamed[labels[order]], weight=rng.random(len(items)) + 0.1
    )
    for measure in (raw_agreement, fleiss_kappa, krippendorff_alpha):
        assert measure(b) == pytest.approx(measure(a), abs=1e-12)
    pairs = [np.sort(pairwise_agreement(each).cohen) for each in (a, b)]
    np.testing.assert_allclose(*pairs, atol=1e-12, equal_nan=True)


def test_perfect_agreement_is_one_and_one_label_alone_is_not_defined() -> None:
    perfect = Annotations.from_dense([[0, 0, 0], [1, 1, 1]])
    assert krippendorff_alpha(perfect) == fleiss_kappa(perfect) == gwet_ac1(perfect) == 1
    constant = Annotations.from_dense([[0, 0], [0, 0]], classes=[0, 1])
    assert math.isnan(krippendorff_alpha(constant))
    assert math.isnan(fleiss_kappa(constant))
    assert math.isnan(cohen_kappa(constant, 0, 1))
    assert gwet_ac1(constant) == 1
    assert "not defined: only one label" in str(agreement(constant))


def test_a_class_nobody_uses_changes_nothing() -> None:
    table = sparse_crowd(6)
    for measure in (raw_agreement, fleiss_kappa, krippendorff_alpha):
        assert measure(annotations_of(table)) == pytest.approx(measure(annotations_of(table, n_classes=9)), abs=1e-12)


def test_without_two_labels_on_an_item_agreement_is_refused() -> None:
    with pytest.raises(UnsuitableDataError, match="None of the 2 items has two annotations"):
        krippendorff_alpha(Annotations.from_dense([[0, -1], [-1, 1]]))


def test_unknown_or_incomparable_annotators_are_named() -> None:
    a = Annotations.from_dense([[0, -1], [-1, 1]], annotator_names=["ann", "bob"])
    with pytest.raises(InvalidParameterError, match="'eve' is not an annotator"):
        cohen_kappa(a, "ann", "eve")
    with pytest.raises(UnsuitableDataError, match="'ann' and 'bob' have no item in common"):
        cohen_kappa(a, "ann", "bob")
    with pytest.raises(InvalidParameterError, match="given twice"):
        cohen_kappa(a, "ann", "ann")


def test_the_report_reads_well_and_holds_every_coefficient() -> None:
    a = annotations_of(sparse_crowd(7))
    report = agreement(a)
    assert report.alpha == krippendorff_alpha(a)
    assert report.alpha_ordinal == krippendorff_alpha(a, "ordinal")
    assert report.fleiss == fleiss_kappa(a)
    assert report.ac1 == gwet_ac1(a)
    text = str(report)
    assert "Krippendorff's alpha" in text
    assert "all annotators are connected" in text


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

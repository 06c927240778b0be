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
    cohen_kappa,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    pairwise_agreement,
    raw_agreement,
)
from crowdprism.errors import InvalidParameterError, UnsuitableDataError

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


def test_the_report_reads_well_and_holds_every_coefficient() -> None:
    a = annotations_of(sparse_crowd(7))
    report = agreement(a)
    assert report.alpha == krippendorff_alpha(a)
    assert report.alpha_ordinal == krippendorff_alpha(a, "ordinal")
    assert report.fleiss == fleiss_kappa(a)
    assert report.ac1 == gwet_ac1(a)
    text = str(report)
    assert "Krippendorff's alpha" in text
    assert "Shared items connect all annotators." in text


def test_masi_distance_weighs_overlap_by_inclusion() -> None:
    from crowdprism.diagnostics.agreement import masi_distances

    sets = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)
    found = masi_distances(sets)
    assert found[0, 0] == found[4, 4] == 0
    assert found[0, 1] == pytest.approx(1 - 1 / 2 * 2 / 3)
    assert found[0, 2] == pytest.approx(1 - 1 / 3 * 1 / 3)
    assert found[0, 3] == found[0, 4] == 1


def test_masi_alpha_of_single_choices_is_the_nominal_alpha() -> None:
    from crowdprism.annotations.choice_sets import MultiLabelAnnotations
    from crowdprism.diagnostics.agreement import masi_alpha

    a = annotations_of(sparse_crowd(7))
    sets = MultiLabelAnnotations.from_triplets(a.item, a.annotator, [[int(label)] for label in a.label])
    assert masi_alpha(sets) == pytest.approx(krippendorff_alpha(a))


def test_ordinal_alpha_is_shown_only_if_classes_have_an_order() -> None:
    named = Annotations.from_triplets([1, 1, 2, 2], ["a", "b"] * 2, ["low", "high", "low", "low"])
    assert agreement(named).alpha_ordinal is None
    assert "ordinal" not in str(agreement(named))
    numbers = Annotations.from_triplets([1, 1, 2, 2], ["a", "b"] * 2, [1, 2, 3, 3])
    assert "ordinal" in str(agreement(numbers))


def test_repeated_answers_of_one_annotator_show_how_reliable_they_are() -> None:
    from crowdprism.diagnostics.agreement import retest_agreement

    answers = [("x", "ann", 0), ("x", "ann", 0), ("x", "ann", 1), ("y", "bob", 1), ("y", "bob", 1), ("y", "ann", 0)]
    a = Annotations.from_triplets(*map(list, zip(*answers, strict=True)))
    assert retest_agreement(a) == (4, 0.5)  # of ann's three pairs one is equal, and bob's one
    assert "annotators repeat their own answer in 50% of 4 pairs" in str(agreement(a))
    assert retest_agreement(a.select(a.item == 5))[0] == 0

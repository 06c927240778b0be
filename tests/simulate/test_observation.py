"""Patterns of observed pairs have the counts that their names promise."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.simulate import (
    each_with_probability,
    per_annotator,
    per_item,
)


def test_the_share_of_unlabelled_items_is_one_minus_p_to_the_power_of_annotators() -> None:
    item, _ = each_with_probability(50_000, 5, probability=0.1)
    assert 1 - len(np.unique(item)) / 50_000 == pytest.approx(0.9**5, abs=0.01)


def test_budgets_are_kept_exactly_and_no_pair_repeats() -> None:
    item, annotator = per_item(500, 20, labels=4)
    assert set(np.bincount(item, minlength=500)) == {4}
    assert len(set(zip(item.tolist(), annotator.tolist(), strict=True))) == 2000
    item, annotator = per_annotator(500, 20, labels=30)
    assert set(np.bincount(annotator, minlength=20)) == {30}
    assert len(set(zip(item.tolist(), annotator.tolist(), strict=True))) == 600


def test_eager_annotators_give_more_labels() -> None:
    _, annotator = per_item(5000, 3, labels=1, share=[1, 2, 7])
    assert np.bincount(annotator) / 5000 == pytest.approx([0.1, 0.2, 0.7], abs=0.03)


@pytest.mark.parametrize(("probability", "n_annotators"), [(0.1, 5), (0.2, 5), (0.1, 25)])
def test_the_share_of_unlabelled_items_has_its_closed_form(probability: float, n_annotators: int) -> None:
    item, _ = each_with_probability(40_000, n_annotators, probability=probability, seed=1)
    unlabelled = 1 - len(np.unique(item)) / 40_000
    expected = (1 - probability) ** n_annotators
    assert unlabelled == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 40_000))

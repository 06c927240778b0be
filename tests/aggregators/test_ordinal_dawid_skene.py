from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.aggregators.ordinal_dawid_skene import BIAS, SPREAD, OrdinalDawidSkene, ordinal_centres, ordinal_grid
from crowdprism.annotations import Annotations
from crowdprism.errors import UnsuitableDataError


def ratings(seed: int, *, n_items: int = 250, n_annotators: int = 20) -> tuple[Annotations, np.ndarray, np.ndarray]:
    """Five classes; annotators with a bias and a spread."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(5, size=n_items)
    bias, spread = rng.normal(0, 0.6, n_annotators), np.exp(rng.normal(-0.3, 0.5, n_annotators))
    item = np.repeat(np.arange(n_items), 4)
    annotator = np.concatenate([rng.choice(n_annotators, 4, replace=False) for _ in range(n_items)])
    noisy = truth[item] + bias[annotator] + spread[annotator] * rng.normal(size=len(item))
    label = np.clip(np.round(noisy), 0, 4).astype(int)
    return Annotations.from_triplets(item, annotator, label, classes=list(range(5))), truth, bias


def error(annotations: Annotations, truth: np.ndarray, method: str) -> float:
    found = make_aggregator(method, dependence=None).fit(annotations).result_.class_probabilities.argmax(axis=1)
    return float(np.abs(found - truth).mean())


def test_errors_of_ratings_are_smaller_than_without_the_order() -> None:
    crowds = [ratings(seed)[:2] for seed in range(4)]
    ordinal, plain = (np.mean([error(*crowd, method) for crowd in crowds]) for method in
                      ("ordinal-dawid-skene", "dawid-skene"))  # fmt: skip
    assert ordinal < 0.85 * plain


def test_planted_biases_are_found() -> None:
    annotations, _, bias = ratings(0, n_items=600)
    fitted = OrdinalDawidSkene(dependence=None).fit(annotations)
    assert np.corrcoef(fitted.bias_, bias)[0, 1] > 0.9


def test_a_point_of_the_grid_is_the_normal_curve_cut_between_classes() -> None:
    from scipy.stats import norm

    grid = ordinal_grid(4)
    place, spread = 2, 3
    rows = grid[place, spread]
    assert rows.sum(axis=-1) == pytest.approx(np.ones(4))
    seen = norm(1 + BIAS[place], SPREAD[spread])
    assert rows[1, 2] == pytest.approx(seen.cdf(2.5) - seen.cdf(1.5))
    assert rows[1, 0] == pytest.approx(seen.cdf(0.5))


def test_counts_drawn_from_a_point_of_the_grid_give_that_point_back() -> None:
    exact = 5000 * ordinal_grid(5)[8, 4]
    centres, bias, spread = ordinal_centres(np.repeat(exact[None], 3, axis=0))
    assert bias == pytest.approx(np.full(3, BIAS[8]), abs=0.05)
    assert spread == pytest.approx(np.full(3, SPREAD[4]), abs=0.05)
    assert centres[0] == pytest.approx(ordinal_grid(5)[8, 4], abs=0.02)


def test_classes_without_an_order_are_refused() -> None:
    annotations = Annotations.from_triplets([1, 1, 2], ["a", "b", "a"], ["low", "high", "medium"])
    with pytest.raises(UnsuitableDataError, match="order=") as caught:
        OrdinalDawidSkene().fit(annotations)
    assert "'high', 'low', 'medium'" in str(caught.value)
    with pytest.raises(UnsuitableDataError):
        OrdinalDawidSkene().fit([[0, 1], [1, 1]])


def test_the_order_of_rows_and_names_of_items_and_annotators_do_not_matter() -> None:
    annotations, _, _ = ratings(1, n_items=60)
    turn = np.random.default_rng(0).permutation(annotations.n_annotations)
    renamed = Annotations.from_triplets(
        [f"item {at:03d}" for at in annotations.item[turn]],
        [f"person {at:03d}" for at in annotations.annotator[turn]],
        annotations.label[turn],
        classes=list(range(5)),
    )
    first, again = (OrdinalDawidSkene().fit(one).result_.class_probabilities for one in (annotations, renamed))
    assert np.array_equal(first, again)


def test_reversing_the_scale_reverses_the_result() -> None:
    annotations, _, _ = ratings(2, n_items=60)
    mirrored = Annotations.from_triplets(
        annotations.item, annotations.annotator, 4 - annotations.label.astype(int), classes=list(range(5))
    )
    first, again = (OrdinalDawidSkene(dependence=None).fit(one) for one in (annotations, mirrored))
    assert again.result_.class_probabilities[:, ::-1] == pytest.approx(first.result_.class_probabilities, abs=1e-6)
    assert again.bias_ == pytest.approx(-first.bias_, abs=1e-6)


def test_two_answers_do_not_settle_a_bias_and_many_do() -> None:
    one_too_high = np.zeros((1, 5, 5))
    one_too_high[0, 1, 2] = one_too_high[0, 2, 3] = 1
    assert ordinal_centres(one_too_high)[1][0] < 0.7
    assert ordinal_centres(100 * one_too_high)[1][0] == pytest.approx(1.0, abs=0.01)

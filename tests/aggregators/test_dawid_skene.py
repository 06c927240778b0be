"""Dawid-Skene against plain loops, its reductions, memory, and what it knows beforehand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from small_crowds import N_CLASSES, labelled, made, mixed_crowd, posterior, rows_of, simulated, votes_of

from crowdprism.aggregators import make_aggregator
from crowdprism.aggregators.moments import refine_by_em
from crowdprism.aggregators.sources import cells_of
from crowdprism.annotations import Annotations
from crowdprism.errors import UnsuitableDataError
from crowdprism.results import confusion


@pytest.mark.parametrize("strength", [0.0, 4.0])
def test_dawid_skene_equals_the_loops(annotations: Annotations, strength: float) -> None:
    rows, shares = rows_of(annotations), votes_of(annotations)
    pooled = [
        [sum(w * shares[i][k] for i, _, c, w in rows if c == c2) for c2 in range(N_CLASSES)] for k in range(N_CLASSES)
    ]
    centre = [[value / sum(row) for value in row] for row in pooled]
    q, known = shares, sorted(labelled(annotations))
    for _ in range(7):
        prior = [sum(q[i][k] for i in known) / len(known) for k in range(N_CLASSES)]
        confusion = {}
        for m in range(annotations.n_annotators):
            for k in range(N_CLASSES):
                counts = [strength * centre[k][c] for c in range(N_CLASSES)]
                for i, m2, c, w in rows:
                    if m2 == m:
                        counts[c] += w * q[i][k]
                total = sum(counts)
                confusion[m, k] = [count / total if total else 1 / N_CLASSES for count in counts]
        q, objective = [], 0.0
        for i in range(annotations.n_items):
            scores = [math.log(prior[k]) for k in range(N_CLASSES)]
            for i2, m, c, w in rows:
                if i2 == i:
                    scores = [s + w * math.log(max(confusion[m, k][c], 1e-30)) for k, s in enumerate(scores)]
            row, log_sum = posterior(scores)
            q.append(row)
            objective += log_sum
        if strength:
            objective += sum(
                strength * centre[k][c] * math.log(confusion[m, k][c])
                for m in range(annotations.n_annotators)
                for k in range(N_CLASSES)
                for c in range(N_CLASSES)
            )
    options = {"prior_strength": strength, "tolerance": 0.0}
    result = make_aggregator("dawid-skene", max_iter=7, **options).fit(annotations).result_
    assert result.history["objective"][-1] == pytest.approx(objective, rel=1e-9)
    # the fit ends with an M step after its last recorded objective, so one more E step lies between the two
    shorter = (
        make_aggregator("dawid-skene", prior_strength=strength, max_iter=6, tolerance=0.0).fit(annotations).result_
    )
    np.testing.assert_allclose(shorter.class_probabilities, q, atol=1e-8)


def few_labels_each() -> Annotations:
    """Annotators who use few of many labels."""
    rng = np.random.default_rng(0)
    item, annotator = np.repeat(np.arange(40), 4), rng.integers(0, 6, 160)
    return Annotations.from_triplets(item, annotator, (item % 3) * 5 + rng.integers(0, 2, 160), classes=range(20))


@pytest.mark.parametrize("name", ["dawid-skene", "fast-dawid-skene"])
def test_with_one_label_per_item_dawid_skene_equals_majority_vote(name: str) -> None:
    rng = np.random.default_rng(0)
    crowd = Annotations.from_triplets(np.arange(200), rng.integers(0, 7, 200), rng.integers(0, 4, 200))
    expected = made("majority-vote").fit(crowd).result_.class_probabilities
    np.testing.assert_allclose(made(name).fit(crowd).result_.class_probabilities, expected, atol=1e-9)


def test_an_adversary_is_used_and_not_ignored_by_dawid_skene() -> None:
    good, adversary = np.array([[0.7, 0.3], [0.3, 0.7]]), np.array([[0.03, 0.97], [0.97, 0.03]])
    crowd, truth = simulated(np.stack([good] * 4 + [adversary]), n_items=2000, labels=5)
    with_adversary = made("dawid-skene").fit(crowd).result_
    without = made("dawid-skene").fit(crowd.drop_annotators([4])).result_

    def accuracy(result: Any) -> float:
        return float(np.mean(result.class_probabilities.argmax(axis=1) == truth))

    assert with_adversary.confusions[4, 0, 1] > 0.9
    assert accuracy(with_adversary) > accuracy(without) + 0.1


def test_confusions_that_would_not_fit_are_left_out_and_accuracies_given(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = few_labels_each()
    full = made("dawid-skene").fit(crowd).result_
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 8 * crowd.n_annotators * 20**2 - 1)  # tables by cell still fit
    result = made("dawid-skene").fit(crowd).result_
    assert result.confusions is None
    assert result.warnings
    accuracy = confusion.annotator_accuracy(full.confusions, full.class_prior)
    np.testing.assert_allclose(result.skills, accuracy, atol=1e-3)  # one M step apart


def test_tables_that_would_not_fit_are_refused_and_one_coin_named(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=50)
    monkeypatch.setattr(confusion, "MAX_TABLE_BYTES", 100)
    with pytest.raises(UnsuitableDataError, match="one-coin"):
        made("dawid-skene").fit(crowd)


def test_cells_that_do_not_occur_change_nothing() -> None:
    """Annotators who use few of many labels: stored cells are few, and the fit equals that of full tables."""
    crowd = few_labels_each()
    cells = cells_of(crowd)
    assert not cells.complete
    result = made("dawid-skene", tolerance=0.0, max_iter=5).fit(crowd).result_
    gain = np.diff(result.history["objective"])
    assert (gain >= -1e-9).all()
    np.testing.assert_allclose(result.confusions.sum(axis=2), 1.0)
    no_prior = np.zeros((20, 20))
    again = refine_by_em(crowd, result.confusions, result.class_prior, pseudo_counts=no_prior, max_iter=0)
    assert np.isfinite(again["class_probabilities"]).all()


def test_partial_fit_takes_new_items_annotators_and_classes() -> None:
    model = made("dawid-skene").fit(Annotations.from_triplets([1, 1, 2], ["a", "b", "a"], ["x", "x", "y"]))
    model.partial_fit(Annotations.from_triplets([2, 3, 3], ["c", "c", "a"], ["y", "z", "z"]))
    assert model.result_.items.tolist() == [1, 2, 3]
    assert model.result_.labels().tolist() == ["x", "y", "z"]


def test_partial_fit_needs_fewer_iterations_than_a_refit() -> None:
    crowd, _ = simulated(mixed_crowd(), n_items=500)
    few = crowd.n_annotations // 100
    keep = np.arange(crowd.n_annotations) >= few
    options = {"tolerance": 1e-8, "prior": "crowd"}  # rounds of the own-skill prior start from the votes again
    model = made("dawid-skene", **options).fit(crowd.select(keep)).partial_fit(crowd.select(~keep))
    anew = made("dawid-skene", **options).fit(crowd)
    assert len(model.result_.history["objective"]) < len(anew.result_.history["objective"])


def test_single_labels_leave_what_is_assumed_of_every_annotator() -> None:
    """Skill .7 with the weight of four labels, for each true class."""
    single = Annotations.from_triplets(range(4), ["ann", "bob", "ann", "bob"], ["a", "b", "a", "b"])
    result = make_aggregator("dawid-skene").fit(single).result_
    assert result.confusion_posterior == pytest.approx(np.full((2, 2, 2), 4 * np.array([[0.7, 0.3], [0.3, 0.7]])))
    assert result.confusions == pytest.approx(np.full((2, 2, 2), [[0.7, 0.3], [0.3, 0.7]]))


def test_given_confusions_are_where_the_default_method_starts() -> None:
    """With the classes swapped at the start, a crowd that agrees means the opposite."""
    crowd = Annotations.from_dense(np.tile(np.arange(40)[:, None] % 2, (1, 4)))
    swapped = np.tile(np.array([[0.05, 0.95], [0.95, 0.05]]), (4, 1, 1))
    plain = make_aggregator("dawid-skene", max_iter=1).fit(crowd).result_
    other = make_aggregator("dawid-skene", max_iter=1, initial_confusions=swapped).fit(crowd).result_
    assert (other.labels() != plain.labels()).all()

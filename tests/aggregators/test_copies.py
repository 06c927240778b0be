"""Copies are found and counted once; independent crowds stay as they are, to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from crowdprism import Annotations, make_aggregator
from crowdprism.aggregators import copies
from crowdprism.aggregators.copies import (
    compare_pairs,
    far_above_others,
    find_voices,
    lower_quartiles,
    sample,
    sceptical_weights,
)

Table = NDArray[np.int64]


def answers(random: np.random.Generator, source: Table, accuracy: float, n_classes: int) -> Table:
    """The source's label with the given probability, else another one."""
    other = (source + random.integers(1, n_classes, size=len(source))) % n_classes
    return np.where(random.random(len(source)) < accuracy, source, other)


def jury(
    seed: int,
    *,
    honest: tuple[float, ...] = (0.72, 0.75, 0.78, 0.80),
    cliques: tuple[tuple[int, float], ...] = ((5, 0.62),),  # size, accuracy of the source
    fidelity: float = 0.97,
    n_items: int = 600,
    n_classes: int = 3,
) -> tuple[Table, Table]:
    """Labels (items, judges) of honest judges, then of near-copies, and the truth."""
    random = np.random.default_rng(seed)
    truth = random.integers(n_classes, size=n_items)
    columns = [answers(random, truth, accuracy, n_classes) for accuracy in honest]
    for size, accuracy in cliques:
        source = answers(random, truth, accuracy, n_classes)
        columns += [answers(random, source, fidelity, n_classes) for _ in range(size)]
    return np.column_stack(columns), truth


def accuracy(table: Table, truth: Table, **parameters: object) -> float:
    result = make_aggregator("dawid-skene", **parameters).fit(table).result_
    return float((result.class_probabilities.argmax(axis=1) == truth).mean())


def independent_crowd(seed: int) -> Table:
    """Experts and spammers, coins of all skills, few and many labels."""
    random = np.random.default_rng(seed)
    n_classes, n_annotators = int(random.integers(2, 6)), int(random.choice([4, 8, 20]))
    n_items, n_labels = int(random.choice([60, 150, 400])), int(min(n_annotators, random.choice([3, 5, 8])))
    skills = random.choice([1 / n_classes, 0.97], n_annotators) if seed % 3 else random.uniform(0.4, 0.95, n_annotators)
    truth = random.integers(n_classes, size=n_items)
    table = np.column_stack([answers(random, truth, skill, n_classes) for skill in skills])
    hidden = np.argsort(random.random(table.shape), axis=1) >= n_labels
    table[hidden] = -1
    return table


@pytest.mark.parametrize("seed", range(3))
def test_near_copies_do_not_outvote_honest_judges(seed: int) -> None:
    table, truth = jury(seed)
    assert accuracy(table, truth, dependence=None) < 0.70
    assert accuracy(table, truth) > 0.89  # five seeds: mean .923


@pytest.mark.parametrize("seed", range(2))
def test_two_cliques_are_two_voices(seed: int) -> None:
    table, truth = jury(seed, honest=(0.75, 0.78, 0.80), cliques=((3, 0.62), (3, 0.60)))
    result = make_aggregator("dawid-skene").fit(table).result_
    assert sorted(result.voices) == [(3, 4, 5), (6, 7, 8)]
    assert (result.class_probabilities.argmax(axis=1) == truth).mean() > 0.87


def test_sixteen_copies_among_forty_annotators_are_found_with_six_labels_per_item() -> None:
    table, truth = jury(0, honest=(0.65, 0.70, 0.75, 0.80) * 6, cliques=((16, 0.60),), n_items=2000)
    hidden = np.argsort(np.random.default_rng(1).random(table.shape), axis=1) >= 6
    table[hidden] = -1
    result = make_aggregator("dawid-skene").fit(table).result_
    assert result.voices == (tuple(range(24, 40)),)
    right = (result.class_probabilities.argmax(axis=1) == truth).mean()
    assert right > accuracy(table, truth, dependence=None) + 0.15


def test_the_vote_counts_copies_once_too() -> None:
    table, truth = jury(0)
    right = {
        dependence: float((result.class_probabilities.argmax(axis=1) == truth).mean())
        for dependence in ("auto", None)
        for result in [make_aggregator("majority-vote", dependence=dependence).fit(table).result_]
    }
    assert right["auto"] > 0.85 > 0.70 > right[None]


@pytest.mark.parametrize("method", ["majority-vote", "weighted-vote", "dawid-skene", "fast-dawid-skene"])
def test_an_independent_crowd_keeps_its_result_to_the_bit(method: str) -> None:
    for seed in range(15):
        table = independent_crowd(seed)
        found = make_aggregator(method).fit(table).result_
        plain = make_aggregator(method, dependence=None).fit(table).result_
        assert found.voices == ()
        assert found.warnings == plain.warnings
        assert np.array_equal(found.class_probabilities, plain.class_probabilities)
        assert np.array_equal(np.asarray(found.confusions), np.asarray(plain.confusions))


def test_a_crowd_of_like_skill_is_decided_by_pairs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "beyond_fit", lambda *_: pytest.fail("a fit was made"))
    for seed in range(10):
        random = np.random.default_rng(seed)
        truth = random.integers(3, size=300)
        table = np.column_stack([answers(random, truth, skill, 3) for skill in random.uniform(0.6, 0.85, 8)])
        assert not find_voices(Annotations.from_dense(table)).voices


def test_looser_dependence_is_named_and_changes_nothing() -> None:
    table, _ = jury(0, fidelity=0.9)
    found = make_aggregator("dawid-skene").fit(table).result_
    plain = make_aggregator("dawid-skene", dependence=None).fit(table).result_
    assert found.voices == ()
    assert "4, 5, 6, 7 and 8 agree more than independent annotators would" in found.warnings[-1]
    assert np.array_equal(found.class_probabilities, plain.class_probabilities)


def test_who_is_a_copy_does_not_depend_on_names_rows_or_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = jury(0)
    a = Annotations.from_dense(table)
    one = make_aggregator("dawid-skene").fit(a).result_
    shuffled = np.random.default_rng(1).permutation(a.n_annotations)
    rows = Annotations.from_triplets(a.item[shuffled], a.annotator[shuffled], a.label[shuffled])
    monkeypatch.setenv("CROWDPRISM_THREADS", "2")
    again = make_aggregator("dawid-skene").fit(rows).result_
    assert again.voices == one.voices
    assert np.array_equal(again.class_probabilities, one.class_probabilities)
    names = replace(a, annotators=np.array([f"judge {9 - code}" for code in range(9)]))
    assert {*make_aggregator("dawid-skene").fit(names).result_.voices[0]} == {f"judge {code}" for code in range(1, 6)}


def test_gold_can_tell_that_the_tight_group_is_right() -> None:
    # Five experts of .98 beside four who softly share their errors look like five copies beside four honest ones.
    table, truth = jury(0, honest=(), cliques=((4, 0.6),), fidelity=0.85)
    random = np.random.default_rng(5)
    table = np.column_stack([table, *(answers(random, truth, 0.98, 3) for _ in range(5))])
    a = Annotations.from_dense(table)
    assert len(find_voices(a).voices) == 1
    known = a.with_gold(dict(enumerate(truth[:20].tolist())))
    assert find_voices(known).voices == ()
    assert make_aggregator("dawid-skene").fit(known).result_.voices == ()
    assert len(make_aggregator("dawid-skene", use_gold=False).fit(known).result_.voices) == 1


def test_items_beyond_the_limit_are_left_out_and_labels_of_suspects_stay() -> None:
    random = np.random.default_rng(0)
    a = Annotations.from_dense(random.integers(3, size=(200, 80)))
    suspects = np.zeros(80, dtype=bool)
    suspects[[3, 7, 11]] = True
    some = sample(a, largest=2000, cost=np.asarray, suspects=suspects)
    assert some.n_items == 39  # of at most 50 labels each
    assert some.labels_per_item.max() <= 50
    assert (some.labels_per_annotator[suspects] == some.n_items).all()
    few = a.select(a.annotator < 50)
    assert sample(few, largest=10**9, cost=np.asarray) == few


def test_agreement_of_pairs_is_that_of_plain_loops() -> None:
    random = np.random.default_rng(0)
    table = random.integers(-1, 3, size=(40, 5))
    a = Annotations.from_dense(table)
    pairs = compare_pairs(a)
    for first, second, common, equal in zip(pairs.first, pairs.second, pairs.common, pairs.equal, strict=True):
        both = (table[:, first] >= 0) & (table[:, second] >= 0)
        assert common == both.sum()
        assert equal == (table[both, first] == table[both, second]).sum()
    assert pairs.n_pairs == 10


def test_kappa_is_that_of_cohen() -> None:
    from sklearn.metrics import cohen_kappa_score

    table = np.random.default_rng(0).integers(3, size=(200, 2))
    table[:120, 1] = table[:120, 0]
    pairs = compare_pairs(Annotations.from_dense(table))
    assert pairs.kappa[0] == pytest.approx(cohen_kappa_score(table[:, 0], table[:, 1]))


def test_pairs_with_few_common_items_are_not_judged() -> None:
    table = np.full((9, 3), 1)
    table[:5] = 0
    assert compare_pairs(Annotations.from_dense(table), least_common=10).n_pairs == 0
    assert find_voices(Annotations.from_dense(table)).voices == ()


def test_lower_quartiles_are_those_of_each_annotators_pairs() -> None:
    a = Annotations.from_dense(np.random.default_rng(0).integers(3, size=(60, 6)))
    pairs = compare_pairs(a)
    quartile = lower_quartiles(pairs, pairs.kappa)
    for annotator in range(6):
        own = np.sort(pairs.kappa[(pairs.first == annotator) | (pairs.second == annotator)])
        assert quartile[annotator] == pytest.approx(own[1], abs=2e-6)


def test_only_pairs_far_above_their_usual_agreement_are_suspicious() -> None:
    table, _ = jury(0)
    found = far_above_others(compare_pairs(Annotations.from_dense(table)))
    assert {*zip(found.first.tolist(), found.second.tolist(), strict=True)} == {
        (one, two) for one in range(4, 9) for two in range(one + 1, 9)
    }


def test_labels_count_less_the_more_their_annotators_agree() -> None:
    table, _ = jury(0)
    weight = sceptical_weights(Annotations.from_dense(table)).reshape(table.shape).mean(axis=0)
    assert weight[4:].max() < weight[:4].min()
    assert weight[4:].sum() < 1.5  # five copies count about as one


def test_one_annotator_or_one_item_has_no_voices() -> None:
    for table in ([[0]], [[0], [1]], [[0, 0, 0]], [[-1, -1], [-1, 0]]):
        assert find_voices(Annotations.from_dense(table, classes=[0, 1])).voices == ()


def test_annotations_of_weight_0_are_not_looked_at() -> None:
    table, _ = jury(0)
    a = Annotations.from_dense(table)
    silent = replace(a, weight=(a.annotator < 4).astype(np.float32))
    assert find_voices(silent).voices == ()

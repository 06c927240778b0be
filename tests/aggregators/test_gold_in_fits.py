"""Gold in the aggregators: known classes are kept, annotators are judged by them, and nothing is measured on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crowdprism.aggregators import AGGREGATORS, DawidSkene, OneCoin, blocks, make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.errors import CrowdprismWarning, InvalidParameterError
from crowdprism.results import FitResult
from crowdprism.simulate import one_coin, per_item, simulate_annotations

PLAIN = {"prior": "crowd", "prior_strength": 0.0, "tolerance": 0.0, "dependence": None}


def crowd(n_items: int = 120, seed: int = 0) -> Annotations:
    """Nine annotators of whom each item has six; without gold."""
    truth = np.random.default_rng(seed).integers(3, size=n_items)
    skills = one_coin(np.linspace(0.5, 0.9, 9), 3)
    return simulate_annotations(truth, skills, per_item(n_items, 9, labels=6), seed=seed).with_gold(None)


def contradicted(annotations: Annotations, n: int) -> dict[int, int]:
    """Gold of the first items: always another class than the vote."""
    votes = make_aggregator("majority-vote").fit(annotations).result_.class_probabilities.argmax(axis=1)
    return {item: int(votes[item] + 1) % 3 for item in range(n)}


def known_matrix(gold: dict[int, int], n_items: int) -> np.ndarray:
    rows = np.zeros((n_items, 3), dtype=bool)
    rows[list(gold)] = True
    rows[list(gold), list(gold.values())] = False
    return rows  # classes that are ruled out


@pytest.mark.parametrize("name", AGGREGATORS)
def test_items_with_gold_have_their_known_class_and_annotators_are_judged_by_it(name: str) -> None:
    a = crowd()
    gold = contradicted(a, 40)
    method = make_aggregator(name, **({"n_restarts": 2, "n_subtypes": 2} if name == "ebcc" else {}))
    result = method.fit(a.with_gold(gold)).result_
    assert (result.class_probabilities[range(40)] == np.eye(3)[list(gold.values())]).all()
    assert result.n_known == 40
    plain = method.fit(a).result_
    assert plain.n_known == 0
    if name not in ("mmsr",):  # its skills come from pairs of annotators alone
        learned = result.skills if result.confusions is None else result.confusions
        before = plain.skills if plain.confusions is None else plain.confusions
        assert np.abs(learned - before).max() > 0.01


@pytest.mark.parametrize("name", AGGREGATORS)
def test_without_use_gold_the_fit_is_that_of_annotations_without_gold(name: str) -> None:
    a = crowd()
    options = {"n_restarts": 2, "n_subtypes": 2} if name == "ebcc" else {}
    hidden = make_aggregator(name, use_gold=False, **options).fit(a.with_gold(contradicted(a, 40))).result_
    without = make_aggregator(name, **options).fit(a).result_
    assert (hidden.class_probabilities == without.class_probabilities).all()
    assert hidden.n_known == 0
    assert hidden.annotations is not None
    assert hidden.annotations.gold is not None


@pytest.mark.parametrize("compiled", [True, False])
def test_dawid_skene_with_gold_equals_a_plain_loop_with_these_items_fixed(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled and not blocks.COMPILED:
        pytest.skip("nothing was compiled")
    monkeypatch.setattr(blocks, "COMPILED", compiled)
    a = crowd(60)
    gold = contradicted(a, 20)
    table, ruled_out = a.to_dense(), known_matrix(gold, 60)
    votes = np.stack([(table == label).sum(axis=1) for label in range(3)], axis=1)
    posterior = votes / votes.sum(axis=1, keepdims=True)
    posterior[list(gold)] = np.eye(3)[list(gold.values())]
    likelihoods = []
    for _ in range(6):
        prior = posterior.mean(axis=0)
        counts = np.zeros((9, 3, 3))
        for item, annotator in zip(*np.nonzero(table >= 0), strict=True):
            counts[annotator, :, table[item, annotator]] += posterior[item]
        confusions = counts / counts.sum(axis=2, keepdims=True)
        joint = np.tile(prior, (60, 1))
        for item, annotator in zip(*np.nonzero(table >= 0), strict=True):
            joint[item] *= confusions[annotator, :, table[item, annotator]]
        joint[ruled_out] = 0.0
        likelihoods.append(np.log(joint.sum(axis=1)).sum())
        posterior = joint / joint.sum(axis=1, keepdims=True)
    result = DawidSkene(max_iter=6, **PLAIN).fit(a.with_gold(gold)).result_
    assert result.history["objective"] == pytest.approx(likelihoods, rel=1e-9)
    # The last M step is followed by one more E step, whose counts are the confusions of the result.
    once_less = DawidSkene(max_iter=5, **PLAIN).fit(a.with_gold(gold)).result_
    assert once_less.class_probabilities == pytest.approx(posterior, abs=1e-9)


@pytest.mark.parametrize("compiled", [True, False])
def test_one_coin_with_gold_equals_a_plain_loop_with_these_items_fixed(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled and not blocks.COMPILED:
        pytest.skip("nothing was compiled")
    monkeypatch.setattr(blocks, "COMPILED", compiled)
    a = crowd(60)
    gold = contradicted(a, 20)
    ruled_out = known_matrix(gold, 60)
    accuracy = np.full(9, 0.8)
    for _ in range(5):
        joint = np.ones((60, 3))
        for item, annotator, label in zip(a.item, a.annotator, a.label, strict=True):
            joint[item] *= np.where(np.arange(3) == label, accuracy[annotator], (1 - accuracy[annotator]) / 2)
        joint[ruled_out] = 0.0
        posterior = joint / joint.sum(axis=1, keepdims=True)
        right = np.bincount(a.annotator, posterior[a.item, a.label], 9)
        accuracy = right / np.bincount(a.annotator, minlength=9)
    method = OneCoin(max_iter=5, tolerance=0.0, prior_strength=0.0, initial_accuracy=0.8)
    assert method.fit(a.with_gold(gold)).result_.skills == pytest.approx(accuracy, abs=1e-9)


def test_gold_corrects_annotators_whom_the_crowd_believes() -> None:
    confusions = one_coin([0.85] * 2, 2)
    misled = np.repeat([[[0.9, 0.1], [0.8, 0.2]]], 4, axis=0)  # most annotators miss the second class
    accuracy = []
    for n_gold in (0, 20, 80):
        found = []
        for seed in range(4):
            truth = np.random.default_rng(seed).integers(2, size=400)
            a = simulate_annotations(truth, np.concatenate([confusions, misled]), per_item(400, 6, labels=5), seed=seed)
            shown = a.with_gold(None) if not n_gold else a.with_gold(None).with_gold(dict(enumerate(truth[:n_gold])))
            found.append((DawidSkene().fit(shown).result_.labels()[80:] == truth[80:]).mean())
        accuracy.append(float(np.mean(found)))
    assert accuracy[0] + 0.02 < accuracy[1]
    assert accuracy[1] <= accuracy[2] + 0.01


@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "mace", "ibcc", "glad"])
def test_the_objective_never_decreases_with_gold(name: str) -> None:
    a = crowd()
    result = make_aggregator(name).fit(a.with_gold(contradicted(a, 40))).result_
    objective, stage = np.array(result.history["objective"]), result.history.get("stage")
    same_round = np.ones(len(objective) - 1, dtype=bool) if stage is None else np.diff(stage) == 0
    assert (np.diff(objective)[same_round] >= -1e-9 * np.abs(objective[1:][same_round])).all()


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_gold_stands_against_hundreds_of_sure_annotators(
    weighted: bool, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "COMPILED", compiled and blocks.COMPILED)
    table = np.tile(np.arange(60)[:, None] % 2, (1, 400))
    a = Annotations.from_dense(table)
    if weighted:
        a = replace(a, weight=np.full(a.n_annotations, 0.5, dtype=np.float32))
    for name, options in (("dawid-skene", {"dependence": None}), ("one-coin", {}), ("mace", {"n_restarts": 1})):
        result = make_aggregator(name, **options).fit(a.with_gold({0: 1})).result_
        assert result.class_probabilities[0].tolist() == [0.0, 1.0]
        assert np.isfinite(result.history["objective"]).all()
        assert result.labels()[1:].tolist() == table[1:, 0].tolist()


@pytest.mark.parametrize("e_step", ["hard", "hybrid"])
def test_hard_steps_keep_gold(e_step: str) -> None:
    a = crowd()
    gold = contradicted(a, 40)
    result = DawidSkene(e_step=e_step).fit(a.with_gold(gold)).result_
    assert result.labels()[:40].tolist() == list(gold.values())


def test_gold_for_an_item_without_annotations_is_its_label() -> None:
    a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [-1, -1, -1], [0, 0, 0]] * 5).with_gold({2: 1})
    for name in ("majority-vote", "dawid-skene", "ibcc"):
        assert make_aggregator(name).fit(a).result_.class_probabilities[2].tolist() == [0.0, 1.0]


def test_further_annotations_and_gold_are_taken_up() -> None:
    a = crowd()
    gold = contradicted(a, 6)
    first, second = a[np.arange(60)].with_gold(gold), a[np.arange(60, 120)]
    method = DawidSkene(prior="crowd", tolerance=1e-10, max_iter=2000)
    parts = method.fit(second).partial_fit(first).result_
    whole = method.fit(a.with_gold(gold)).result_
    assert parts.n_known == 6
    assert parts.class_probabilities[np.argsort(parts.items)] == pytest.approx(whole.class_probabilities, abs=1e-3)


def test_a_class_prior_of_zero_contradicts_gold_of_that_class() -> None:
    a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [0, 0, 0]] * 5).with_gold({0: 1, 1: 1})
    with pytest.raises(InvalidParameterError, match=r"2 items have gold of a class whose share in class_prior is 0"):
        DawidSkene(class_prior=[1.0, 0.0]).fit(a)


def test_annotators_of_single_labels_are_judged_by_gold_alone() -> None:
    truth = np.arange(200) % 2
    label = np.where(np.arange(200) < 100, truth, 1 - truth)  # ann is right, bob is wrong
    a = Annotations.from_triplets(range(200), ["ann"] * 100 + ["bob"] * 100, label)
    gold = {item: int(truth[item]) for item in (*range(20), *range(100, 120))}
    result = DawidSkene().fit(a.with_gold(gold)).result_
    assert result.confusions is not None
    assert result.confusions[0, 0, 0] > 0.9
    assert result.confusions[1, 0, 0] < 0.3
    assert (result.labels()[120:] == label[120:]).all()  # labels stay votes
    nothing = DawidSkene().fit(a).result_.confusions
    assert nothing is not None
    assert nothing[0].tolist() == nothing[1].tolist()


# -- what is measured ---------------------------------------------------------------------------------------


def test_accuracy_is_measured_on_gold_that_the_fit_was_not_shown() -> None:
    a = crowd()
    gold = contradicted(a, 40)
    some = {item: gold[item] for item in range(20)}
    result = DawidSkene().fit(a.with_gold(some)).result_
    rest = {item: gold[item] for item in range(20, 40)}
    assert result.accuracy(gold) == result.accuracy(rest) < 0.5
    with pytest.raises(InvalidParameterError, match=r"shown the gold of all these items.*use_gold=False"):
        result.accuracy(some)
    assert DawidSkene(use_gold=False).fit(a.with_gold(some)).result_.accuracy(some) == 0.0


def test_the_blind_result_is_that_of_the_same_method_without_gold() -> None:
    a = crowd()
    shown = a.with_gold(contradicted(a, 40))
    result = make_aggregator("glad", max_iter=7).fit(shown).result_
    without = make_aggregator("glad", max_iter=7).fit(a).result_
    assert (result.blind.class_probabilities == without.class_probabilities).all()
    assert without.blind is without


def test_confidence_rests_on_labels_that_have_not_seen_the_gold() -> None:
    a = crowd()
    shown = a.with_gold(contradicted(a, 40))
    used, hidden = (DawidSkene(use_gold=use).fit(shown).result_ for use in (True, False))
    assert used.account is not None
    assert hidden.account is not None
    # All 40 answers contradict the votes, so the others are hardly to be trusted, whatever was done with the 40.
    without = DawidSkene().fit(a).result_.confidence
    assert without is not None
    for account in (used.account, hidden.account):
        assert account.confidence[40:].mean() < without[40:].mean() - 0.2
    assert used.account.confidence[:40].tolist() == [1.0] * 40
    assert hidden.account.confidence[:40].tolist() == [0.0] * 40


def test_gold_for_every_item_leaves_nothing_to_find_and_says_so() -> None:
    a = Annotations.from_dense([[0, 0, 1], [1, 1, 0], [-1, -1, -1]] * 5)
    every = a.with_gold({item: 0 for item in range(15) if item % 3 < 2})
    with pytest.warns(CrowdprismWarning, match=r"Every annotated item has gold"):
        result = DawidSkene().fit(every).result_
    assert any("Every annotated item" in note for note in result.warnings)


def test_a_saved_result_remembers_which_items_were_known(tmp_path: Path) -> None:
    a = crowd()
    gold = contradicted(a, 3)
    folder = DawidSkene().fit(a.with_gold(gold)).result_.save(tmp_path / "run")
    loaded = FitResult.load(folder)
    assert loaded.known_items is not None
    assert loaded.known_items.tolist() == [0, 1, 2]
    with pytest.raises(InvalidParameterError):
        loaded.accuracy(gold)
    again = replace(loaded, annotations=a.with_gold(gold))
    assert (again.blind.class_probabilities == DawidSkene().fit(a).result_.class_probabilities).all()

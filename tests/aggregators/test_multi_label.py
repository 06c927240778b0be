from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import make_aggregator
from crowdprism.aggregators.multi_label import fit_choices, shared_centres
from crowdprism.annotations.choice_sets import MultiLabelAnnotations


def crowd(
    seed: int, *, n_items: int = 300, n_annotators: int = 25, n_choices: int = 8
) -> tuple[MultiLabelAnnotations, np.ndarray]:
    """Rare and frequent choices; annotators differ in skill, the same for all choices but for a little."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n_items, n_choices)) < np.exp(rng.uniform(np.log(0.02), np.log(0.4), n_choices))
    finds, spares = rng.normal(1.3, 1.0, n_annotators), rng.normal(3.0, 1.0, n_annotators)
    hard = rng.normal(0, 0.6, (2, n_choices))
    items, people, chosen = [], [], []
    for item in range(n_items):
        for person in rng.choice(n_annotators, 4, replace=False):
            logit = np.where(truth[item], finds[person] + hard[0], -spares[person] - hard[1])
            ticked = rng.random(n_choices) < 1 / (1 + np.exp(-logit))
            items.append(item)
            people.append(int(person))
            chosen.append(np.flatnonzero(ticked).tolist())
    found = MultiLabelAnnotations.from_triplets(items, people, chosen, choices=list(range(n_choices)))
    return found, truth


def f1(probabilities: np.ndarray, truth: np.ndarray) -> float:
    found = probabilities > 0.5
    return float(2 * (found & truth).sum() / (found.sum() + truth.sum()))


def test_choices_that_share_what_they_know_of_annotators_beat_choices_alone_and_votes() -> None:
    scores = []
    for seed in range(4):
        annotations, truth = crowd(seed)
        fits = [fit_choices(annotations, shared_prior=share) for share in (True, False)]
        votes = np.stack([problem.to_dense() for _, problem in annotations], axis=2)
        shares = np.where(votes == 1, 1, 0).sum(axis=1) / (votes >= 0).sum(axis=1)
        scores.append([*(f1(fit.probabilities, truth) for fit in fits), f1(shares, truth)])
    shared, alone, vote = np.mean(scores, axis=0)
    assert shared > alone + 0.003
    assert alone > vote


def test_without_a_shared_prior_each_choice_is_the_fit_of_its_own_problem() -> None:
    annotations, _ = crowd(0, n_items=60)
    for method in ("majority-vote", "one-coin"):
        found = fit_choices(annotations, method)
        alone = make_aggregator(method).fit(annotations.of(3)).result_
        assert found.results[3].class_probabilities == pytest.approx(alone.class_probabilities)


def test_one_choice_has_nothing_to_share() -> None:
    annotations = MultiLabelAnnotations.from_triplets([1, 1, 2, 2], ["a", "b"] * 2, [["x"], ["x"], [], []])
    found = fit_choices(annotations)
    assert found.labels() == [("x",), ()]
    assert found.probabilities.shape == (2, 1)


def test_row_order_and_names_do_not_matter() -> None:
    annotations, _ = crowd(1, n_items=80)
    sets, turn = annotations.sets, np.random.default_rng(0).permutation(annotations.sets.n_annotations)
    chosen = [np.flatnonzero(annotations.members[code]).tolist() for code in sets.label[turn]]
    again = MultiLabelAnnotations.from_triplets(
        sets.item[turn], sets.annotator[turn], chosen, choices=annotations.choices.tolist()
    )
    assert np.array_equal(fit_choices(again).probabilities, fit_choices(annotations).probabilities)


def test_an_annotator_with_few_answers_is_centred_at_the_choice() -> None:
    annotations, _ = crowd(2)
    problems = dict(annotations)
    results = {choice: make_aggregator("majority-vote").fit(problem).result_ for choice, problem in problems.items()}
    centres = shared_centres(problems, results)
    assert centres.shape == (25, 8, 2)
    assert ((centres > 0) & (centres < 1)).all()
    assert centres[:, :, 1].mean(axis=1).std() > 0.05  # annotators differ in what they find

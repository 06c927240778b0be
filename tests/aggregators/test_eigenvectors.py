"""Eigenvector methods against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.aggregators import Eigenvector, EigenvectorRatio, MajorityVote
from crowdprism.annotations import Annotations
from crowdprism.simulate import hammer_spammer, one_coin, per_item, simulate_annotations


def crowd(confusions: np.ndarray, *, n_items: int, labels: int) -> tuple[Annotations, np.ndarray]:
    n_annotators, n_classes = confusions.shape[:2]
    truth = np.random.default_rng(0).integers(n_classes, size=n_items)
    pairs = per_item(n_items, n_annotators, labels=labels, share=np.linspace(1, 3, n_annotators))
    return simulate_annotations(truth, confusions, pairs).with_gold(None), truth


def signed(a: Annotations) -> np.ndarray:
    """Signed labels minus each annotator's mean; 0 where there is no label."""
    table = a.to_dense()
    signs = np.where(table < 0, np.nan, 2.0 * table - 1)
    return np.nan_to_num(signs - np.nanmean(signs, axis=0))


def leading(matrix: np.ndarray) -> np.ndarray:
    vector = np.linalg.eigh(matrix)[1][:, -1]
    return vector * np.sign((vector * np.abs(vector)).sum())


def test_skills_are_the_leading_singular_vector_of_the_signed_table() -> None:
    a, _ = crowd(one_coin([0.9, 0.8, 0.7, 0.6, 0.2], 2), n_items=80, labels=3)
    skills = Eigenvector(iterations=5000, tolerance=1e-13).fit(a).result_.skills
    expected = leading(signed(a).T @ signed(a))
    assert skills / np.linalg.norm(skills) == pytest.approx(expected, abs=1e-6)


def test_skills_are_the_ratio_of_the_eigenvectors_of_agreement_and_of_shared_items() -> None:
    a, _ = crowd(one_coin([0.9, 0.8, 0.7, 0.6, 0.2], 2), n_items=80, labels=3)
    skills = EigenvectorRatio(iterations=5000, tolerance=1e-13).fit(a).result_.skills
    there = (a.to_dense() >= 0).astype(float)
    agreement, shared = signed(a).T @ signed(a), there.T @ there
    np.fill_diagonal(agreement, 0)
    np.fill_diagonal(shared, 0)
    expected = leading(agreement) / leading(shared)
    assert skills / np.linalg.norm(skills) == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)


def test_the_ratio_estimates_twice_the_accuracy_minus_one_however_much_annotators_label() -> None:
    accuracy = np.tile([0.95, 0.6, 0.8, 0.7, 0.9], 8)
    a, _ = crowd(one_coin(accuracy, 2), n_items=6000, labels=15)
    skills = EigenvectorRatio().fit(a).result_.skills
    assert skills / skills.mean() == pytest.approx((2 * accuracy - 1) / (2 * accuracy - 1).mean(), abs=0.1)


@pytest.mark.parametrize("method", [Eigenvector, EigenvectorRatio])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_spammers_lose_their_vote(method: type, n_classes: int) -> None:
    a, truth = crowd(hammer_spammer(60, n_classes, hammer_share=0.4), n_items=800, labels=7)
    found = {kind: float((kind().fit(a).result_.labels() == truth).mean()) for kind in (method, MajorityVote)}
    assert found[method] > found[MajorityVote] + 0.03


@pytest.mark.parametrize("method", [Eigenvector, EigenvectorRatio])
def test_annotators_who_always_say_the_same_are_not_believed(method: type) -> None:
    truth = np.random.default_rng(3).integers(2, size=200)
    noisy = np.where(np.random.default_rng(4).random((200, 4)) < 0.25, 1 - truth[:, None], truth[:, None])
    table = np.concatenate([noisy, np.ones((200, 5), dtype=int)], axis=1)
    assert (method().fit(Annotations.from_dense(table)).result_.labels() == truth).mean() > 0.8


@pytest.mark.parametrize("method", [Eigenvector, EigenvectorRatio])
def test_parts_of_the_crowd_are_solved_as_if_each_were_alone(method: type) -> None:
    left = np.random.default_rng(1).integers(2, size=(30, 3))
    right = np.random.default_rng(2).integers(2, size=(40, 4))
    joined = np.full((70, 7), -1)
    joined[:30, :3], joined[30:, 3:] = left, right
    apart = [method(tolerance=1e-12).fit(Annotations.from_dense(part)).result_.labels() for part in (left, right)]
    together = method(tolerance=1e-12).fit(Annotations.from_dense(joined)).result_.labels()
    assert together.tolist() == np.concatenate(apart).tolist()

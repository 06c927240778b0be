"""What training starts from: votes and annotators' first confusions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.annotations import Annotations
from crowdprism.classifiers import AggNet, make_classifier
from crowdprism.classifiers.starting_values import (
    STARTS,
    item_votes,
    shrunk_confusions,
    start_confusions,
    vote_class_shares,
    vote_targets,
)
from crowdprism.errors import CrowdprismWarning

TABLE = Annotations.from_dense([[0, 0, 1], [1, -1, -1], [-1, -1, -1], [0, 0, -1]])


def test_votes_are_shares_and_even_without_annotations() -> None:
    assert np.allclose(item_votes(TABLE), [[2 / 3, 1 / 3], [0, 1], [0.5, 0.5], [1, 0]])
    assert np.allclose(vote_class_shares(TABLE), [5 / 9, 4 / 9])  # of the three annotated items


def test_targets_cover_unlabelled_items_and_only_annotated_ones_are_trained_on() -> None:
    prepared = AggNet().prepare(np.eye(4), TABLE, X_unlabelled=np.ones((1, 4)))
    targets, used = vote_targets(prepared.problem)
    assert torch.allclose(targets[[1, 2, 4]], torch.tensor([[0, 1], [0.5, 0.5], [0.5, 0.5]]))
    assert used.tolist() == [True, True, False, True, False]


@pytest.mark.parametrize("start", STARTS)
def test_every_start_has_finite_logits_and_rows_that_sum_to_one(start: str) -> None:
    confusions = start_confusions(start, TABLE, diagonal=0.7)
    assert confusions.shape == (3, 2, 2)
    assert bool(confusions.log().isfinite().all())
    assert torch.allclose(confusions.sum(dim=2), torch.ones(3, 2))


def test_an_annotator_without_labels_starts_as_the_crowd() -> None:
    with_silent = Annotations.from_dense([[0, -1], [1, -1]], annotator_names=["ann", "bob"])
    ann, bob = shrunk_confusions(with_silent, np.eye(2))
    # Counts 1 on the diagonal and 0 beside it, each joined by half a label from each of the two annotators.
    assert np.allclose(bob, [[2 / 3, 1 / 3], [1 / 3, 2 / 3]])
    assert np.allclose(ann[0], (np.array([1, 0]) + 4 * bob[0]) / 5)


@pytest.mark.parametrize(
    ("name", "mended"),
    [("geocrowdnet-f", {"regularizer": None}), ("max-mig", {"prior": "votes"}), ("coinnet", {"strength": 0.0})],
)
def test_methods_that_favour_even_classes_warn_where_votes_are_not(name: str, mended: dict[str, Any]) -> None:
    X = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    table = np.repeat((np.arange(100)[:, None] % 20 == 0).astype(int), 2, axis=1)
    params = {"epochs": 1, "input_noise": 0.0, "temperature": 1.0}
    with pytest.warns(CrowdprismWarning, match="class 1 has 5.0% of the votes.*rare classes may be predicted"):
        make_classifier(name, **params).fit(X, table)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CrowdprismWarning)
        make_classifier(name, **{**params, **mended}).prepare(X, table)

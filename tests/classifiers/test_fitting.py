"""The training problem, and what is measured after each epoch."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from crowdprism.annotations import Annotations
from crowdprism.classifiers import AggNet, make_classifier
from crowdprism.classifiers.fitting import (
    STARTS,
    NetworkPlan,
    Validation,
    item_votes,
    make_validation,
    shrunk_confusions,
    start_confusions,
    try_network,
    vote_class_shares,
    vote_targets,
)
from crowdprism.errors import CrowdprismWarning, InvalidParameterError

sys.path.insert(0, str(Path(__file__).parent))
import crowds
from crowds import quick, small

pytestmark = pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")


@pytest.mark.parametrize("selection", ["annotations", "clean"])
def test_the_selected_epoch_is_the_best_of_the_history(selection: str) -> None:
    problem = small()
    clean = {"X_valid": problem.X_test, "y_valid": problem.truth_test} if selection == "clean" else {}
    model = quick(selection=selection, epochs=12).fit(problem.X, problem.annotations, **clean)
    figures = model.result_.history["validation"]
    assert figures[model.best_epochs_[0]] == max(figures)
    if selection == "clean":
        assert model.score(problem.X_test, problem.truth_test) == pytest.approx(max(figures))


def test_clean_selection_needs_clean_labels() -> None:
    with pytest.raises(InvalidParameterError, match="needs X_valid and y_valid"):
        quick(selection="clean").fit(np.eye(2), [[0], [1]])
    with pytest.raises(InvalidParameterError, match="not classes: 'z'"):
        quick(selection="clean").fit(np.eye(2), [[0], [1]], X_valid=np.eye(2)[:1], y_valid=["z"])


def test_the_figure_is_the_accuracy_where_true_classes_are_known() -> None:
    truth = np.array([0, 1, 2, 2])
    probs = np.eye(3)[[0, 1, 2, 0]]
    assert Validation(None, truth, None, small().annotations).figure(probs, None) == 0.75


def test_the_figure_of_held_out_annotations_is_their_mean_log_likelihood() -> None:
    problem = small()
    kept, held_out = problem.annotations.split_annotations(0.3, 0)
    probs = np.random.default_rng(0).dirichlet(np.ones(3), size=300)
    each = [
        np.log(probs[i] @ problem.confusions[m, :, y])
        for i, m, y in zip(held_out.item, held_out.annotator, held_out.label, strict=True)
    ]
    figure = Validation(None, None, held_out, kept).figure(probs, problem.confusions)
    assert figure == pytest.approx(np.mean(each))


def test_held_out_annotations_are_not_trained_on() -> None:
    annotations = small().annotations
    validation, kept = make_validation("annotations", annotations, None, None, fraction=0.25, seed=0)
    assert validation is not None
    assert validation.held_out is not None
    assert kept.n_annotations + validation.held_out.n_annotations == annotations.n_annotations
    assert validation.training is kept
    assert make_validation("last", annotations, None, None, fraction=0.25, seed=0) == (None, annotations)


@pytest.mark.parametrize(
    ("selection", "given", "message"),
    [
        ("last", {"X_valid": np.eye(2)}, "give both or neither"),
        ("last", {"X_valid": np.eye(2), "y_valid": [0]}, "X_valid has 2 items but y_valid has 1"),
        ("clean", {"X_valid": np.eye(2), "y_valid": Annotations.from_dense([[0], [1]])}, "not annotations"),
        ("annotations", {}, r"2 annotations are too few to hold out a share of 0\.1"),
    ],
)
def test_validation_data_that_cannot_be_used_are_refused(selection: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        quick(selection=selection).fit(np.eye(2), [[0], [1]], **given)


def test_a_method_without_confusions_cannot_select_by_annotations() -> None:
    with pytest.raises(InvalidParameterError, match="selection='clean' or 'last'") as raised:
        Validation(None, None, small().annotations, small().annotations).figure(np.ones((300, 3)) / 3, None)
    assert raised.value.parameter == "selection"


@pytest.mark.parametrize(("n_items", "batch_size"), [(20, 8), (300, 30), (3000, 64)])
def test_automatic_batches_are_a_tenth_of_the_items_within_limits(n_items: int, batch_size: int) -> None:
    problem = crowds.specialists(0, n_items=n_items)
    prepared = quick().prepare(problem.X, problem.annotations)
    assert prepared.problem.batch_size == batch_size
    assert prepared.problem.plan("auto").architecture == "mlp"


def test_targets_of_unlabelled_items_are_even_and_not_trained_on() -> None:
    problem = small()
    prepared = quick().prepare(problem.X, problem.annotations, X_unlabelled=problem.X_test[:2])
    targets, used = prepared.problem.item_targets(np.eye(3)[problem.truth], np.ones(300, dtype=bool))
    assert targets[300:].tolist() == [[1 / 3] * 3] * 2
    assert used.tolist() == [True] * 300 + [False] * 2


def test_a_network_is_tried_and_left_in_the_mode_it_had() -> None:
    network = nn.Linear(4, 3).train()
    try_network(network, NetworkPlan("mine", (4,), n_annotators=1, n_classes=3))
    assert network.training
    with pytest.raises(InvalidParameterError, match=r"does not accept items of shape \(5,\)") as raised:
        try_network(network, NetworkPlan("mine", (5,), n_annotators=1, n_classes=3))
    assert raised.value.parameter == "network"
    with pytest.raises(InvalidParameterError, match=r"returns shape \(2, 3\)"):
        try_network(network, NetworkPlan("mine", (4,), n_annotators=1, n_classes=7, device=torch.device("cpu")))


def test_training_on_gold_of_every_item_is_warned_of() -> None:
    X, table = np.eye(2).repeat(3, axis=0), np.repeat([[0, 0], [1, 1]], 3, axis=0)
    known = Annotations.from_dense(table).with_gold(dict.fromkeys(range(6), 0))
    with pytest.warns(CrowdprismWarning, match="Every annotated item has gold"):
        quick(epochs=1).fit(X, known)


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

"""Predictions of trained networks, evidence of annotators and the order of classes, against plain loops."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.annotations import Annotations
from crowdprism.classifiers.posterior import (
    SMALLEST,
    agreement,
    examine_alignment,
    log_evidence,
    mean_class_probs,
    mean_log_likelihood,
    posterior,
)
from crowdprism.errors import InvalidParameterError

sys.path.insert(0, str(Path(__file__).parent))
from crowds import quick, small

pytestmark = pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")


def test_predictions_in_another_class_order_are_found_and_mended() -> None:
    problem = small()
    truth = np.eye(3)[problem.truth]
    order = np.array([2, 0, 1])
    mixed = np.argsort(order)
    alignment = examine_alignment(truth[:, mixed], problem.confusions[:, mixed], problem.annotations)
    assert alignment.order.tolist() == order.tolist()
    assert alignment.permuted
    assert alignment.aligned_agreement == agreement(truth, problem.annotations)
    assert alignment.plain_agreement < alignment.aligned_agreement - 0.01
    right = examine_alignment(truth, problem.confusions, problem.annotations)
    assert not right.permuted
    assert right.plain_agreement == right.aligned_agreement


def test_a_permutation_without_confusions_is_found_from_predictions_and_labels() -> None:
    problem = small()
    mixed = np.eye(3)[problem.truth][:, [1, 2, 0]]
    assert examine_alignment(mixed, None, problem.annotations).order.tolist() == [2, 0, 1]


def test_heads_are_averaged() -> None:
    problem = small()
    model = quick(n_heads=2).fit(problem.X, problem.annotations)
    both = model.predict_proba(problem.X)
    each = []
    predictor = model.predictor_
    for member in predictor.members:
        model.predictor_ = replace(predictor, members=(member,))
        each.append(model.predict_proba(problem.X))
    assert np.allclose(both, np.mean(each, axis=0), atol=1e-6)


def test_the_posterior_is_the_classifier_times_the_evidence() -> None:
    problem = small()
    model = quick(loss="joint", evidence_temper=1.0).fit(problem.X, problem.annotations)
    slow = model.predict_proba(problem.X)
    for i, m, y in zip(problem.annotations.item, problem.annotations.annotator, problem.annotations.label, strict=True):
        slow[i] *= model.confusions_[m, :, y]
    slow /= slow.sum(axis=1, keepdims=True)
    assert np.allclose(model.label_posterior(problem.X, problem.annotations), slow, atol=1e-6)
    assert np.allclose(model.result_.class_probabilities, slow, atol=1e-6)


def test_an_annotator_never_seen_has_the_confusion_of_the_average_label() -> None:
    problem = small()
    model = quick(loss="ccem").fit(problem.X, problem.annotations)
    new = Annotations.from_triplets([0], ["a stranger"], [1], classes=[0, 1, 2])
    weights = problem.annotations.labels_per_annotator / problem.annotations.n_annotations
    column = np.einsum("m,mk->k", weights, model.confusions_[:, :, 1])
    expected = model.predict_proba(problem.X[:1])[0] * column
    assert np.allclose(model.label_posterior(problem.X[:1], new)[0], expected / expected.sum(), atol=1e-6)


def test_the_annotation_score_is_the_mean_log_likelihood() -> None:
    problem = small()
    model = quick().fit(problem.X, problem.annotations)
    probs, a = model.predict_proba(problem.X), problem.annotations
    each = np.log((probs[a.item] * model.confusions_[a.annotator, :, a.label]).sum(axis=1))
    assert model.annotation_score(problem.X, a) == pytest.approx(each.mean(), abs=1e-6)
    assert model.score(problem.X, a) == model.annotation_score(problem.X, a)
    assert model.score(problem.X, problem.truth) == (model.predict(problem.X) == problem.truth).mean()


def test_the_exported_module_gives_the_models_probabilities() -> None:
    problem = small()
    model = quick(n_heads=2).fit(problem.X, problem.annotations)
    module = model.to_module()
    with torch.no_grad():
        assert np.allclose(module(torch.from_numpy(problem.X)).numpy(), model.predict_proba(problem.X), atol=1e-5)


def test_evidence_posterior_and_likelihood_equal_plain_loops_with_weights_and_temper() -> None:
    problem = small()
    random = np.random.default_rng(0)
    a = replace(problem.annotations, weight=random.uniform(0.5, 2.0, problem.annotations.n_annotations))
    probs = random.dirichlet(np.ones(3), size=a.n_items)
    columns = log_evidence(a, problem.confusions, a)
    totals = np.zeros(a.n_items)
    np.add.at(totals, a.item, a.weight)
    slow, likelihood = np.log(probs), 0.0
    for place, (i, m, y, w) in enumerate(zip(a.item, a.annotator, a.label, a.weight, strict=True)):
        column = problem.confusions[m, :, y]
        assert np.allclose(columns[place], np.log(np.maximum(column, SMALLEST)))
        slow[i] += np.log(column) * w * max(totals[i], 1.0) ** (0.3 - 1.0)
        likelihood += w * np.log((probs[i] * column).sum())
    slow = np.exp(slow) / np.exp(slow).sum(axis=1, keepdims=True)
    assert np.allclose(posterior(probs, a, columns, temper=0.3), slow)
    assert mean_log_likelihood(probs, a, columns) == pytest.approx(likelihood / a.weight.sum())


def test_classes_are_matched_by_name_whatever_their_order() -> None:
    known = Annotations.from_triplets([0, 1], ["ann", "ann"], ["cat", "dog"], classes=["cat", "dog"])
    later = Annotations.from_triplets([0], ["ann"], ["dog"], classes=["dog", "cat"])
    confusions = np.array([[[0.9, 0.1], [0.3, 0.7]]])
    assert np.allclose(log_evidence(later, confusions, known), np.log([[0.1, 0.7]]))


def test_the_mean_of_networks_has_rows_that_sum_to_one() -> None:
    parts = [np.array([[0.2, 0.6]]), np.array([[0.4, 0.4]])]
    assert np.allclose(mean_class_probs(parts), [[0.375, 0.625]])


def test_noise_between_two_classes_nobody_can_tell_apart_changes_no_order() -> None:
    problem: Any = small()
    blurred = problem.confusions.copy()
    blurred[:, 1:] = blurred[:, 1:].mean(axis=1, keepdims=True)
    probs = np.eye(3)[problem.truth]
    assert not examine_alignment(probs, blurred, problem.annotations).permuted


def test_annotators_of_one_voice_count_once_in_the_label_posterior() -> None:
    problem = small()
    a = problem.annotations
    model = quick(dependence=[[0, 1]], evidence_temper=1.0).fit(problem.X, a)
    assert model.result_.voices == ((0, 1),)
    assert "answer as one" in model.result_.warnings[-1]
    log = np.log(np.maximum(model.predict_proba(problem.X), SMALLEST))
    for i in range(a.n_items):
        rows = np.flatnonzero(a.item == i)
        of_voice = np.isin(a.annotator[rows], (0, 1))
        for row, together in zip(rows, of_voice, strict=True):
            share = 1 / of_voice.sum() if together else 1.0
            log[i] += share * np.log(model.confusions_[a.annotator[row], :, a.label[row]])
    slow = np.exp(log - log.max(axis=1, keepdims=True))
    assert np.allclose(model.label_posterior(problem.X, a), slow / slow.sum(axis=1, keepdims=True), atol=1e-5)


def test_independent_annotators_of_a_classifier_have_no_voices() -> None:
    problem = small()
    found, plain = (quick(dependence=wanted).fit(problem.X, problem.annotations) for wanted in ("auto", None))
    assert found.result_.voices == ()
    assert np.array_equal(found.result_.class_probabilities, plain.result_.class_probabilities)


def test_an_unknown_name_of_a_voice_is_an_error_before_training() -> None:
    problem = small()
    with pytest.raises(InvalidParameterError, match="'zoe'"):
        quick(dependence=[[0, "zoe"]], callbacks=[lambda _: pytest.fail("trained")]).fit(problem.X, problem.annotations)

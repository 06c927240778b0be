"""AggNet's E and M steps against slow loops; Raykar's EM against exact logistic regressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from crowdprism.annotations import Annotations
from crowdprism.classifiers import AggNet, Raykar, TwoStage
from crowdprism.classifiers.aggnet import ExpectationHead
from crowdprism.networks import EpochView
from crowdprism.results.confusion import confusion_counts, normalize_rows
from crowdprism.seeding import stream
from crowdprism.simulate import one_coin, per_item, simulate_annotations

SMALL: dict[str, Any] = {
    "epochs": 6,
    "network_options": {"hidden": (16,)},
    "learning_rate": 0.01,
    "input_noise": 0.0,
    "temperature": 1.0,
}


def view_of(crowd: Any, log_class_probs: torch.Tensor, epoch: int = 0) -> EpochView:
    batch = crowd.batch()
    return EpochView(
        epoch, batch.item, batch.annotator, batch.label, None, torch.nn.Identity(), lambda: log_class_probs
    )


def head_of(crowd: Any, confusions: torch.Tensor, **options: Any) -> ExpectationHead:
    votes = torch.full((len(crowd.truth), 3), 1 / 3)
    chosen: dict[str, Any] = {"epochs_per_round": 1, "smoothing": 0.0, "smallest": 1e-6} | options
    return ExpectationHead(AggNet(**chosen), votes, torch.ones(len(votes), dtype=torch.bool), confusions)


def test_one_round_equals_the_formulas_item_by_item(crowd: Any) -> None:
    confusions = torch.softmax(2 * torch.eye(3).expand(5, -1, -1), dim=2)
    head = head_of(crowd, confusions)
    log_probs = crowd.log_class_probs()
    head.end_epoch(view_of(crowd, log_probs))
    batch = crowd.batch()
    posterior = log_probs.exp().double().clone()
    for item, annotator, label in zip(batch.item, batch.annotator, batch.label, strict=True):
        posterior[item] *= confusions[annotator, :, label]
    posterior /= posterior.sum(dim=1, keepdim=True)
    assert torch.allclose(head.targets.double(), posterior, atol=1e-6)
    counted = normalize_rows(confusion_counts(crowd.annotations, posterior.numpy()))
    assert np.allclose(head.confusions().numpy(), counted, atol=1e-5)  # type: ignore[union-attr]


def test_targets_stay_between_rounds(crowd: Any) -> None:
    head = head_of(crowd, torch.softmax(torch.eye(3).expand(5, -1, -1), dim=2), epochs_per_round=2)
    before = head.targets.clone()
    head.end_epoch(view_of(crowd, crowd.log_class_probs(), epoch=0))
    assert torch.equal(head.targets, before)
    head.end_epoch(view_of(crowd, crowd.log_class_probs(), epoch=1))
    assert not torch.equal(head.targets, before)


def test_an_overconfident_network_does_not_silence_the_annotators(crowd: Any) -> None:
    sure = torch.log_softmax(1000 * torch.eye(3)[torch.zeros(len(crowd.truth), dtype=torch.long)], dim=1)
    confusions = torch.full((5, 3, 3), 5e-5)
    confusions[:, torch.arange(3), torch.arange(3)] = 1 - 1e-4
    head = head_of(crowd, confusions, smallest=1e-3)
    head.end_epoch(view_of(crowd, sure))
    both_say_two = np.flatnonzero(
        [set(crowd.annotations.label[crowd.annotations.item == n]) == {2} for n in range(len(crowd.truth))]
    )
    assert bool((head.targets[both_say_two].argmax(dim=1) == 2).all())


def test_on_perfect_labels_it_is_plain_training(perfect_crowd: Any) -> None:
    crowd = perfect_crowd
    model = AggNet(smoothing=0.0, smallest=1e-9, **SMALL).fit(crowd.features, crowd.annotations)
    plain = TwoStage(**SMALL).fit(crowd.features, crowd.annotations)
    assert np.allclose(model.predict_proba(crowd.features), plain.predict_proba(crowd.features), atol=1e-4)


def test_the_posterior_of_the_result_is_an_e_step(crowd: Any) -> None:
    model = AggNet(**SMALL).fit(crowd.features, crowd.annotations)
    probs = model.predict_proba(crowd.features)
    expected = probs.copy()
    a = crowd.annotations
    for item, annotator, label in zip(a.item, a.annotator, a.label, strict=True):
        expected[item] *= model.confusions_[annotator, :, label]
    expected /= expected.sum(axis=1, keepdims=True)
    assert model.result_.class_probabilities == pytest.approx(expected, abs=1e-5)


# -- Raykar -------------------------------------------------------------------------------------------------


def binary_crowd() -> tuple[Any, Annotations, Any]:
    random = stream(0, "raykar")
    features = random.normal(size=(400, 2))
    truth = (features @ [1.0, -1.0] + 0.7 * random.normal(size=400) > 0).astype(int)
    crowd = one_coin(np.array([0.9, 0.8, 0.7, 0.6]), 2)
    return features, simulate_annotations(truth, crowd, per_item(400, 4, labels=3)).with_gold(None), truth


def slow_em(features: Any, annotations: Annotations, rounds: int = 100) -> tuple[Any, Any, Any]:
    """Sensitivity and specificity as in the paper; the regression is solved to the end in each round."""
    a = annotations
    share = np.bincount(a.item, weights=a.label, minlength=a.n_items) / np.bincount(a.item, minlength=a.n_items)
    mu = share
    for _ in range(rounds):
        sensitivity = np.array(
            [np.average(a.label[a.annotator == m], weights=mu[a.item[a.annotator == m]]) for m in range(4)]
        )
        specificity = np.array(
            [np.average(1 - a.label[a.annotator == m], weights=1 - mu[a.item[a.annotator == m]]) for m in range(4)]
        )
        regression = LogisticRegression(C=1e3)
        regression.fit(
            np.concatenate([features, features]),
            np.repeat([1, 0], len(features)),
            sample_weight=np.concatenate([mu, 1 - mu]),
        )
        p = regression.predict_proba(features)[:, 1]
        ones, zeros = np.ones(len(p)), np.ones(len(p))
        np.multiply.at(ones, a.item, np.where(a.label == 1, sensitivity[a.annotator], 1 - sensitivity[a.annotator]))
        np.multiply.at(zeros, a.item, np.where(a.label == 0, specificity[a.annotator], 1 - specificity[a.annotator]))
        mu = ones * p / (ones * p + zeros * (1 - p))
    return sensitivity, specificity, p


def test_it_reaches_the_fixed_point_of_the_exact_em() -> None:
    features, annotations, _ = binary_crowd()
    sensitivity, specificity, p = slow_em(features, annotations)
    model = Raykar(epochs=100, weight_decay=0.0, smoothing=0.0, standardize=True, input_noise=0.0, temperature=1.0).fit(
        features, annotations
    )
    assert np.allclose(model.confusions_[:, 1, 1], sensitivity, atol=0.02)
    assert np.allclose(model.confusions_[:, 0, 0], specificity, atol=0.02)
    assert np.abs(model.predict_proba(features)[:, 1] - p).mean() < 0.02


def test_sensitivity_and_specificity_are_near_the_simulated_skills() -> None:
    features, annotations, _ = binary_crowd()
    model = Raykar(epochs=60, input_noise=0.0, temperature=1.0).fit(features, annotations)
    assert np.allclose(model.confusions_.diagonal(axis1=1, axis2=2).mean(axis=1), [0.9, 0.8, 0.7, 0.6], atol=0.08)

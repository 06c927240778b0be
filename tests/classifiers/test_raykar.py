"""Raykar's EM against an independent implementation with exact logistic regressions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from crowdprism.annotations import Annotations
from crowdprism.classifiers import Raykar
from crowdprism.seeding import stream
from crowdprism.simulate import one_coin, per_item, simulate_annotations


def binary_crowd() -> tuple[Any, Annotations, Any]:
    random = stream(0, "raykar")
    features = random.normal(size=(400, 2))
    truth = (features @ [1.0, -1.0] + 0.7 * random.normal(size=400) > 0).astype(int)
    crowd = one_coin(np.array([0.9, 0.8, 0.7, 0.6]), 2)
    return features, simulate_annotations(truth, crowd, per_item(400, 4, labels=3)), truth


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
    model = Raykar(epochs=100, weight_decay=0.0, smoothing=0.0).fit(features, annotations)
    assert np.allclose(model.confusions_[:, 1, 1], sensitivity, atol=0.02)
    assert np.allclose(model.confusions_[:, 0, 0], specificity, atol=0.02)
    assert np.abs(model.predict_proba(features)[:, 1] - p).mean() < 0.02


def test_sensitivity_and_specificity_are_near_the_simulated_skills() -> None:
    features, annotations, _ = binary_crowd()
    model = Raykar(epochs=60).fit(features, annotations)
    assert np.allclose(model.confusions_.diagonal(axis1=1, axis2=2).mean(axis=1), [0.9, 0.8, 0.7, 0.6], atol=0.08)

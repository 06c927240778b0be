"""GeoCrowdNet as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from crowdprism.annotations import Annotations
from crowdprism.classifiers import GeoCrowdNet

# Checks that cannot hold, and why.
EXPECTED_FAILURES = {
    "check_supervised_y_2d": "a 2-D y is a table of items x annotators here, not a column vector to be flattened",
    "check_sample_weight_equivalence_on_dense_data": "items are shuffled: repeats in another order train otherwise",
}


@parametrize_with_checks(
    [GeoCrowdNet(epochs=15, batch_size=16, learning_rate=0.01, regularizer=None, network_options={"dropout": 0.0})],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def problem() -> tuple[np.ndarray, Annotations, np.ndarray]:
    random = np.random.default_rng(0)
    truth = np.arange(90) % 3
    X = 5 + 100 * (np.eye(3)[truth] + 0.2 * random.normal(size=(90, 3)))
    table = np.where(random.random((90, 4)) < 0.8, truth[:, None], random.integers(0, 3, (90, 4)))
    return X, Annotations.from_dense(table), truth


PLAIN = {"input_noise": 0.0, "temperature": 1.0}  # nothing is held out


def quick(**parameters: Any) -> GeoCrowdNet:
    return GeoCrowdNet(**{"epochs": 3, "batch_size": 32, "network_options": {"hidden": (8,)}, **PLAIN, **parameters})


def test_clone_copies_all_parameters() -> None:
    model = quick(strength=0.3, regularizer="W", learning_rate=0.1)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy is not model
    assert {"regularizer", "epochs", "random_state"} <= set(copy.get_params())


def test_grid_search_on_annotations_chooses_by_held_out_likelihood() -> None:
    X, annotations, truth = problem()
    search = GridSearchCV(quick(), {"learning_rate": [1e-5, 3e-2]}, cv=KFold(2)).fit(X, annotations)
    assert search.best_params_ == {"learning_rate": 3e-2}
    assert search.best_score_ < 0  # a log-likelihood
    assert search.best_estimator_.predict(X).shape == truth.shape


def test_cross_validation_against_known_truth_uses_accuracy() -> None:
    X, _, truth = problem()
    scores = cross_val_score(quick(epochs=15, learning_rate=0.03), X, truth, cv=3)
    assert scores.mean() > 0.8


def test_a_pipeline_passes_annotations_through() -> None:
    X, annotations, truth = problem()
    pipeline = make_pipeline(StandardScaler(), quick(epochs=15, learning_rate=0.03)).fit(X, annotations)
    assert pipeline.score(X, truth) > 0.9
    assert pipeline.score(X, annotations) < 0


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(TypeError, match="epoch_count"):
        GeoCrowdNet(epoch_count=3)


def test_repr_shows_only_what_differs_from_the_defaults() -> None:
    assert repr(GeoCrowdNet(epochs=7, regularizer="F")) == "GeoCrowdNet(epochs=7, regularizer='F')"


def test_a_number_of_folds_splits_annotations_too() -> None:
    X, annotations, _ = problem()
    scores = cross_val_score(quick(), X, annotations, cv=3)
    assert len(scores) == 3
    assert np.isfinite(scores).all()
    search = GridSearchCV(quick(), {"learning_rate": [1e-5, 3e-2]}, cv=2).fit(X, annotations)
    assert search.best_params_ == {"learning_rate": 3e-2}

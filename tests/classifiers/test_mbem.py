"""MBEM: rounds, targets and its reduction to plain training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdprism.classifiers import MBEM, TwoStage
from crowdprism.confusion import confusion_counts, normalize_rows

SMALL = {"epochs": 20, "learning_rate": 0.01, "network_options": {"hidden": (16,)}}

STEADY = {"epochs": 20, "learning_rate": 0.02, "network_options": {"hidden": (16,), "dropout": 0.0}}


def test_one_round_on_perfect_labels_is_plain_training(perfect_crowd: Any) -> None:
    plain = TwoStage(**SMALL).fit(perfect_crowd.features, perfect_crowd.annotations)
    model = MBEM(rounds=1, **SMALL).fit(perfect_crowd.features, perfect_crowd.annotations)
    assert np.array_equal(model.predict_proba(perfect_crowd.features), plain.predict_proba(perfect_crowd.features))


def test_a_second_round_starts_from_the_first_weights_and_a_fresh_schedule(perfect_crowd: Any) -> None:
    """On perfect labels the second round has nearly the targets of the first, so it repeats its losses."""
    # Other shuffles and dropout masks are drawn, hence the tolerance.
    losses = MBEM(rounds=2, **STEADY).fit(perfect_crowd.features, perfect_crowd.annotations).result_.history["data"]
    assert losses[9] < 0.5 * losses[0]
    assert losses[10] == pytest.approx(losses[0], rel=0.3)


def test_without_a_fresh_network_the_second_round_goes_on(perfect_crowd: Any) -> None:
    model = MBEM(rounds=2, continue_training=True, **STEADY).fit(perfect_crowd.features, perfect_crowd.annotations)
    losses = model.result_.history["data"]
    assert losses[10] == pytest.approx(losses[9], rel=0.3)
    assert losses[10] < 0.6 * losses[0]


def test_confusions_are_counted_against_hard_predictions(crowd: Any) -> None:
    model = MBEM(**SMALL).fit(crowd.features, crowd.annotations)
    hard = np.eye(3)[model.predict_proba(crowd.features).argmax(axis=1)]
    assert np.allclose(model.confusions_, normalize_rows(confusion_counts(crowd.annotations, hard)), atol=1e-5)


@pytest.mark.filterwarnings("ignore::crowdprism.errors.IdentifiabilityWarning")
def test_misaligned_predictions_make_confusions_uninformative(crowd: Any) -> None:
    right = MBEM(**SMALL).fit(crowd.features, crowd.annotations)
    wrong = MBEM(misaligned_predictions=True, **SMALL).fit(crowd.features, crowd.annotations)
    assert np.einsum("mkk->m", wrong.confusions_).mean() < 0.75 * np.einsum("mkk->m", right.confusions_).mean()

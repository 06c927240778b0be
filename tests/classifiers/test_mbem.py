"""MBEM: rounds, targets and its reduction to plain training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.classifiers import MBEM, TwoStage
from crowdprism.classifiers.mbem import BootstrapHead
from crowdprism.results.confusion import confusion_counts, normalize_rows

SMALL = {
    "epochs": 20,
    "learning_rate": 0.01,
    "network_options": {"hidden": (16,)},
    "input_noise": 0.0,
    "temperature": 1.0,
}

STEADY = {
    "epochs": 20,
    "learning_rate": 0.02,
    "network_options": {"hidden": (16,), "dropout": 0.0},
    "input_noise": 0.0,
    "temperature": 1.0,
}


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


def test_with_two_softmaxes_an_item_costs_between_two_bounds_whatever_the_network_says(crowd: Any) -> None:
    """The second softmax sees probabilities, so a target's logit is at most 1 above and 1 below the others."""
    targets = torch.eye(3)[torch.from_numpy(crowd.truth)]
    head = BootstrapHead(targets, torch.ones(120, dtype=torch.bool), n_annotators=5, ends=[0], softmax_twice=True)
    for logits, expected in ((targets, np.log(np.e + 2) - 1), (targets.roll(1, dims=1), np.log(np.e + 2))):
        sure = torch.log_softmax(1e3 * logits, dim=1)
        assert head.loss(sure, crowd.batch()).item() / 120 == pytest.approx(expected, rel=1e-5)


def test_two_softmaxes_change_what_is_learned(crowd: Any) -> None:
    plain, twice = (MBEM(softmax_twice=on, **SMALL).fit(crowd.features, crowd.annotations) for on in (False, True))
    assert not np.allclose(plain.predict_proba(crowd.features), twice.predict_proba(crowd.features), atol=1e-3)

"""The embedded data sets are the same for everyone and labelled as described."""

from __future__ import annotations

import numpy as np
import pytest

from crowdprism import load_dataset
from crowdprism.aggregators import make_aggregator


def test_digits_are_labelled_by_the_demo_crowd_and_can_be_aggregated() -> None:
    digits = load_dataset("digits")
    train = digits.part("train")
    assert digits.images.shape == (1797, 8, 8)
    assert (digits.images.max(), digits.features.max()) == (255, 1)
    assert train.annotations is not None
    result = make_aggregator("majority-vote", use_gold=False).fit(train.annotations).result_
    assert (result.labels() == train.gold).mean() > 0.6


def test_the_labels_of_the_simulated_set_follow_its_confusions() -> None:
    simulated = load_dataset("simulated")
    a, confusions = simulated.annotations, simulated.extra("confusions")
    truth = np.asarray(simulated.gold)[a.item]
    expected = confusions[a.annotator, truth, truth].mean()
    assert a.summary().label_accuracy == pytest.approx(expected, abs=0.04)
    assert simulated.annotations == load_dataset("simulated").annotations

"""SpeeLFC is coupled cross-entropy from another start."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdprism.classifiers import GeoCrowdNet, SpeeLFC


def test_speelfc_equals_geocrowdnet_without_regulariser_at_the_same_start(crowd: Any) -> None:
    common = {"epochs": 5, "start_diagonal": 0.7, "network_options": {"hidden": (16,)}, "random_state": 3}
    speelfc = SpeeLFC(**common).fit(crowd.features, crowd.annotations)
    plain = GeoCrowdNet(regularizer=None, loss="ccem", confusion_form="free", shrinkage=0.0, **common)
    plain.fit(crowd.features, crowd.annotations)
    assert np.array_equal(speelfc.predict_proba(crowd.features), plain.predict_proba(crowd.features))
    assert np.array_equal(speelfc.confusions_, plain.confusions_)

from __future__ import annotations

import numpy as np
import pytest

from crowdprism.annotations.choice_sets import MultiLabelAnnotations
from crowdprism.classifiers.choice_classifier import ChoiceClassifier
from crowdprism.errors import NotFittedError


def test_each_choice_has_its_own_output() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)).astype(np.float32)
    applies = X > 0
    wrong = rng.random((3, 200, 2)) < 0.15
    chosen = [np.flatnonzero(applies[item] ^ wrong[who, item]).tolist() for item in range(200) for who in range(3)]
    answers = MultiLabelAnnotations.from_triplets(np.repeat(np.arange(200), 3), list("abc") * 200, chosen)
    fitted = ChoiceClassifier("geocrowdnet", epochs=15, random_state=0).fit(X, answers)
    found = fitted.predict_proba(X)
    assert ((found > 0.5) == applies).mean(axis=0).min() > 0.85
    assert fitted.predict(X[:1]) == [tuple(np.flatnonzero(found[0] > 0.5).tolist())]


def test_it_must_be_fitted_first() -> None:
    with pytest.raises(NotFittedError):
        ChoiceClassifier().predict_proba(np.zeros((1, 2)))

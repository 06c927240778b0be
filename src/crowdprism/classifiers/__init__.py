"""Classifiers: (features, annotations) in, a classifier for new items out; one file per method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdprism.classifiers.base import CrowdClassifier
from crowdprism.classifiers.geocrowdnet import GeoCrowdNet
from crowdprism.classifiers.storage import load_classifier
from crowdprism.errors import InvalidParameterError

# Name -> (class, parameters that the name stands for).
CLASSIFIERS: dict[str, tuple[type[CrowdClassifier], Mapping[str, Any]]] = {
    "geocrowdnet": (GeoCrowdNet, {"regularizer": None}),
    "geocrowdnet-f": (GeoCrowdNet, {"regularizer": "F"}),
    "geocrowdnet-w": (GeoCrowdNet, {"regularizer": "W"}),
}


def make_classifier(name: str, **params: Any) -> CrowdClassifier:
    """Return the classifier of that name with the given parameters.

    Examples
    --------
    >>> make_classifier("geocrowdnet-f", epochs=10)
    GeoCrowdNet(epochs=10, regularizer='F')
    """
    if name not in CLASSIFIERS:
        raise InvalidParameterError(f"There is no classifier {name!r}; there are {', '.join(sorted(CLASSIFIERS))}.")
    kind, fixed = CLASSIFIERS[name]
    return kind(**{**fixed, **params})


__all__ = ["CLASSIFIERS", "CrowdClassifier", "GeoCrowdNet", "load_classifier", "make_classifier"]

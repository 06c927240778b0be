"""A small crowd and one batch of it, for the tests of single methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from crowdprism.annotations import Annotations
from crowdprism.networks import Batch
from crowdprism.seeding import stream
from crowdprism.simulate import one_coin, per_item, simulate_annotations
from crowdprism.training import FlatAnnotations


@dataclass(frozen=True)
class Crowd:
    """Features, annotations and true classes of the same items."""

    features: Any
    annotations: Annotations
    truth: Any

    def batch(self) -> Batch:
        """All items as one batch."""
        flat = FlatAnnotations.of(self.annotations)
        return flat.batch(np.arange(len(self.truth)), torch.from_numpy(self.features))

    def log_class_probs(self) -> torch.Tensor:
        """Some predictions, the same at each call."""
        drawn = stream(1, "predictions").normal(size=(len(self.truth), self.annotations.n_classes))
        return torch.log_softmax(torch.from_numpy(drawn), dim=1).float()


def make_crowd(
    n_items: int = 120, n_classes: int = 3, skills: Any = (0.9, 0.8, 0.7, 0.6, 0.5), labels: int = 2
) -> Crowd:
    random = stream(0, "test crowd")
    truth = np.arange(n_items) % n_classes
    crowd = one_coin(np.asarray(skills, dtype=float), n_classes)
    annotations = simulate_annotations(truth, crowd, per_item(n_items, len(skills), labels=labels)).with_gold(None)
    features = 2 * np.eye(n_classes)[truth] + random.normal(size=(n_items, n_classes))
    return Crowd(features.astype(np.float32), annotations, truth)


@pytest.fixture
def crowd() -> Crowd:
    return make_crowd()


@pytest.fixture
def perfect_crowd() -> Crowd:
    """Three annotators who are always right, and each labels every item."""
    return make_crowd(skills=(1.0, 1.0, 1.0), labels=3)


@pytest.fixture
def lone_annotator() -> Crowd:
    """One annotator who labels every item."""
    return make_crowd(skills=(0.8,), labels=1)

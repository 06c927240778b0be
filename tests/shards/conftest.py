"""A crowd that fills several groups and several shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdprism.annotations import Annotations
from crowdprism.shards import Shards, write_annotations, writing
from crowdprism.simulate import one_coin, per_item, simulate_annotations

N_ITEMS = 9000


@pytest.fixture(scope="session")
def crowd() -> Annotations:
    random = np.random.default_rng(0)
    confusions = one_coin(random.uniform(0.4, 0.95, 60), 3)
    truth = random.integers(0, 3, N_ITEMS)
    return simulate_annotations(truth, confusions, per_item(N_ITEMS, 60, labels=5)).with_gold(None)


@pytest.fixture(scope="session")
def store(crowd: Annotations, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "LEAST_IN_SHARD", 7000)
        return write_annotations(crowd, Path(tmp_path_factory.mktemp("stores")) / "store")

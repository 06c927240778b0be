"""Votes over a store that `test_store_runs` does not cover: ties, skills, weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdprism.aggregators import MajorityVote, WeightedVote
from crowdprism.annotations import Annotations
from crowdprism.errors import InvalidParameterError
from crowdprism.shards import aggregate_shards, write_annotations
from crowdprism.shards.voting import votes_of

TIED = Annotations.from_dense([[0, 1, -1], [1, 1, 0], [-1, -1, -1], [2, 0, 0]])


@pytest.mark.parametrize(
    "method", [MajorityVote(voting="hard", ties="lowest"), MajorityVote(voting="hard"), WeightedVote(ties="lowest")]
)
def test_ties_and_items_without_votes_are_as_in_memory(method: MajorityVote | WeightedVote, tmp_path: Path) -> None:
    expected = method.fit(TIED).result_
    found = aggregate_shards(method, write_annotations(TIED, tmp_path / "store"), tmp_path / "run")
    for name in ("class_probabilities", "confusions", "class_prior"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)


def test_random_ties_are_refused(tmp_path: Path) -> None:
    store = write_annotations(TIED, tmp_path / "store")
    with pytest.raises(InvalidParameterError, match="Random ties"):
        aggregate_shards(MajorityVote(voting="hard", ties="random"), store, tmp_path / "run")


def test_votes_count_by_skill() -> None:
    assert votes_of(TIED, 0, 2, np.array([0.5, 2.0, 3.0])).tolist() == [[0.5, 2.0, 0.0], [3.0, 2.5, 0.0]]

"""Aggregators: annotations in, class probabilities of the same items out; no features, no torch."""

from __future__ import annotations

from typing import Any

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.dawid_skene import DawidSkene, FastDawidSkene
from crowdprism.aggregators.kos import KOS
from crowdprism.aggregators.majority_vote import MajorityVote
from crowdprism.aggregators.mmsr import MMSR
from crowdprism.aggregators.weighted_vote import WeightedVote
from crowdprism.errors import InvalidParameterError

AGGREGATORS: dict[str, type[Aggregator]] = {
    "majority-vote": MajorityVote,
    "weighted-vote": WeightedVote,
    "dawid-skene": DawidSkene,
    "fast-dawid-skene": FastDawidSkene,
    "kos": KOS,
    "mmsr": MMSR,
}


def make_aggregator(name: str, **params: Any) -> Aggregator:
    """Return the aggregator of that name with the given parameters.

    Examples
    --------
    >>> make_aggregator("majority-vote", voting="hard")
    MajorityVote(voting='hard')
    """
    if name not in AGGREGATORS:
        raise InvalidParameterError(f"There is no aggregator {name!r}; there are {', '.join(sorted(AGGREGATORS))}.")
    return AGGREGATORS[name](**params)


__all__ = ["AGGREGATORS", "Aggregator", "KOS", "MMSR", "MajorityVote", "WeightedVote", "make_aggregator"]

"""Aggregators: annotations in, class probabilities of the same items out; no features, no torch."""

from __future__ import annotations

from typing import Any

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.bayesian_confusions import EBCC, IBCC
from crowdprism.aggregators.belief_propagation import BeliefPropagation, MeanField
from crowdprism.aggregators.blind_moments import BlindMoments
from crowdprism.aggregators.dawid_skene import DawidSkene, FastDawidSkene
from crowdprism.aggregators.glad import GLAD
from crowdprism.aggregators.gold_vote import GoldVote
from crowdprism.aggregators.kos import KOS, Eigenvector, EigenvectorRatio
from crowdprism.aggregators.mace import MACE
from crowdprism.aggregators.majority_vote import MajorityVote, WeightedVote
from crowdprism.aggregators.mmsr import MMSR
from crowdprism.aggregators.multidimensional import MultidimensionalCrowd
from crowdprism.aggregators.multispa import MultiSPA, MultiSPAKL
from crowdprism.aggregators.one_coin import OneCoin, ZenCrowd
from crowdprism.aggregators.ordinal_dawid_skene import OrdinalDawidSkene
from crowdprism.aggregators.spectral_em import SpectralEM
from crowdprism.aggregators.symnmf import SymNMF
from crowdprism.errors import InvalidParameterError

_METHODS = (
    *(MajorityVote, WeightedVote, GoldVote, DawidSkene, FastDawidSkene, OneCoin, ZenCrowd, GLAD, MACE, IBCC, EBCC),
    *(MultidimensionalCrowd, MeanField, BeliefPropagation, KOS, Eigenvector, EigenvectorRatio, MMSR, SpectralEM),
    *(MultiSPA, MultiSPAKL, SymNMF, BlindMoments),
)
AGGREGATORS: dict[str, type[Aggregator]] = {method.name: method for method in _METHODS}
"""Method names, as `make_aggregator`, the command line and `FitResult.method` have them, and their classes: votes, then
methods with one number or one matrix per annotator fitted by EM or variational Bayes, messages, and those that learn
from pairs of annotators."""

ORDERED: dict[str, type[Aggregator]] = {OrdinalDawidSkene.name: OrdinalDawidSkene}
"""Methods for classes that have an order, such as ratings."""


def make_aggregator(name: str, **params: Any) -> Aggregator:
    """Return the aggregator of that name (`AGGREGATORS` has all) with the given parameters.

    Examples
    --------
    >>> make_aggregator("majority-vote", voting="hard")
    MajorityVote(voting='hard')
    """
    known = {**AGGREGATORS, **ORDERED}
    if name not in known:
        raise InvalidParameterError(f"There is no aggregator {name!r}; there are {', '.join(sorted(known))}.")
    return known[name](**params)


__all__ = [
    "AGGREGATORS",
    "Aggregator",
    "BeliefPropagation",
    "BlindMoments",
    "DawidSkene",
    "EBCC",
    "Eigenvector",
    "EigenvectorRatio",
    "FastDawidSkene",
    "GLAD",
    "GoldVote",
    "IBCC",
    "KOS",
    "MACE",
    "MMSR",
    "MajorityVote",
    "MeanField",
    "MultiSPA",
    "MultiSPAKL",
    "MultidimensionalCrowd",
    "OneCoin",
    "SpectralEM",
    "SymNMF",
    "WeightedVote",
    "ZenCrowd",
    "make_aggregator",
]

"""Aggregators: annotations in, class probabilities of the same items out; no features, no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from crowdprism.aggregators.base import Aggregator
from crowdprism.errors import InvalidParameterError

if TYPE_CHECKING:
    from crowdprism.aggregators.bayesian_confusions import EBCC as EBCC
    from crowdprism.aggregators.bayesian_confusions import IBCC as IBCC
    from crowdprism.aggregators.belief_propagation import BeliefPropagation as BeliefPropagation
    from crowdprism.aggregators.belief_propagation import MeanField as MeanField
    from crowdprism.aggregators.blind_moments import BlindMoments as BlindMoments
    from crowdprism.aggregators.dawid_skene import DawidSkene as DawidSkene
    from crowdprism.aggregators.dawid_skene import FastDawidSkene as FastDawidSkene
    from crowdprism.aggregators.glad import GLAD as GLAD
    from crowdprism.aggregators.kos import KOS as KOS
    from crowdprism.aggregators.kos import Eigenvector as Eigenvector
    from crowdprism.aggregators.kos import EigenvectorRatio as EigenvectorRatio
    from crowdprism.aggregators.mace import MACE as MACE
    from crowdprism.aggregators.majority_vote import MajorityVote as MajorityVote
    from crowdprism.aggregators.majority_vote import WeightedVote as WeightedVote
    from crowdprism.aggregators.mmsr import MMSR as MMSR
    from crowdprism.aggregators.moments import GoldVote as GoldVote
    from crowdprism.aggregators.multidimensional import MultidimensionalCrowd as MultidimensionalCrowd
    from crowdprism.aggregators.multispa import MultiSPA as MultiSPA
    from crowdprism.aggregators.multispa import MultiSPAKL as MultiSPAKL
    from crowdprism.aggregators.one_coin import OneCoin as OneCoin
    from crowdprism.aggregators.one_coin import ZenCrowd as ZenCrowd
    from crowdprism.aggregators.spectral_em import SpectralEM as SpectralEM
    from crowdprism.aggregators.symnmf import SymNMF as SymNMF


class Methods(Mapping[str, type[Aggregator]]):
    """Classes by the names of methods; each is imported when first asked for."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self.homes = homes  # "module:Class" of each method

    def __getitem__(self, name: str) -> type[Aggregator]:
        module, _, method = self.homes[name].partition(":")
        return getattr(import_module(f"{__name__}.{module}"), method)  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        return iter(self.homes)

    def __len__(self) -> int:
        return len(self.homes)

    def __contains__(self, name: object) -> bool:
        return name in self.homes


AGGREGATORS = Methods(
    {
        "majority-vote": "majority_vote:MajorityVote",
        "weighted-vote": "majority_vote:WeightedVote",
        "gold-vote": "moments:GoldVote",
        "dawid-skene": "dawid_skene:DawidSkene",
        "fast-dawid-skene": "dawid_skene:FastDawidSkene",
        "one-coin": "one_coin:OneCoin",
        "zencrowd": "one_coin:ZenCrowd",
        "glad": "glad:GLAD",
        "mace": "mace:MACE",
        "ibcc": "bayesian_confusions:IBCC",
        "ebcc": "bayesian_confusions:EBCC",
        "multidimensional": "multidimensional:MultidimensionalCrowd",
        "mean-field": "belief_propagation:MeanField",
        "belief-propagation": "belief_propagation:BeliefPropagation",
        "kos": "kos:KOS",
        "eigenvector": "kos:Eigenvector",
        "eigenvector-ratio": "kos:EigenvectorRatio",
        "mmsr": "mmsr:MMSR",
        "spectral-em": "spectral_em:SpectralEM",
        "multispa": "multispa:MultiSPA",
        "multispa-kl": "multispa:MultiSPAKL",
        "symnmf": "symnmf:SymNMF",
        "blind-moments": "blind_moments:BlindMoments",
    }
)
"""Method names, as `make_aggregator`, the command line and `FitResult.method` have them, and their classes: votes, then
methods with one number or one matrix per annotator fitted by EM or variational Bayes, messages, and those that learn
from pairs of annotators."""

ORDERED = Methods({"ordinal-dawid-skene": "ordinal_dawid_skene:OrdinalDawidSkene"})
"""Methods for classes that have an order, such as ratings."""

_CLASSES = {home.partition(":")[2]: name for name, home in AGGREGATORS.homes.items()}


def make_aggregator(name: str, **params: Any) -> Aggregator:
    """Return the aggregator of that name (`AGGREGATORS` has all) with the given parameters.

    Examples
    --------
    >>> make_aggregator("majority-vote", voting="hard")
    MajorityVote(voting='hard')
    """
    methods = ORDERED if name in ORDERED else AGGREGATORS
    if name not in methods:
        known = ", ".join(sorted([*AGGREGATORS, *ORDERED]))
        raise InvalidParameterError(f"There is no aggregator {name!r}; there are {known}.")
    return methods[name](**params)


if not TYPE_CHECKING:  # type checkers know every name from the imports above

    def __getattr__(name: str) -> Any:
        if name not in _CLASSES:
            raise AttributeError(f"module 'crowdprism.aggregators' has no attribute {name!r}")
        return AGGREGATORS[_CLASSES[name]]


__all__ = ["AGGREGATORS", "Aggregator", "make_aggregator", *_CLASSES]

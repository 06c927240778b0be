"""Answers such as "unsure": labels that annotators give but no item truly has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.majority_vote import vote_totals
from crowdprism.annotations import Annotations
from crowdprism.annotations.names import known_positions
from crowdprism.errors import InvalidParameterError, some


def use_abstentions(aggregator: Aggregator, annotations: Annotations, names: Sequence[Any]) -> None:
    """Let an aggregator learn from who abstains on what: the classes `names` are given, but never true.

    Confusion matrices then hold how often each annotator abstains on items of each class. Works with every method that
    takes `class_prior`.

    Examples
    --------
    >>> from crowdprism.aggregators import make_aggregator
    >>> a = Annotations.from_triplets([1, 1, 2, 2], ["a", "b"] * 2, ["yes", "unsure", "no", "unsure"])
    >>> method = make_aggregator("dawid-skene")
    >>> use_abstentions(method, a, ["unsure"])
    >>> method.class_prior, method.fit(a).result_.labels().tolist()
    ([0.5, 0.0, 0.5], ['yes', 'no'])
    """
    if "class_prior" not in aggregator.get_params():
        raise InvalidParameterError(
            f"{aggregator.name} cannot learn from abstentions.",
            parameter="abstain",
            remedy="Use dawid-skene, or leave the answers out with {skip_label}",
        )
    aggregator.set_params(class_prior=shares_without(annotations, names).tolist())


def shares_without(annotations: Annotations, names: Sequence[Any]) -> FloatArray:
    """(n_classes,) shares of the classes in the votes, 0 for those that are no class."""
    place = known_positions(annotations.classes, names, "answers", parameter="abstain")
    votes = vote_totals(annotations)
    votes[:, place] = 0.0
    totals = votes.sum(axis=1, keepdims=True)
    if not totals.any():
        raise InvalidParameterError(
            f"All {annotations.n_annotations} answers are {some(names)}; nothing is left to learn. Name fewer of them.",
            parameter="abstain",
        )
    shares = np.divide(votes, totals, out=np.zeros_like(votes), where=totals > 0).sum(axis=0)
    return np.asarray(shares / shares.sum())

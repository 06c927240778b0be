"""The expectation step of methods in which a label speaks only for its own class: one-coin, ZenCrowd, MACE.

Each annotation multiplies the odds of the class it names, so the work per annotation does not grow with the number
of classes. The factor depends on the annotator alone (one-coin) or on the annotator and the label (MACE).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.cells import FloatArray
from crowdprism.aggregators.expectation import USUAL_PASSES, soft_classes
from crowdprism.aggregators.expectation_records import VoteExpectation
from crowdprism.annotations import Annotations

# As for `expectation.COMPILE_ABOVE`, in annotations x passes: the plain way needs about 40 ns for each.
COMPILE_ABOVE = 10_000_000


class VoteExpectationStep:
    """Repeated expectation steps over the same annotations.

    Parameters
    ----------
    annotations
        What annotators said.
    source, n_sources
        (n_annotations,) what the odds of an annotation depend on: its annotator, or its cell.
    passes
        How many steps the method expects to take, which decides together with the size whether compiling pays.
    compiled
        Use the kernels (True), NumPy (False), or decide by size (None).

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0], [1, -1]])
    >>> step = VoteExpectationStep(a, a.annotator, n_sources=2)
    >>> step(np.log([9.0, 9.0]), np.array([0.5, 0.5])).class_probabilities.round(3).tolist()
    [[0.988, 0.012], [0.1, 0.9]]
    """

    def __init__(
        self,
        annotations: Annotations,
        source: NDArray[Any],
        *,
        n_sources: int,
        passes: int = USUAL_PASSES,
        compiled: bool | None = None,
    ) -> None:
        self.annotations = annotations
        self.source = source.astype(np.uint32, copy=False)
        self.n_sources = n_sources
        self.compiled = annotations.n_annotations * passes > COMPILE_ABOVE if compiled is None else compiled
        self.total = np.bincount(source, weights=annotations.weight, minlength=n_sources).astype(np.float64)

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all annotations."""
        return float(self.total.sum())

    def __call__(self, log_odds: FloatArray, prior: FloatArray, *, keep: bool = True) -> VoteExpectation:
        """Class probabilities from the log odds (n_sources,) by which an annotation raises the class it names."""
        if self.compiled:
            from crowdprism.aggregators import vote_kernels

            return vote_kernels.expect(self.annotations, self.source, log_odds, prior, keep=keep)
        votes = log_odds[self.source] * self._weight
        with np.errstate(divide="ignore"):
            scores = self._by_item_and_label(votes) + np.log(prior)
        return self._expectation(*soft_classes(scores))

    def count_votes(self) -> VoteExpectation:
        """Hits if class probabilities were the items' shares of votes."""
        if self.compiled:
            from crowdprism.aggregators import vote_kernels

            return vote_kernels.count_votes(self.annotations, self.source, self.n_sources)
        votes = self._by_item_and_label(self._weight)
        sums = votes.sum(axis=1, keepdims=True)
        return self._expectation(np.where(sums > 0, votes / np.where(sums > 0, sums, 1.0), 0.0), 0.0)

    def count(self, class_probabilities: FloatArray) -> VoteExpectation:
        """Hits that given class probabilities imply."""
        return self._expectation(class_probabilities, 0.0)

    def _expectation(self, probabilities: FloatArray, log_likelihood: float) -> VoteExpectation:
        right = probabilities.ravel()[self._place] * self._weight
        hits = np.bincount(self.source, weights=right, minlength=self.n_sources).astype(np.float64)
        return VoteExpectation(log_likelihood, hits, self._annotated @ probabilities, probabilities)

    def _by_item_and_label(self, values: FloatArray) -> FloatArray:
        shape = (self.annotations.n_items, self.annotations.n_classes)
        sums = np.bincount(self._place, weights=values, minlength=shape[0] * shape[1])
        return sums.astype(np.float64, copy=False).reshape(shape)

    @cached_property
    def _weight(self) -> FloatArray:
        weight = self.annotations.weight
        return np.ones(self.annotations.n_annotations) if weight is None else weight.astype(np.float64)

    @cached_property
    def _place(self) -> NDArray[np.int64]:
        """(n_annotations,) position of (item, label) in a table of items x classes."""
        first = self.annotations.item.astype(np.int64) * self.annotations.n_classes
        return np.asarray(first + self.annotations.label)

    @cached_property
    def _annotated(self) -> FloatArray:
        """(n_items,) 1 where the item has an annotation that counts, else 0."""
        counting = np.bincount(self.annotations.item, weights=self._weight > 0, minlength=self.annotations.n_items)
        return (counting > 0).astype(np.float64)

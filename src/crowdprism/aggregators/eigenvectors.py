"""Annotators weighted by the leading eigenvector of their agreement, for two classes; more are one against the rest.

Ghosh, Kale and McAfee, "Who moderates the moderators?", EC 2011, and Dalvi, Dasgupta, Kumar and Rastogi, "Aggregating
crowdsourced binary ratings", WWW 2013.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.kos import Edges, decode, edges_of, item_scores, two_class_problems, unit_scale
from crowdprism.aggregators.majority_vote import by_votes
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import bipartite_components
from crowdprism.progress import progress
from crowdprism.results import FitResult


@dataclass(frozen=True)
class Ratings:
    """The signed labels of one two-class problem as a sparse matrix, and the connected part of each annotator."""

    matrix: Any  # sparse (n_items, n_annotators)
    part: NDArray[np.int64]  # (n_annotators,)

    def agreement(self, y: FloatArray) -> FloatArray:
        """Product of a vector with the annotators' agreement, own squares left in: (n_annotators,)."""
        return np.asarray(self.matrix.T @ (self.matrix @ y))

    def agreement_with_others(self, y: FloatArray) -> FloatArray:
        """Product with the agreement of pairs, shifted so that no eigenvalue is negative: (n_annotators,)."""
        own = np.asarray(self.matrix.multiply(self.matrix).sum(axis=0)).reshape(-1)
        return np.asarray(self.agreement(y) + (own.max(initial=0.0) - own) * y)

    def leading(self, product: Callable[[FloatArray], FloatArray], iterations: int, tolerance: float) -> FloatArray:
        """Leading eigenvector of each connected part by power iteration from ones; most of its weight is positive."""
        y = np.ones(len(self.part))
        for _ in range(iterations):
            before, y = y, unit_scale(product(y), self.part)
            if np.abs(y - before).max(initial=0.0) <= tolerance:
                break
        side = np.bincount(self.part, weights=y * np.abs(y))
        return np.asarray(y * np.where(side < 0, -1.0, 1.0)[self.part])


def ratings_of(signs: NDArray[Any], edges: Edges, part: NDArray[np.int64]) -> Ratings:
    """Gather signed labels (n_annotations,) by item and annotator."""
    from scipy.sparse import csr_array

    shape = (edges.n_items, edges.n_annotators)
    return Ratings(csr_array((signs * edges.weight, (edges.item, edges.annotator)), shape=shape), part)


def centred(signs: NDArray[Any], edges: Edges) -> FloatArray:
    """(n_annotations,) signed labels minus their annotator's mean, so that always saying the same is no agreement."""
    total = np.bincount(edges.annotator, weights=edges.weight, minlength=edges.n_annotators)
    said = np.bincount(edges.annotator, weights=edges.weight * signs, minlength=edges.n_annotators)
    return np.asarray(signs - (said / np.where(total > 0, total, 1.0))[edges.annotator])


@dataclass(eq=False, repr=False)
class EigenvectorAggregator(Aggregator):
    """A vote weighted by what the leading eigenvector says of each annotator."""

    iterations: int = 1000
    tolerance: float = 1e-8

    @abstractmethod
    def _weights(self, signs: NDArray[Any], edges: Edges, part: NDArray[np.int64]) -> FloatArray:
        """(n_annotators,) weight of each annotator in a two-class problem; negative for those who answer in reverse."""

    def _aggregate(self, annotations: Annotations) -> FitResult:
        edges, part = edges_of(annotations), bipartite_components(annotations)[1]
        scores, weights = [], []
        problems = two_class_problems(annotations, "nominal")
        with progress(type(self).__name__, total=len(problems)) as bar:
            for signs in problems:
                weights.append(self._weights(centred(signs, edges), edges, part))
                scores.append(item_scores(signs, edges, weights[-1][annotations.annotator]))
                bar.advance()
        decoded = decode(np.stack(scores, axis=1), annotations.n_classes, "nominal")
        labelled = np.bincount(edges.item, weights=edges.weight, minlength=edges.n_items) > 0
        parts = by_votes(annotations, decoded, labelled)
        return self._build_result(annotations, skills=np.mean(weights, axis=0), **parts)


class Eigenvector(EigenvectorAggregator):
    """Weigh annotators by the leading singular vector of the items x annotators table of signed labels (Ghosh 2011).

    For two classes about equally frequent and annotators who label about as much as each other: who labels more also
    weighs more, so that one spammer who labels most can rule (RTE: 60.5 % right, `eigenvector-ratio` 91.1 %). Each
    annotator's mean label is taken away first, which the paper does not do.
    `result_.skills` has the weights, negative for annotators who answer in reverse.

    Parameters
    ----------
    iterations, tolerance
        Power iterations at most; they end when no weight moves by more than `tolerance`.

    Examples
    --------
    >>> result = Eigenvector().fit([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 0]]).result_
    >>> result.labels().tolist(), bool(result.skills[2] < 0)
    ([0, 1, 0, 1], True)
    """

    name: ClassVar[str] = "eigenvector"

    def _weights(self, signs: NDArray[Any], edges: Edges, part: NDArray[np.int64]) -> FloatArray:
        ratings = ratings_of(signs, edges, part)
        return ratings.leading(ratings.agreement, self.iterations, self.tolerance)


class EigenvectorRatio(EigenvectorAggregator):
    """Weigh annotators by the ratio of two eigenvectors: of pairs' agreement and of pairs' shared items (Dalvi 2013).

    The second takes out how much each annotator labelled, so that the weights estimate 2 p - 1 up to a common factor,
    with p the probability of a right label.

    Parameters
    ----------
    iterations, tolerance
        As in `Eigenvector`.

    Examples
    --------
    >>> result = EigenvectorRatio().fit([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, -1]]).result_
    >>> result.labels().tolist(), bool(result.skills[0] > result.skills[2])
    ([0, 1, 0, 1], True)
    """

    name: ClassVar[str] = "eigenvector-ratio"

    def _weights(self, signs: NDArray[Any], edges: Edges, part: NDArray[np.int64]) -> FloatArray:
        said, shared = ratings_of(signs, edges, part), ratings_of(np.ones(len(signs)), edges, part)
        agreement = said.leading(said.agreement_with_others, self.iterations, self.tolerance)
        amount = shared.leading(shared.agreement_with_others, self.iterations, self.tolerance)
        return np.where(amount > self.tolerance, agreement / np.maximum(amount, self.tolerance), 0.0)

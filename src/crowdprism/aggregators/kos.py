"""Weights of annotators for two classes, by messages or by eigenvectors; more classes are one against the rest.

KOS: Karger, Oh and Shah 2011 and 2014. Eigenvectors: Ghosh, Kale and McAfee, "Who moderates the moderators?", EC 2011;
Dalvi, Dasgupta, Kumar and Rastogi, "Aggregating crowdsourced binary ratings", WWW 2013.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.majority_vote import by_votes, vote_totals
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import bipartite_components, sums_by
from crowdprism.errors import UnsuitableDataError
from crowdprism.parameters import Allowed, OneOf
from crowdprism.progress import Bar, progress
from crowdprism.results import FitResult
from crowdprism.results.confusion import normalize_rows
from crowdprism.seeding import stream

Decoding = Literal["nominal", "ordinal"]


def weights_of(annotations: Annotations) -> FloatArray:
    """(n_annotations,) 1 each where the annotations have no weights."""
    weight = annotations.weight
    return np.ones(annotations.n_annotations) if weight is None else weight.astype(np.float64)


def with_repeats_joined(annotations: Annotations) -> Annotations:
    """Turn equal labels by one annotator on one item into one annotation, so that nobody vouches for himself."""
    columns = (annotations.item, annotations.annotator, annotations.label)
    first = np.append(True, np.any([np.diff(column) != 0 for column in columns], axis=0))
    if first.all():
        return annotations
    weight = np.bincount(np.cumsum(first) - 1, weights=annotations.weight).astype(np.float32)
    return replace(annotations.select(first), weight=weight)


def unit_scale(messages: NDArray[Any], component: NDArray[Any]) -> FloatArray:
    """Divide the messages of each connected part by their root mean square: only ratios matter, and sizes explode."""
    squares = np.bincount(component, weights=messages**2)
    scale = np.sqrt(squares / np.maximum(np.bincount(component), 1))
    scale[scale == 0] = 1.0
    return np.asarray(messages / scale[component])


def pass_messages(
    signs: NDArray[Any],  # (n_annotations,) positive for one class, negative for the other
    annotations: Annotations,
    messages: NDArray[Any],  # (n_annotations,) how reliable the annotator seems, judged from the other items
    *,
    iterations: int,
    bar: Bar | None = None,
) -> FloatArray:
    """Run the updates of Karger, Oh and Shah (2014), equations 1 and 2; a message leaves out its own edge."""
    item, annotator = annotations.item, annotations.annotator
    component = bipartite_components(annotations)[0][item]
    evidence = signs * weights_of(annotations)
    for _ in range(iterations):
        messages = unit_scale(messages, component)
        sent = evidence * messages
        to_annotator = unit_scale(sums_by(item, sent, annotations.n_items)[item] - sent, component)
        sent = evidence * to_annotator
        messages = sums_by(annotator, sent, annotations.n_annotators)[annotator] - sent
        if bar is not None:
            bar.advance()
    return unit_scale(messages, component)


def item_scores(signs: NDArray[Any], annotations: Annotations, messages: NDArray[Any]) -> FloatArray:
    """(n_items,) weighted vote between -1 and 1; 0 where no message reached the item."""
    item, weight = annotations.item, weights_of(annotations)
    total = sums_by(item, weight * np.abs(messages), annotations.n_items)
    vote = sums_by(item, weight * np.sign(signs) * messages, annotations.n_items)
    return np.where(total > 0, vote / np.where(total > 0, total, 1.0), 0.0)


@dataclass(eq=False, repr=False)
class KOS(Aggregator):
    """Message passing that weighs annotators by agreement along shared items, adversaries counting in reverse.

    Made for two classes about equally frequent; more are split into two-class problems. Each connected part of the
    crowd is solved by itself. Class probabilities are shares of the weighted vote. Items that no message reaches (they
    hang on the crowd by one annotation) keep their vote shares; `result_.warnings` counts them.

    Parameters
    ----------
    iterations
        Rounds of messages.
    decoding
        For three classes and more: `"nominal"` asks for each class "this one or another" and takes the highest
        score; `"ordinal"` asks "above class l" for each l and takes the first no (Karger, Oh and Shah 2013).
    start
        First messages: all `"ones"` (a majority vote), or drawn from N(1, 1) as in the paper (`"normal"`). Both end in
        the same place when rounds suffice.
    random_state
        Seed for `start="normal"`.

    Examples
    --------
    >>> result = KOS().fit([[0, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 0]]).result_
    >>> result.labels().tolist(), bool(result.skills[2] < 0)
    ([0, 1, 0, 1], True)
    """

    name: ClassVar[str] = "kos"
    _allowed: ClassVar[Mapping[str, Allowed]] = {
        "decoding": OneOf("nominal", "ordinal"),
        "start": OneOf("ones", "normal"),
    }
    iterations: int = 100
    decoding: Decoding = "nominal"
    start: Literal["ones", "normal"] = "ones"
    random_state: int = 0

    def _aggregate(self, annotations: Annotations) -> FitResult:
        n_given = annotations.labels_per_annotator
        annotations = with_repeats_joined(annotations)
        problems = two_class_problems(annotations, self.decoding)
        solved = []
        with progress("KOS", total=self.iterations * len(problems)) as bar:
            for place, signs in enumerate(problems):
                first = np.ones(len(signs))
                if self.start == "normal":
                    first = stream(self.random_state, "kos messages", place).normal(1.0, 1.0, len(signs))
                solved.append(pass_messages(signs, annotations, first, iterations=self.iterations, bar=bar))
        messages = np.stack(solved, axis=1)  # (annotation, problem)
        if not messages.any():  # without cycles every message dies out
            single = (annotations.labels_per_item == 1).sum(), (annotations.labels_per_annotator == 1).sum()
            raise UnsuitableDataError(
                f"KOS compares annotators along cycles of shared items, and these {annotations.n_annotations} "
                f"annotations have none: {single[0]} of {annotations.n_items} items have one label, {single[1]} of "
                f"{annotations.n_annotators} annotators gave one. Use majority-vote, or dawid-skene whose prior pools "
                "annotators."
            )
        scores = np.stack([item_scores(s, annotations, m) for s, m in zip(problems, solved, strict=True)], axis=1)
        reached = np.zeros(annotations.n_items, dtype=bool)
        reached[annotations.item[messages.any(axis=1)]] = True
        votes = vote_totals(annotations)
        labelled = votes.sum(axis=1) > 0
        decoded = decode(scores, annotations.n_classes, self.decoding)
        parts = by_votes(annotations, np.where(reached[:, None], decoded, normalize_rows(votes)), labelled)
        unreached = int((labelled & ~reached).sum())
        if unreached:
            note = f"{unreached} items were reached by no message and keep their vote shares."
            parts["warnings"] = (note, *parts["warnings"])
        skills = sums_by(annotations.annotator, messages.mean(axis=1), annotations.n_annotators)
        skills /= np.maximum(annotations.labels_per_annotator, 1)
        result = self._build_result(annotations, skills=skills, seed=self.random_state, **parts)
        return replace(result, labels_per_annotator=n_given)


def two_class_problems(annotations: Annotations, decoding: Decoding) -> list[FloatArray]:
    """Signs (n_annotations,) of each two-class problem: one for two classes, else one per class or threshold."""
    label, n_classes = annotations.label, annotations.n_classes
    if n_classes == 2:
        return [np.where(label == 1, 1.0, -1.0)]
    if decoding == "ordinal":
        return [np.where(label > threshold, 1.0, -1.0) for threshold in range(n_classes - 1)]
    return [np.where(label == chosen, 1.0, -1.0) for chosen in range(n_classes)]


def decode(scores: NDArray[Any], n_classes: int, decoding: Decoding) -> FloatArray:
    """Class probabilities from scores (n_items, n_problems) between -1 and 1."""
    if n_classes == 2:
        return np.concatenate([(1 - scores) / 2, (1 + scores) / 2], axis=1)
    if decoding == "ordinal":
        answered_no = np.concatenate([scores < 0, np.ones((len(scores), 1), dtype=bool)], axis=1)
        return np.asarray(np.eye(n_classes)[answered_no.argmax(axis=1)])
    return np.asarray(normalize_rows(1 + scores), dtype=np.float64)


class Ratings:
    """The signed labels of one two-class problem as a sparse matrix, and the connected part of each annotator."""

    def __init__(self, signs: NDArray[Any], annotations: Annotations) -> None:
        from scipy.sparse import csr_array

        places, shape = (annotations.item, annotations.annotator), (annotations.n_items, annotations.n_annotators)
        self.matrix: Any = csr_array((signs * weights_of(annotations), places), shape=shape)
        self.part = bipartite_components(annotations)[1]  # (n_annotators,)

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


def centred(signs: NDArray[Any], annotations: Annotations) -> FloatArray:
    """(n_annotations,) signed labels minus their annotator's mean, so that always saying the same is no agreement."""
    annotator, weight = annotations.annotator, weights_of(annotations)
    total, said = (sums_by(annotator, values, annotations.n_annotators) for values in (weight, weight * signs))
    return np.asarray(signs - (said / np.where(total > 0, total, 1.0))[annotator])


@dataclass(eq=False, repr=False)
class EigenvectorAggregator(Aggregator):
    """A vote weighted by what the leading eigenvector says of each annotator."""

    iterations: int = 1000
    tolerance: float = 1e-8

    @abstractmethod
    def _weights(self, signs: NDArray[Any], annotations: Annotations) -> FloatArray:
        """(n_annotators,) weight of each annotator in a two-class problem; negative for those who answer in reverse."""

    def _aggregate(self, annotations: Annotations) -> FitResult:
        scores, weights = [], []
        problems = two_class_problems(annotations, "nominal")
        with progress(type(self).__name__, total=len(problems)) as bar:
            for signs in problems:
                weights.append(self._weights(centred(signs, annotations), annotations))
                scores.append(item_scores(signs, annotations, weights[-1][annotations.annotator]))
                bar.advance()
        decoded = decode(np.stack(scores, axis=1), annotations.n_classes, "nominal")
        labelled = sums_by(annotations.item, weights_of(annotations), annotations.n_items) > 0
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

    def _weights(self, signs: NDArray[Any], annotations: Annotations) -> FloatArray:
        ratings = Ratings(signs, annotations)
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

    def _weights(self, signs: NDArray[Any], annotations: Annotations) -> FloatArray:
        said, shared = Ratings(signs, annotations), Ratings(np.ones(len(signs)), annotations)
        agreement = said.leading(said.agreement_with_others, self.iterations, self.tolerance)
        amount = shared.leading(shared.agreement_with_others, self.iterations, self.tolerance)
        return np.where(amount > self.tolerance, agreement / np.maximum(amount, self.tolerance), 0.0)

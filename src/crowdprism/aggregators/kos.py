"""KOS: messages between items and annotators find who is reliable (Karger, Oh and Shah 2011, 2014)."""

from __future__ import annotations

from collections.abc import Mapping
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
Start = Literal["ones", "normal"]


@dataclass(frozen=True)
class Edges:
    """The annotations as edges of a graph of items and annotators, and the connected part each belongs to."""

    item: NDArray[Any]
    annotator: NDArray[Any]
    component: NDArray[Any]
    weight: FloatArray
    n_items: int
    n_annotators: int


def edges_of(annotations: Annotations) -> Edges:
    """Take from annotations what message passing needs."""
    item = annotations.item
    component, _ = bipartite_components(annotations)
    weight = np.ones(len(item)) if annotations.weight is None else annotations.weight.astype(float)
    sizes = annotations.n_items, annotations.n_annotators
    return Edges(item, annotations.annotator, component[item], weight, *sizes)


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
    edges: Edges,
    messages: NDArray[Any],  # (n_annotations,) how reliable the annotator seems, judged from the other items
    *,
    iterations: int,
    bar: Bar | None = None,
) -> FloatArray:
    """Run the updates of Karger, Oh and Shah (2014), equations 1 and 2; a message leaves out its own edge."""
    evidence = signs * edges.weight
    for _ in range(iterations):
        messages = unit_scale(messages, edges.component)
        sent = evidence * messages
        to_annotator = np.bincount(edges.item, weights=sent, minlength=edges.n_items)[edges.item] - sent
        to_annotator = unit_scale(to_annotator, edges.component)
        sent = evidence * to_annotator
        messages = np.bincount(edges.annotator, weights=sent, minlength=edges.n_annotators)[edges.annotator] - sent
        if bar is not None:
            bar.advance()
    return unit_scale(messages, edges.component)


def item_scores(signs: NDArray[Any], edges: Edges, messages: NDArray[Any]) -> FloatArray:
    """(n_items,) weighted vote between -1 and 1; 0 where no message reached the item."""
    strength = edges.weight * np.abs(messages)
    total = np.bincount(edges.item, weights=strength, minlength=edges.n_items)
    vote = np.bincount(edges.item, weights=edges.weight * np.sign(signs) * messages, minlength=edges.n_items)
    return np.where(total > 0, vote / np.where(total > 0, total, 1.0), 0.0)


def require_cycles(annotations: Annotations, messages: NDArray[Any]) -> None:
    """Refuse data on which every message dies out: without cycles in the graph nobody can be compared."""
    if not messages.any():
        items, people = (int((n == 1).sum()) for n in (annotations.labels_per_item, annotations.labels_per_annotator))
        raise UnsuitableDataError(
            f"KOS compares annotators along cycles of shared items, and these {annotations.n_annotations} annotations "
            f"have none: {items} of {annotations.n_items} items have one label, {people} of "
            f"{annotations.n_annotators} annotators gave one. "
            "Use majority-vote, or dawid-skene whose prior pools annotators."
        )


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
    start: Start = "ones"
    random_state: int = 0

    def _aggregate(self, annotations: Annotations) -> FitResult:
        n_given = annotations.labels_per_annotator
        annotations = with_repeats_joined(annotations)
        edges = edges_of(annotations)
        problems = two_class_problems(annotations, self.decoding)
        with progress("KOS", total=self.iterations * len(problems)) as bar:
            starts = [self._first_messages(len(edges.item), place) for place in range(len(problems))]
            limits: dict[str, Any] = {"iterations": self.iterations, "bar": bar}
            solved = [pass_messages(s, edges, m, **limits) for s, m in zip(problems, starts, strict=True)]
        messages = np.stack(solved, axis=1)  # (annotation, problem)
        require_cycles(annotations, messages)
        scores = np.stack([item_scores(s, edges, m) for s, m in zip(problems, solved, strict=True)], axis=1)
        reached = np.zeros(annotations.n_items, dtype=bool)
        reached[annotations.item[messages.any(axis=1)]] = True
        result = self._decided(annotations, scores, messages.mean(axis=1), reached)
        return replace(result, labels_per_annotator=n_given)

    def _first_messages(self, n_edges: int, place: int) -> FloatArray:
        if self.start == "ones":
            return np.ones(n_edges)
        return stream(self.random_state, "kos messages", place).normal(1.0, 1.0, n_edges)

    def _decided(
        self, annotations: Annotations, scores: NDArray[Any], messages: NDArray[Any], reached: NDArray[np.bool_]
    ) -> FitResult:
        votes = vote_totals(annotations)
        labelled = votes.sum(axis=1) > 0
        decoded = decode(scores, annotations.n_classes, self.decoding)
        parts = by_votes(annotations, np.where(reached[:, None], decoded, normalize_rows(votes)), labelled)
        unreached = int((labelled & ~reached).sum())
        if unreached:
            note = f"{unreached} items were reached by no message and keep their vote shares."
            parts["warnings"] = (note, *parts["warnings"])
        skills = sums_by(annotations.annotator, messages, annotations.n_annotators)
        skills /= np.maximum(annotations.labels_per_annotator, 1)
        return self._build_result(annotations, skills=skills, seed=self.random_state, **parts)


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

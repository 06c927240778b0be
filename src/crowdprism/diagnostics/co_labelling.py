"""Annotators who label the same items: who can be compared with whom, and how far two of them agree.

A coefficient is NaN where it is not defined: if both annotators gave one and the same label throughout.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.frames import frame_of_columns
from crowdprism.annotations.names import NameArray, known_positions
from crowdprism.annotations.pairs import bipartite_components, co_label_entries, ranked, response_matrix, sums_by
from crowdprism.errors import IdentifiabilityWarning, InvalidParameterError, UnsuitableDataError, counted, some

KappaWeights = Literal["linear", "quadratic"]


@dataclass(frozen=True)
class Coverage:
    """How many labels items have, including items and annotators without any; `str()` gives a readable line."""

    n_items: int
    n_annotators: int
    n_annotations: int
    n_unlabelled: int
    n_single: int
    n_shared: int  # items with two labels or more: only these say something about agreement
    density: float  # share of all (item, annotator) pairs that have an annotation

    def __str__(self) -> str:
        return (
            f"{self.n_shared} of {self.n_items} items have two labels or more, {self.n_single} have one, "
            f"{self.n_unlabelled} have none; {self.density:.2%} of all item-annotator pairs are labelled"
        )


def coverage(annotations: Annotations) -> Coverage:
    """Count how many items have no label, one, or several.

    Examples
    --------
    >>> print(coverage(Annotations.from_dense([[0, 1], [1, -1]])))
    1 of 2 items have two labels or more, 1 have one, 0 have none; 75.00% of all item-annotator pairs are labelled
    """
    per_item = annotations.labels_per_item
    repeats = (np.diff(annotations.item) == 0) & (np.diff(annotations.annotator) == 0)
    n_pairs = annotations.n_annotations - int(repeats.sum())
    return Coverage(
        n_items=annotations.n_items,
        n_annotators=annotations.n_annotators,
        n_annotations=annotations.n_annotations,
        n_unlabelled=int((per_item == 0).sum()),
        n_single=int((per_item == 1).sum()),
        n_shared=int((per_item > 1).sum()),
        density=n_pairs / max(annotations.n_items * annotations.n_annotators, 1),
    )


@dataclass(frozen=True)
class CoLabellingGraph:
    """Groups of annotators that are connected by shared items, the group with most annotations first."""

    annotator_part: np.ma.MaskedArray[Any, Any]  # (n_annotators,) number of the group; masked without annotations
    item_part: np.ma.MaskedArray[Any, Any]  # (n_items,) likewise
    n_annotators: NDArray[np.int64]  # (n_parts,) size of each group, as the next two
    n_items: NDArray[np.int64]
    n_annotations: NDArray[np.int64]

    @property
    def n_parts(self) -> int:
        """Number of groups; annotators of different groups cannot be compared."""
        return len(self.n_annotators)

    @property
    def connected(self) -> bool:
        """Whether every annotator can be compared with every other, directly or through others."""
        return self.n_parts <= 1

    def __str__(self) -> str:
        if self.connected:
            return "Shared items connect all annotators."
        sizes = zip(self.n_annotators[:3], self.n_items[:3], strict=True)
        shown = [f"{counted(people, 'annotator')} on {counted(items, 'item')}" for people, items in sizes]
        more = "; ..." if self.n_parts > 3 else ""
        return f"The annotators form {self.n_parts} groups that share no items: {'; '.join(shown)}{more}."


def co_labelling_graph(annotations: Annotations) -> CoLabellingGraph:
    """Find groups of annotators that share no items with each other.

    Examples
    --------
    >>> graph = co_labelling_graph(Annotations.from_dense([[0, 1, -1, -1], [-1, -1, 1, 0]]))
    >>> graph.n_parts, graph.annotator_part.tolist()
    (2, [0, 0, 1, 1])
    """
    item_part, annotator_part = bipartite_components(annotations)
    n_labels = annotations.labels_per_annotator
    size = np.bincount(annotator_part, weights=n_labels, minlength=int(item_part.max(initial=-1)) + 1).astype(np.int64)
    kept = np.flatnonzero(size)
    kept = kept[np.argsort(-size[kept], kind="stable")]
    place = np.zeros(len(size), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    labelled = annotations.labels_per_item > 0
    return CoLabellingGraph(
        annotator_part=np.ma.array(place[annotator_part], mask=n_labels == 0),
        item_part=np.ma.array(place[item_part], mask=~labelled),
        n_annotators=np.bincount(place[annotator_part[n_labels > 0]], minlength=len(kept)),
        n_items=np.bincount(place[item_part[labelled]], minlength=len(kept)),
        n_annotations=size[kept],
    )


def warn_if_disconnected(annotations: Annotations, graph: CoLabellingGraph) -> None:
    """Issue an `IdentifiabilityWarning` if groups of annotators cannot be compared."""
    if graph.connected:
        return
    outside = annotations.annotators[np.flatnonzero(np.ma.filled(graph.annotator_part, 0) > 0)].tolist()
    text = (
        f"{graph} Accuracies of different groups are not comparable; outside the largest group are "
        f"{some(outside)}. Let some annotators label items of another group."
    )
    warnings.warn(text, IdentifiabilityWarning, stacklevel=3)


def beyond_chance(observed: Any, expected: Any) -> Any:
    """(observed - expected) / (1 - expected), NaN where chance alone already agrees always."""
    room = 1 - np.asarray(expected, dtype=np.float64)
    possible = room > 1e-12
    return np.where(possible, (observed - expected) / np.where(possible, room, 1.0), np.nan)[()]


def pair_table(annotations: Annotations, first: Hashable, second: Hashable) -> NDArray[np.float64]:
    """Count (label of first, label of second) over the items that both labelled: (n_classes, n_classes)."""
    codes = known_positions(annotations.annotators, [first, second], "annotators")
    if codes[0] == codes[1]:
        raise InvalidParameterError(f"{first!r} was given twice; agreement is between two different annotators.")
    responses = response_matrix(replace(annotations.select(np.isin(annotations.annotator, codes)), weight=None))
    one, two = (responses[:, code * annotations.n_classes :][:, : annotations.n_classes] for code in codes.tolist())
    table = np.asarray((one.T @ two).toarray())
    if not table.any():
        raise UnsuitableDataError(f"{first!r} and {second!r} have no item in common, so they cannot be compared.")
    return table


def _kappa(table: NDArray[np.float64], weights: KappaWeights | None = None, *, pooled: bool = False) -> float:
    powers = {None: 0, "linear": 1, "quadratic": 2}
    if weights not in powers:
        raise InvalidParameterError(f'weights must be None, "linear" or "quadratic", not {weights!r}.')
    distance = np.abs(np.subtract.outer(np.arange(len(table)), np.arange(len(table)))).astype(np.float64)
    cost = np.where(distance > 0, distance ** powers[weights], 0.0)
    share = table / table.sum()
    first, second = share.sum(axis=1), share.sum(axis=0)
    if pooled:
        first = second = (first + second) / 2
    expected = float(first @ cost @ second)
    return 1 - float((share * cost).sum()) / expected if expected > 0 else float("nan")


def cohen_kappa(
    annotations: Annotations, first: Hashable, second: Hashable, weights: KappaWeights | None = None
) -> float:
    """Cohen's kappa of two annotators on the items both labelled; optionally weighted by distance between classes.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0], [0, 1], [1, 1], [1, 1]], annotator_names=["ann", "bob"])
    >>> cohen_kappa(a, "ann", "bob")
    0.5
    """
    return _kappa(pair_table(annotations, first, second), weights)


def scott_pi(annotations: Annotations, first: Hashable, second: Hashable) -> float:
    """Scott's pi of two annotators: as Cohen's kappa, with chance by the label shares of both together.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0], [0, 1], [1, 1], [1, 1]], annotator_names=["ann", "bob"])
    >>> round(scott_pi(a, "ann", "bob"), 3)
    0.467
    """
    return _kappa(pair_table(annotations, first, second), pooled=True)


@dataclass(frozen=True)
class PairwiseAgreement:
    """One row for each pair of annotators who share items; arrays are (n_pairs,)."""

    first: NameArray
    second: NameArray
    n_common: NDArray[np.int64]  # shared items (pairs of annotations, where an annotator labelled an item repeatedly)
    raw: NDArray[np.float64]
    cohen: NDArray[np.float64]  # Cohen's kappa
    scott: NDArray[np.float64]  # Scott's pi

    def __len__(self) -> int:
        return len(self.first)

    def to_frame(self, kind: str = "polars") -> Any:
        """The table as a data frame; `kind` as in `Annotations.to_frame`."""
        return frame_of_columns(vars(self), kind)


def pairwise_agreement(annotations: Annotations) -> PairwiseAgreement:
    """Compare all pairs of annotators who share an item; the cost grows with shared items, not annotators squared.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0, -1], [0, 1, 1], [1, 1, 1]], annotator_names=["ann", "bob", "cy"])
    >>> table = pairwise_agreement(a)
    >>> table.first.tolist(), table.second.tolist(), table.n_common.tolist()
    (['ann', 'ann', 'bob'], ['bob', 'cy', 'cy'], [3, 2, 2])
    """
    entries = co_label_entries(replace(annotations, weight=None))
    common = entries.common()
    raw = entries.agreeing() / common
    cohen, scott = np.zeros((2, entries.n_pairs))  # agreement expected by chance
    for label in range(entries.n_classes):  # class by class, so that memory follows the pairs alone
        first, second = (
            sums_by(entries.pair[rows], entries.count[rows], entries.n_pairs) / common
            for rows in (entries.first_label == label, entries.second_label == label)
        )
        cohen += first * second
        scott += np.square((first + second) / 2)
    return PairwiseAgreement(
        first=annotations.annotators[entries.first],
        second=annotations.annotators[entries.second],
        n_common=common.astype(np.int64),
        raw=raw,
        cohen=beyond_chance(raw, cohen),
        scott=beyond_chance(raw, scott),
    )


@dataclass(frozen=True)
class AnnotatorAgreement:
    """One row per annotator, arrays are (n_annotators,); `str()` shows those who agree least."""

    annotators: NameArray
    n_annotations: NDArray[np.int64]
    n_compared: NDArray[np.int64]  # annotations on items that someone else labelled too
    raw: NDArray[np.float64]  # mean share of the others who gave the same label; NaN if nobody shares an item
    kappa: NDArray[np.float64]  # raw beyond chance, by the label shares of the annotator and of everyone

    def __len__(self) -> int:
        return len(self.annotators)

    def __str__(self) -> str:
        compared = np.flatnonzero(~np.isnan(self.raw))
        lowest = compared[np.argsort(self.raw[compared], kind="stable")[:5]]
        rows = [f"  {self.annotators[at]!s}: {self.raw[at]:.3f} on {self.n_compared[at]} annotations" for at in lowest]
        alone = len(self) - len(compared)
        note = f"; {counted(alone, 'annotator')} cannot be compared" if alone else ""
        return "\n".join([f"agreement with others, lowest of {counted(len(compared), 'annotator')}{note}", *rows])

    def to_frame(self, kind: str = "polars") -> Any:
        """The table as a data frame; `kind` as in `Annotations.to_frame`."""
        names = ("annotator", "annotations", "compared", "raw", "kappa")
        return frame_of_columns(dict(zip(names, vars(self).values(), strict=True)), kind)


def annotator_agreement(annotations: Annotations) -> AnnotatorAgreement:
    """Compare each annotator with all others on the items they share.

    An annotator's own repeated answers to an item are not compared with each other.

    Examples
    --------
    >>> table = annotator_agreement(Annotations.from_dense([[0, 0, 1], [1, 1, 1]], annotator_names=["a", "b", "c"]))
    >>> table.raw.tolist()
    [0.75, 0.75, 0.5]
    """
    n_annotators, n_classes = annotations.n_annotators, annotations.n_classes
    key = annotations.item.astype(np.int64) * n_classes + annotations.label
    cells, place = ranked(key, annotations.n_items * n_classes)
    # Annotations are sorted by item, annotator and label, so an annotator's answers to an item are neighbours.
    new_person = (np.diff(annotations.item, prepend=-1) != 0) | (np.diff(annotations.annotator, prepend=-1) != 0)
    new_label = new_person | (np.diff(annotations.label.astype(np.int64), prepend=-1) != 0)
    same = np.bincount(place, minlength=len(cells))[place] - run_lengths(new_label)  # labels of others on the item
    others = annotations.labels_per_item[annotations.item] - run_lengths(new_person)
    compared = others > 0
    annotator, label = annotations.annotator[compared], annotations.label[compared]
    n_compared = np.bincount(annotator, minlength=n_annotators)
    total = sums_by(annotator, same[compared] / others[compared], n_annotators)
    crowd = np.bincount(label, minlength=n_classes) / max(len(label), 1)
    chance = sums_by(annotator, crowd[label], n_annotators) / np.maximum(n_compared, 1)
    raw = np.where(n_compared > 0, total / np.maximum(n_compared, 1), np.nan)
    return AnnotatorAgreement(
        annotations.annotators, annotations.labels_per_annotator, n_compared, raw, beyond_chance(raw, chance)
    )


def run_lengths(begins: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each position, the length of the run of neighbours that it belongs to; `begins` marks where runs begin."""
    lengths = np.diff(np.flatnonzero(begins), append=len(begins))
    return np.repeat(lengths, lengths)

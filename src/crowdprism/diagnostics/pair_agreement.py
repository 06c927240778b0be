"""How far two annotators agree, and each annotator with the others, beyond chance.

A coefficient is NaN where it is not defined: both annotators gave one and the same label throughout.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import NameArray, positions
from crowdprism.annotations.pairs import CoLabelEntries, co_label_entries, ranked, response_matrix, sums_by
from crowdprism.diagnostics.label_counts import beyond_chance
from crowdprism.errors import InvalidParameterError, UnsuitableDataError, some

KappaWeights = Literal["linear", "quadratic"]
PAIR_CELLS_AT_ONCE = 2**24  # marginals of pairs are kept for as many pairs as fit this many numbers


def pair_table(annotations: Annotations, first: Hashable, second: Hashable) -> NDArray[np.float64]:
    """Count (label of first, label of second) over the items that both labelled: (n_classes, n_classes).

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0], [0, 1], [1, 1]], annotator_names=["ann", "bob"])
    >>> pair_table(a, "ann", "bob").tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    codes = positions(annotations.annotators, [first, second])
    unknown = [name for name, code in zip((first, second), codes.tolist(), strict=True) if code < 0]
    if unknown:
        raise InvalidParameterError(
            f"{some(unknown)} is not an annotator; annotators are {some(annotations.annotators.tolist())}."
        )
    if codes[0] == codes[1]:
        raise InvalidParameterError(f"{first!r} was given twice; agreement is between two different annotators.")
    rows = np.isin(annotations.annotator, codes)
    both = replace(annotations.select(rows), weight=None)
    responses = response_matrix(both)
    n_classes = annotations.n_classes
    place = [slice(int(code) * n_classes, (int(code) + 1) * n_classes) for code in codes]
    table = np.asarray((responses[:, place[0]].T @ responses[:, place[1]]).toarray())
    if not table.any():
        raise UnsuitableDataError(f"{first!r} and {second!r} have no item in common, so they cannot be compared.")
    return table


def disagreement_weights(n_classes: int, weights: KappaWeights | None) -> NDArray[np.float64]:
    """(label, label) how bad it is to confuse two labels: 0 or 1, or by their distance in the classes' order."""
    distance = np.abs(np.subtract.outer(np.arange(n_classes), np.arange(n_classes))).astype(np.float64)
    if weights is None:
        return (distance > 0).astype(np.float64)
    if weights == "linear":
        return distance
    if weights == "quadratic":
        return np.square(distance)
    raise InvalidParameterError(f'weights must be None, "linear" or "quadratic", not {weights!r}.')


def _kappa(table: NDArray[Any], first_share: NDArray[Any], second_share: NDArray[Any], cost: NDArray[Any]) -> float:
    observed = float((table * cost).sum() / table.sum())
    expected = float(first_share @ cost @ second_share)
    return 1 - observed / expected if expected > 0 else float("nan")


def cohen_kappa(
    annotations: Annotations, first: Hashable, second: Hashable, weights: KappaWeights | None = None
) -> float:
    """Cohen's kappa of two annotators on the items both labelled; weighted by distance in the classes' order if asked.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0], [0, 1], [1, 1], [1, 1]], annotator_names=["ann", "bob"])
    >>> cohen_kappa(a, "ann", "bob")
    0.5
    """
    table = pair_table(annotations, first, second)
    share = table / table.sum()
    return _kappa(table, share.sum(axis=1), share.sum(axis=0), disagreement_weights(len(table), weights))


def scott_pi(annotations: Annotations, first: Hashable, second: Hashable) -> float:
    """Scott's pi of two annotators: as Cohen's kappa, with chance by the label shares of both together.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 0], [0, 1], [1, 1], [1, 1]], annotator_names=["ann", "bob"])
    >>> round(scott_pi(a, "ann", "bob"), 3)
    0.467
    """
    table = pair_table(annotations, first, second)
    share = table / table.sum()
    pooled = (share.sum(axis=1) + share.sum(axis=0)) / 2
    return _kappa(table, pooled, pooled, disagreement_weights(len(table), None))


@dataclass(frozen=True)
class PairwiseAgreement:
    """One row for each pair of annotators that share items.

    Attributes
    ----------
    first, second
        (n_pairs,) names.
    n_common
        (n_pairs,) shared items (pairs of annotations, where an annotator labelled an item repeatedly).
    raw, cohen, scott
        (n_pairs,) raw agreement, Cohen's kappa, Scott's pi.
    """

    first: NameArray
    second: NameArray
    n_common: NDArray[np.int64]
    raw: NDArray[np.float64]
    cohen: NDArray[np.float64]
    scott: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.first)

    def to_frame(self, kind: str = "polars") -> Any:
        """The table as a data frame; `kind` as in `Annotations.to_frame`."""
        from crowdprism.annotations.frames import frame_of_columns

        columns = ("first", "second", "n_common", "raw", "cohen", "scott")
        return frame_of_columns({name: getattr(self, name) for name in columns}, kind)


def pairwise_agreement(annotations: Annotations) -> PairwiseAgreement:
    """Compare every two annotators that share an item; cost follows the shared items, not annotators squared.

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
    cohen_chance, scott_chance = chance_agreements(entries, common)
    return PairwiseAgreement(
        first=annotations.annotators[entries.first],
        second=annotations.annotators[entries.second],
        n_common=common.astype(np.int64),
        raw=raw,
        cohen=beyond_chance(raw, cohen_chance),
        scott=beyond_chance(raw, scott_chance),
    )


def chance_agreements(entries: CoLabelEntries, common: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n_pairs,) agreement expected by chance for Cohen's kappa and for Scott's pi."""
    n_pairs, n_classes = entries.n_pairs, entries.n_classes
    cohen, scott = np.empty(n_pairs), np.empty(n_pairs)
    order = np.argsort(entries.pair, kind="stable")
    step = max(PAIR_CELLS_AT_ONCE // max(n_classes, 1), 1)
    bounds = np.searchsorted(entries.pair[order], np.arange(0, n_pairs + step, step))
    for block, (low, high) in enumerate(pairwise(bounds)):
        begin, end = block * step, min((block + 1) * step, n_pairs)
        rows = order[low:high]
        place = (entries.pair[rows] - begin) * n_classes
        shape = (end - begin, n_classes)
        n_cells = shape[0] * n_classes
        divisor = common[begin:end, None]
        first = sums_by(place + entries.first_label[rows], entries.count[rows], n_cells).reshape(shape) / divisor
        second = sums_by(place + entries.second_label[rows], entries.count[rows], n_cells).reshape(shape) / divisor
        cohen[begin:end] = (first * second).sum(axis=1)
        scott[begin:end] = np.square((first + second) / 2).sum(axis=1)
    return cohen, scott


@dataclass(frozen=True)
class AnnotatorAgreement:
    """One row per annotator; `str()` shows those who agree least.

    Attributes
    ----------
    annotators
        (n_annotators,) names.
    n_annotations, n_compared
        (n_annotators,) annotations, and those on items that someone else labelled too.
    raw
        (n_annotators,) mean share of the others who gave the same label; NaN without anyone to compare with.
    kappa
        (n_annotators,) raw beyond chance, by the annotator's own label shares and those of everybody.
    """

    annotators: NameArray
    n_annotations: NDArray[np.int64]
    n_compared: NDArray[np.int64]
    raw: NDArray[np.float64]
    kappa: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.annotators)

    def __str__(self) -> str:
        compared = np.flatnonzero(~np.isnan(self.raw))
        lowest = compared[np.argsort(self.raw[compared], kind="stable")[:5]]
        rows = [
            f"  {self.annotators[row]!s}: {self.raw[row]:.3f} on {self.n_compared[row]} annotations" for row in lowest
        ]
        alone = len(self) - len(compared)
        note = f"; {alone} annotators cannot be compared" if alone else ""
        return "\n".join([f"agreement with others, lowest of {len(compared)} annotators{note}", *rows])

    def to_frame(self, kind: str = "polars") -> Any:
        """The table as a data frame; `kind` as in `Annotations.to_frame`."""
        from crowdprism.annotations.frames import frame_of_columns

        columns = {"annotator": self.annotators, "annotations": self.n_annotations, "compared": self.n_compared}
        return frame_of_columns({**columns, "raw": self.raw, "kappa": self.kappa}, kind)


def annotator_agreement(annotations: Annotations) -> AnnotatorAgreement:
    """Compare each annotator with all others on the items they share.

    An annotator's own repeated answers to an item are not compared with each other.

    Examples
    --------
    >>> table = annotator_agreement(Annotations.from_dense([[0, 0, 1], [1, 1, 1]], annotator_names=["a", "b", "c"]))
    >>> table.raw.tolist()
    [0.75, 0.75, 0.5]
    """
    same, others = compared_annotations(annotations)
    n_annotators, n_classes = annotations.n_annotators, annotations.n_classes
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


def compared_annotations(annotations: Annotations) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(n_annotations,) how many annotations of the item by others have the same label, and how many there are."""
    key = annotations.item.astype(np.int64) * annotations.n_classes + annotations.label
    cells, place = ranked(key, annotations.n_items * annotations.n_classes)
    same = np.bincount(place, minlength=len(cells))[place]
    total = annotations.labels_per_item[annotations.item]
    # Annotations are sorted by item, annotator and label, so an annotator's answers to an item are neighbours.
    new_person = (np.diff(annotations.item, prepend=-1) != 0) | (np.diff(annotations.annotator, prepend=-1) != 0)
    new_label = new_person | (np.diff(annotations.label.astype(np.int64), prepend=-1) != 0)
    return same - run_lengths(new_label), total - run_lengths(new_person)


def run_lengths(begins: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each position, the length of the run of neighbours that it belongs to; `begins` marks where runs begin.

    Examples
    --------
    >>> run_lengths(np.array([True, True, False])).tolist()
    [1, 2, 2]
    """
    lengths = np.diff(np.flatnonzero(begins), append=len(begins))
    return np.repeat(lengths, lengths)

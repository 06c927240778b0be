"""What pairs of annotators said of the items that both labelled; kept for pairs that share items only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations.container import Annotations

SMALL_KEY_RANGE = 2**20


def response_matrix(annotations: Annotations) -> Any:
    """Sparse (n_items, n_annotators * n_classes) sums of weights, in the column of annotator and label."""
    from scipy.sparse import csr_array

    n_columns = annotations.n_annotators * annotations.n_classes
    column = annotations.annotator.astype(np.int64) * annotations.n_classes + annotations.label
    weight = np.ones(annotations.n_annotations) if annotations.weight is None else annotations.weight.astype(float)
    responses = csr_array((weight, column, annotations.item_start), shape=(annotations.n_items, n_columns))
    responses.sum_duplicates()
    responses.eliminate_zeros()  # an annotation of weight 0 compares nobody
    return responses


def sums_by(group: NDArray[Any], values: NDArray[Any], n_groups: int) -> NDArray[np.float64]:
    """Sum the values of each group: (n_groups,)."""
    return np.bincount(group, weights=values, minlength=n_groups).astype(np.float64, copy=False)


@dataclass(frozen=True)
class CoLabelEntries:
    """Non-zero counts of (label of first, label of second) for pairs of annotators, first < second."""

    first: NDArray[np.int64]  # (n_pairs,) annotator codes of each pair that shares an item; sorted
    second: NDArray[np.int64]
    pair: NDArray[np.int64]  # (n_entries,) the pair's position
    first_label: NDArray[np.int64]
    second_label: NDArray[np.int64]
    count: NDArray[np.float64]  # (n_entries,) weight of items with these labels
    n_classes: int

    @property
    def n_pairs(self) -> int:
        return len(self.first)

    def common(self) -> NDArray[np.float64]:
        """(n_pairs,) weight of shared items."""
        return sums_by(self.pair, self.count, self.n_pairs)

    def agreeing(self) -> NDArray[np.float64]:
        """(n_pairs,) weight of shared items on which both gave the same label."""
        same = np.where(self.first_label == self.second_label, self.count, 0.0)
        return sums_by(self.pair, same, self.n_pairs)

    def blocks(self, keep: NDArray[np.bool_] | None = None) -> CoLabels:
        """Counts as one dense matrix per pair, for all pairs or for those of the mask `keep` (n_pairs,)."""
        if keep is None:
            keep = np.ones(self.n_pairs, dtype=bool)
        place = np.cumsum(keep) - 1
        kept = keep[self.pair]
        counts = np.zeros((int(keep.sum()), self.n_classes, self.n_classes))
        counts[place[self.pair[kept]], self.first_label[kept], self.second_label[kept]] = self.count[kept]
        return CoLabels(self.first[keep], self.second[keep], counts)


@dataclass(frozen=True)
class CoLabels:
    """Counts of label pairs as dense blocks: (pair, label of first, label of second)."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    counts: NDArray[np.float64]

    @property
    def n_classes(self) -> int:
        return int(self.counts.shape[-1])

    def both_ways(self) -> CoLabels:
        """Every pair also with the roles exchanged, sorted by first, then second."""
        first = np.concatenate([self.first, self.second])
        second = np.concatenate([self.second, self.first])
        counts = np.concatenate([self.counts, np.swapaxes(self.counts, 1, 2)])
        order = np.lexsort([second, first])
        return CoLabels(first[order], second[order], counts[order])


def ranked(key: NDArray[np.int64], n_keys: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct keys in order, and the place of each key among them; by counting where few keys are possible."""
    if n_keys <= max(8 * len(key), SMALL_KEY_RANGE):  # a pass over all possible keys is then cheaper than a sort
        present = np.zeros(n_keys, dtype=bool)
        present[key] = True
        return np.flatnonzero(present), (np.cumsum(present) - 1)[key]
    distinct, place = np.unique(key, return_inverse=True)
    return distinct, place.reshape(-1)


def pairs_on_items(annotations: Annotations) -> tuple[NDArray[Any], NDArray[Any]]:
    """Positions of all pairs of annotations of one item by two annotators; the first annotator has the lower code."""
    whole = annotations.item_start.dtype  # int32 where that is enough: there may be many pairs
    firsts, seconds = [np.empty(0, dtype=whole)], [np.empty(0, dtype=whole)]
    n_labels = annotations.labels_per_item
    for size in np.flatnonzero(np.bincount(n_labels[n_labels > 1])):
        begin = annotations.item_start[:-1][n_labels == size]
        one, two = (side.astype(whole) for side in np.triu_indices(int(size), 1))
        firsts.append((begin[:, None] + one).reshape(-1))
        seconds.append((begin[:, None] + two).reshape(-1))
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    different = annotations.annotator[first] != annotations.annotator[second]
    return (first, second) if different.all() else (first[different], second[different])


def co_label_entries(annotations: Annotations) -> CoLabelEntries:
    """Count labels that pairs of annotators gave to shared items; cost follows those pairs, not all annotators."""
    n_classes, n_annotators = annotations.n_classes, annotations.n_annotators
    responses = response_matrix(annotations)
    products = (responses.T @ responses).tocoo()
    first, first_label = np.divmod(products.coords[0].astype(np.int64), n_classes)
    second, second_label = np.divmod(products.coords[1].astype(np.int64), n_classes)
    upper = first < second
    key = first[upper] * n_annotators + second[upper]
    pairs, pair = ranked(key, n_annotators**2)
    return CoLabelEntries(
        first=pairs // max(n_annotators, 1),
        second=pairs % max(n_annotators, 1),
        pair=pair,
        first_label=first_label[upper],
        second_label=second_label[upper],
        count=products.data[upper],
        n_classes=n_classes,
    )


def bipartite_components(annotations: Annotations) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the connected groups: (of each item, of each annotator); one without annotations is its own group."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n_nodes = annotations.n_items + annotations.n_annotators
    edges = np.ones(annotations.n_annotations, dtype=np.int8)
    there = annotations.item.astype(np.int64), annotations.annotator.astype(np.int64) + annotations.n_items
    _, component = connected_components(csr_array((edges, there), shape=(n_nodes, n_nodes)), directed=False)
    component = component.astype(np.int64)
    return component[: annotations.n_items], component[annotations.n_items :]

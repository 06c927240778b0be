"""Who can be compared with whom: coverage of the items, and the parts of the crowd that share no item."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import bipartite_components
from crowdprism.errors import IdentifiabilityWarning, some


@dataclass(frozen=True)
class Coverage:
    """How thickly items are labelled; `str()` gives a readable line.

    Attributes
    ----------
    n_items, n_annotators, n_annotations
        Sizes, those without annotations included.
    n_unlabelled, n_single, n_shared
        Items with no label, with one, and with two or more (only these tell anything about agreement).
    density
        Share of all (item, annotator) pairs that have an annotation; repeats count again.
    """

    n_items: int
    n_annotators: int
    n_annotations: int
    n_unlabelled: int
    n_single: int
    n_shared: int
    density: float

    def __str__(self) -> str:
        return (
            f"{self.n_shared} of {self.n_items} items have two labels or more, {self.n_single} have one, "
            f"{self.n_unlabelled} have none; {self.density:.2%} of all item-annotator pairs are labelled"
        )


def coverage(annotations: Annotations) -> Coverage:
    """Count how thickly items are labelled.

    Examples
    --------
    >>> print(coverage(Annotations.from_dense([[0, 1], [1, -1]])))
    1 of 2 items have two labels or more, 1 have one, 0 have none; 75.00% of all item-annotator pairs are labelled
    """
    per_item = annotations.labels_per_item
    return Coverage(
        n_items=annotations.n_items,
        n_annotators=annotations.n_annotators,
        n_annotations=annotations.n_annotations,
        n_unlabelled=int((per_item == 0).sum()),
        n_single=int((per_item == 1).sum()),
        n_shared=int((per_item > 1).sum()),
        density=annotations.n_annotations / max(annotations.n_items * annotations.n_annotators, 1),
    )


@dataclass(frozen=True)
class CoLabellingGraph:
    """Parts of the crowd that are connected by shared items, the part with most annotations first.

    Attributes
    ----------
    annotator_part, item_part
        (n_annotators,), (n_items,) number of the part; masked for those without annotations.
    n_annotators, n_items, n_annotations
        (n_parts,) sizes of the parts.
    """

    annotator_part: np.ma.MaskedArray[Any, Any]
    item_part: np.ma.MaskedArray[Any, Any]
    n_annotators: NDArray[np.int64]
    n_items: NDArray[np.int64]
    n_annotations: NDArray[np.int64]

    @property
    def n_parts(self) -> int:
        """Number of parts; more than one cannot be compared with each other."""
        return len(self.n_annotators)

    @property
    def connected(self) -> bool:
        """Whether every annotator can be compared with every other, if only through third persons."""
        return self.n_parts <= 1

    def __str__(self) -> str:
        if self.connected:
            return "all annotators are connected by shared items"
        shown = [
            f"{people} annotators on {items} items"
            for people, items in zip(self.n_annotators[:3].tolist(), self.n_items[:3].tolist(), strict=True)
        ]
        more = f", ... ({self.n_parts} in all)" if self.n_parts > 3 else ""
        return f"{self.n_parts} groups of annotators share no item with each other: {'; '.join(shown)}{more}"


def co_labelling_graph(annotations: Annotations) -> CoLabellingGraph:
    """Find the parts of the crowd that no item connects.

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


def warn_if_disconnected(annotations: Annotations, graph: CoLabellingGraph) -> str | None:
    """Issue an `IdentifiabilityWarning` where parts of the crowd cannot be compared; returns its text."""
    if graph.connected:
        return None
    outside = annotations.annotators[np.flatnonzero(np.ma.filled(graph.annotator_part, 0) > 0)].tolist()
    text = (
        f"The crowd falls apart: {graph}. Accuracies of different groups are not comparable; outside the largest "
        f"are {some(outside)}. Let some annotators label items of another group."
    )
    warnings.warn(text, IdentifiabilityWarning, stacklevel=3)
    return text

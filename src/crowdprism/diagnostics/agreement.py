"""How far a crowd agrees, beyond chance: coefficients, and one report.

All come from counts of labels per item in one pass over the annotations. Weights of annotations are not used:
agreement is about what was said. Where an annotator labelled an item repeatedly, crowd coefficients count each
answer; pairs are always of different annotators. A coefficient is NaN where it is not defined: no disagreement is
possible when only one label was ever given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import sums_by
from crowdprism.diagnostics.co_labelling import (
    CoLabellingGraph,
    Coverage,
    co_labelling_graph,
    coverage,
    warn_if_disconnected,
)
from crowdprism.diagnostics.label_counts import LabelCounts, beyond_chance, cells_by_item, label_counts
from crowdprism.diagnostics.pair_agreement import AnnotatorAgreement, annotator_agreement
from crowdprism.errors import InvalidParameterError, some

Level = Literal["nominal", "ordinal", "interval"]


def item_agreement(counts: LabelCounts) -> NDArray[np.float64]:
    """(n_items,) share of agreeing pairs among the item's annotations; 0 for items with fewer than two."""
    agreeing = sums_by(counts.item, counts.count * (counts.count - 1), len(counts.per_item))
    pairs = counts.per_item * (counts.per_item - 1)
    return np.asarray(agreeing / np.maximum(pairs, 1))


def raw_agreement(annotations: Annotations) -> float:
    """Share of agreeing pairs of annotations on an item, averaged over items with two or more.

    Examples
    --------
    >>> raw_agreement(Annotations.from_dense([[0, 0], [0, 1]]))
    0.5
    """
    counts = label_counts(annotations)
    return float(item_agreement(counts)[counts.shared].mean())


def fleiss_kappa(annotations: Annotations) -> float:
    """Fleiss' kappa: raw agreement beyond what the crowd's label shares would give by chance.

    Items may have different numbers of annotations; those with fewer than two are left out (Fleiss 1971, with
    the mean over items of each item's own agreement).

    Examples
    --------
    >>> fleiss_kappa(Annotations.from_dense([[0, 0], [1, 1], [0, 1], [1, 0]]))
    0.0
    """
    counts = label_counts(annotations)
    return _fleiss(counts)


def _fleiss(counts: LabelCounts) -> float:
    share = counts.per_label / counts.n_annotations
    return float(beyond_chance(item_agreement(counts)[counts.shared].mean(), share @ share))


def gwet_ac1(annotations: Annotations) -> float:
    """Gwet's AC1: raw agreement beyond chance, steadier than kappa where one label is much more frequent.

    Chance agreement is the sum of p (1 - p) / (n_classes - 1) over labels, p being the mean over items of the
    label's share (Gwet 2008).

    Examples
    --------
    >>> round(gwet_ac1(Annotations.from_dense([[0, 0], [0, 0], [0, 0], [0, 1]])), 3)
    0.68
    """
    return _gwet(annotations, label_counts(annotations))


def _gwet(annotations: Annotations, counts: LabelCounts) -> float:
    key, count = cells_by_item(annotations)  # here items with one annotation speak for the shares too
    item, label = key // annotations.n_classes, key % annotations.n_classes
    per_item = annotations.labels_per_item
    share = sums_by(label, count / per_item[item], annotations.n_classes) / (per_item > 0).sum()
    chance = float((share * (1 - share)).sum() / (annotations.n_classes - 1))
    return float(beyond_chance(item_agreement(counts)[counts.shared].mean(), chance))


def krippendorff_alpha(
    annotations: Annotations, level: Level = "nominal", *, values: Mapping[Any, float] | None = None
) -> float:
    """Krippendorff's alpha: 1 - observed / expected disagreement; any number of annotators, labels may be missing.

    Parameters
    ----------
    level
        How labels differ: `"nominal"` (equal or not), `"ordinal"` (by how many annotations lie between them, in
        the order of the classes) or `"interval"` (squared difference of their values).
    values
        For `"interval"`: number by class name. Needed where class names are not numbers.

    Examples
    --------
    >>> a = Annotations.from_dense([[1, 1], [2, 2], [3, 2], [3, 3]])
    >>> [round(krippendorff_alpha(a, level), 3) for level in ("nominal", "ordinal", "interval")]
    [0.667, 0.79, 0.821]
    """
    return _alpha(label_counts(annotations), level, annotations, values)


def _alpha(
    counts: LabelCounts, level: Level, annotations: Annotations, values: Mapping[Any, float] | None = None
) -> float:
    n = counts.n_annotations
    totals = counts.per_label
    if level == "nominal":
        agreeing = float((counts.count * (counts.count - 1) / (counts.per_item[counts.item] - 1)).sum())
        observed, expected = n - agreeing, float(n * n - totals @ totals) / (n - 1)
    else:
        distance = label_distances(totals, level, annotations, values)
        observed = float((coincidences(counts) * distance).sum())
        expected = float(totals @ distance @ totals) / (n - 1)
    return float(1 - observed / expected) if expected > 0 else float("nan")


def coincidences(counts: LabelCounts) -> NDArray[np.float64]:
    """Coincidence matrix (label, label): pairs of annotations on an item, each item counting its annotations.

    The diagonal holds pairs of an annotation with itself too; no distance ever looks at it.
    """
    from scipy.sparse import csr_array

    table = csr_array(
        (counts.count.astype(np.float64), (counts.item, counts.label)),
        shape=(len(counts.per_item), counts.n_classes),
    )
    scaled = csr_array(
        (counts.count / (counts.per_item[counts.item] - 1), (counts.item, counts.label)), shape=table.shape
    )
    return np.asarray((scaled.T @ table).toarray())


def label_distances(
    totals: NDArray[Any], level: Level, annotations: Annotations, values: Mapping[Any, float] | None
) -> NDArray[np.float64]:
    """Squared distances (label, label) of Krippendorff (2011) for ordinal and interval labels."""
    if level == "ordinal":
        place = np.cumsum(totals) - totals / 2  # mean rank, so that differences count what lies between
    elif level == "interval":
        place = interval_values(annotations, values)
    else:
        raise InvalidParameterError(f'level must be "nominal", "ordinal" or "interval", not {level!r}.')
    return np.square(place[:, None] - place[None, :])


def interval_values(annotations: Annotations, values: Mapping[Any, float] | None) -> NDArray[np.float64]:
    """(n_classes,) the number each class stands for."""
    names = annotations.classes.tolist()
    if values is None:
        wrong = [name for name in names if isinstance(name, bool) or not isinstance(name, (int, float))]
        remedy = "Pass values={class name: number}, or use level='ordinal'."
    else:
        wrong = [name for name in names if name not in values]
        remedy = "Give a number for each in values."
    if wrong:
        raise InvalidParameterError(f"{len(wrong)} of {len(names)} classes have no number: {some(wrong)}. {remedy}")
    return np.array([name if values is None else values[name] for name in names], dtype=np.float64)


@dataclass(frozen=True)
class AgreementReport:
    """How far a crowd agrees; `str()` gives a readable page. Coefficients are NaN where not defined.

    Attributes
    ----------
    raw, fleiss, alpha, ac1
        As `raw_agreement`, `fleiss_kappa`, `krippendorff_alpha` (nominal) and `gwet_ac1` give them.
    alpha_ordinal
        Alpha with the classes in their order; meaningful only where that order is.
    coverage, graph
        How thickly items are labelled, and which annotators can be compared.
    annotators
        One row per annotator.
    """

    raw: float
    fleiss: float
    alpha: float
    alpha_ordinal: float
    ac1: float
    coverage: Coverage
    graph: CoLabellingGraph
    annotators: AnnotatorAgreement

    def __str__(self) -> str:
        figures = [
            ("raw agreement", self.raw),
            ("Krippendorff's alpha", self.alpha),
            ("  if the order of classes means something", self.alpha_ordinal),
            ("Fleiss' kappa", self.fleiss),
            ("Gwet's AC1", self.ac1),
        ]
        width = max(len(name) for name, _ in figures)
        lines = [f"{name:<{width}}  {shown(value)}" for name, value in figures]
        return "\n".join([*lines, f"coverage: {self.coverage}", f"comparable: {self.graph}", str(self.annotators)])


def shown(value: float) -> str:
    """A coefficient with three digits, or why there is none."""
    return "not defined: only one label was given" if np.isnan(value) else f"{value:.3f}"


def agreement(annotations: Annotations) -> AgreementReport:
    """Measure how far a crowd agrees, by every common coefficient, with coverage and one row per annotator.

    Groups of annotators that share no item with each other are an `IdentifiabilityWarning`.

    Examples
    --------
    >>> report = agreement(Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]]))
    >>> round(report.raw, 3), round(report.alpha, 3)
    (0.667, 0.389)
    """
    counts = label_counts(annotations)
    graph = co_labelling_graph(annotations)
    warn_if_disconnected(annotations, graph)
    return AgreementReport(
        raw=float(item_agreement(counts)[counts.shared].mean()),
        fleiss=_fleiss(counts),
        alpha=_alpha(counts, "nominal", annotations),
        alpha_ordinal=_alpha(counts, "ordinal", annotations),
        ac1=_gwet(annotations, counts),
        coverage=coverage(annotations),
        graph=graph,
        annotators=annotator_agreement(annotations),
    )

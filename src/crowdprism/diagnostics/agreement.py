"""How far a crowd agrees beyond chance: coefficients, and one report.

All coefficients come from counts of labels per item, in one pass over the annotations. Weights of annotations are not
used: agreement is about what was said. Repeated answers of an annotator to an item each count in crowd coefficients;
pairs are always of different annotators. A coefficient is NaN where it is not defined: if only one label was ever
given, no disagreement is possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.choice_sets import MultiLabelAnnotations
from crowdprism.annotations.pairs import ranked, sums_by
from crowdprism.annotations.summary import class_scores
from crowdprism.diagnostics import co_labelling
from crowdprism.errors import InvalidParameterError, UnsuitableDataError, some

Level = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True)
class LabelCounts:
    """Non-zero counts of (item, label) over items with at least two annotations, sorted by item."""

    item: NDArray[np.int64]  # (n_cells,)
    label: NDArray[np.int64]  # (n_cells,)
    count: NDArray[np.int64]  # (n_cells,)
    per_item: NDArray[np.int64]  # (n_items,) annotations of each item, 0 where it has fewer than two
    n_classes: int

    @property
    def per_label(self) -> NDArray[np.float64]:
        """(n_classes,) annotations with each label, on these items."""
        return sums_by(self.label, self.count, self.n_classes)

    @property
    def n_annotations(self) -> int:
        return int(self.per_item.sum())

    @property
    def agreement(self) -> float:
        """Share of agreeing pairs of annotations on an item, averaged over items."""
        agreeing = sums_by(self.item, self.count * (self.count - 1), len(self.per_item))
        pairs = self.per_item * (self.per_item - 1)
        return float((agreeing / np.maximum(pairs, 1))[pairs > 0].mean())


def cells_by_item(annotations: Annotations) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Item, label and number of annotations of each (item, label) that occurs, sorted by item."""
    key = annotations.item.astype(np.int64) * annotations.n_classes + annotations.label
    occurring, place = ranked(key, annotations.n_items * annotations.n_classes)
    return occurring // annotations.n_classes, occurring % annotations.n_classes, np.bincount(place)


def label_counts(annotations: Annotations) -> LabelCounts:
    """Count labels per item, for items with two annotations or more; repeats by one annotator count each."""
    item, label, count = cells_by_item(annotations)
    per_item = np.where(annotations.labels_per_item > 1, annotations.labels_per_item, 0)
    if not per_item.any():
        raise UnsuitableDataError(
            f"None of the {annotations.n_items} items has two annotations, so agreement cannot be measured. "
            "Let a second annotator label some of the items."
        )
    kept = per_item[item] > 0
    return LabelCounts(item[kept], label[kept], count[kept], per_item, annotations.n_classes)


def raw_agreement(annotations: Annotations) -> float:
    """Share of agreeing pairs of annotations on an item, averaged over items with two or more.

    Examples
    --------
    >>> raw_agreement(Annotations.from_dense([[0, 0], [0, 1]]))
    0.5
    """
    return label_counts(annotations).agreement


def fleiss_kappa(annotations: Annotations) -> float:
    """Fleiss' kappa: raw agreement beyond what the crowd's label shares would give by chance.

    Items may have different numbers of annotations; those with fewer than two are left out (Fleiss 1971, with
    the mean over items of each item's own agreement).

    Examples
    --------
    >>> fleiss_kappa(Annotations.from_dense([[0, 0], [1, 1], [0, 1], [1, 0]]))
    0.0
    """
    return _fleiss(label_counts(annotations))


def _fleiss(counts: LabelCounts) -> float:
    share = counts.per_label / counts.n_annotations
    return float(co_labelling.beyond_chance(counts.agreement, share @ share))


def gwet_ac1(annotations: Annotations) -> float:
    """Gwet's AC1: raw agreement beyond chance, more stable than kappa if one label is much more frequent.

    Chance agreement is the sum of p (1 - p) / (n_classes - 1) over labels, p being the mean over items of the
    label's share (Gwet 2008).

    Examples
    --------
    >>> round(gwet_ac1(Annotations.from_dense([[0, 0], [0, 0], [0, 0], [0, 1]])), 3)
    0.68
    """
    return _gwet(annotations, label_counts(annotations))


def _gwet(annotations: Annotations, counts: LabelCounts) -> float:
    item, label, count = cells_by_item(annotations)  # items with one annotation count for the shares too
    per_item = annotations.labels_per_item
    share = sums_by(label, count / per_item[item], annotations.n_classes) / (per_item > 0).sum()
    chance = float((share * (1 - share)).sum() / (annotations.n_classes - 1))
    return float(co_labelling.beyond_chance(counts.agreement, chance))


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
        For `"interval"`: number by class name. Needed if class names are not numbers.

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
    n, totals = counts.n_annotations, counts.per_label
    if level == "nominal":  # without a table of all pairs of classes
        agreeing = float((counts.count * (counts.count - 1) / (counts.per_item[counts.item] - 1)).sum())
        expected = float(n * n - totals @ totals) / (n - 1)
        return float(1 - (n - agreeing) / expected) if expected > 0 else float("nan")
    if level == "ordinal":
        place = np.cumsum(totals) - totals / 2  # mean rank, so that differences count what lies between
    elif level == "interval":
        place = interval_values(annotations, values)
    else:
        raise InvalidParameterError(f'level must be "nominal", "ordinal" or "interval", not {level!r}.')
    return _alpha_of(counts, np.square(place[:, None] - place[None, :]))


def _alpha_of(counts: LabelCounts, distance: NDArray[np.float64]) -> float:
    """Krippendorff's alpha by squared distances of labels (label, label)."""
    from scipy.sparse import csr_array

    cells, shape = (counts.item, counts.label), (len(counts.per_item), counts.n_classes)
    table = csr_array((counts.count.astype(np.float64), cells), shape=shape)
    scaled = csr_array((counts.count / (counts.per_item[counts.item] - 1), cells), shape=shape)
    # Pairs of annotations on an item, each item weighted by its annotations; pairs of one with itself have distance 0.
    coincidences = np.asarray((scaled.T @ table).toarray())  # (label, label)
    observed = float((coincidences * distance).sum())
    expected = float(counts.per_label @ distance @ counts.per_label) / (counts.n_annotations - 1)
    return 1 - observed / expected if expected > 0 else float("nan")


def retest_agreement(annotations: Annotations) -> tuple[int, float]:
    """How reliably annotators repeat themselves: pairs of answers by one annotator to one item, and the share equal.

    The share is NaN where nobody answered an item twice.

    Examples
    --------
    >>> retest_agreement(Annotations.from_triplets([1, 1, 2, 2, 3], ["a"] * 5, ["x", "x", "x", "y", "x"]))
    (2, 0.5)
    """
    person = annotations.item.astype(np.int64) * annotations.n_annotators + annotations.annotator
    answer = person * annotations.n_classes + annotations.label
    times = (np.unique(key, return_counts=True)[1] for key in (person, answer))
    pairs, equal = (int((n * (n - 1) // 2).sum()) for n in times)
    return pairs, equal / pairs if pairs else float("nan")


def masi_alpha(annotations: MultiLabelAnnotations) -> float:
    """Krippendorff's alpha for sets of choices with the MASI distance (Passonneau 2006).

    The distance of two sets is 1 - Jaccard index x monotonicity, which is 1 for equal sets, 2/3 if one holds the other,
    1/3 if they overlap and 0 if they share nothing. Two empty sets are equal.

    Examples
    --------
    >>> m = MultiLabelAnnotations.from_triplets([1, 1, 2, 2], ["a", "b"] * 2, [["x"], ["x", "y"], ["y"], ["y"]])
    >>> round(masi_alpha(m), 3)
    0.5
    """
    return _alpha_of(label_counts(annotations.sets), masi_distances(annotations.members))


def masi_distances(members: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(n_sets, n_sets) MASI distance of sets given as rows of ticks."""
    ticks = members.astype(np.float64)
    both, size = ticks @ ticks.T, ticks.sum(axis=1)
    union = size[:, None] + size[None] - both
    smaller, equal = np.minimum(size[:, None], size[None]), union == both
    monotonicity = np.select([equal, both == smaller, both > 0], [1.0, 2 / 3, 1 / 3], 0.0)
    return np.asarray(1 - np.where(union > 0, both / np.maximum(union, 1), 1.0) * monotonicity)


def interval_values(annotations: Annotations, values: Mapping[Any, float] | None) -> NDArray[np.float64]:
    """(n_classes,) the number each class stands for."""
    names = annotations.classes.tolist()
    remedy = "Give a number for each in values."
    if values is None:
        values = {name: name for name in names if isinstance(name, (int, float)) and not isinstance(name, bool)}
        remedy = "Pass values={class name: number}, or use level='ordinal'."
    wrong = [name for name in names if name not in values]
    if wrong:
        raise InvalidParameterError(f"{len(wrong)} of {len(names)} classes have no number: {some(wrong)}. {remedy}")
    return np.array([values[name] for name in names], dtype=np.float64)


@dataclass(frozen=True)
class AgreementReport:
    """How far a crowd agrees; `str()` gives a readable page. Coefficients are NaN where not defined.

    `raw`, `fleiss`, `alpha` and `ac1` are those of `raw_agreement`, `fleiss_kappa`, `krippendorff_alpha` (nominal) and
    `gwet_ac1`, `retest` that of `retest_agreement`; `alpha_ordinal` is None unless the classes have an order or are
    numbers.
    """

    raw: float
    fleiss: float
    alpha: float
    alpha_ordinal: float | None
    ac1: float
    coverage: co_labelling.Coverage
    graph: co_labelling.CoLabellingGraph
    annotators: co_labelling.AnnotatorAgreement
    retest: tuple[int, float] = (0, float("nan"))

    def __str__(self) -> str:
        figures = [
            ("raw agreement", self.raw),
            ("Krippendorff's alpha", self.alpha),
            *([] if self.alpha_ordinal is None else [("  ordinal", self.alpha_ordinal)]),
            ("Fleiss' kappa", self.fleiss),
            ("Gwet's AC1", self.ac1),
        ]
        width = max(len(name) for name, _ in figures)
        undefined = "not defined: only one label was given"
        lines = [f"{name:<{width}}  {undefined if np.isnan(value) else f'{value:.3f}'}" for name, value in figures]
        pairs, share = self.retest
        again = [f"annotators repeat their own answer in {share:.0%} of {pairs} pairs"] if pairs else []
        return "\n".join([*lines, *again, f"coverage: {self.coverage}", str(self.graph), str(self.annotators)])


def agreement(annotations: Annotations) -> AgreementReport:
    """Measure how far a crowd agrees: every common coefficient, coverage, and one row per annotator.

    Issues an `IdentifiabilityWarning` if groups of annotators share no items.

    Examples
    --------
    >>> report = agreement(Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 1, 0]]))
    >>> round(report.raw, 3), round(report.alpha, 3)
    (0.667, 0.389)
    """
    counts = label_counts(annotations)
    graph = co_labelling.co_labelling_graph(annotations)
    co_labelling.warn_if_disconnected(annotations, graph)
    return AgreementReport(
        raw=counts.agreement,
        fleiss=_fleiss(counts),
        alpha=_alpha(counts, "nominal", annotations),
        alpha_ordinal=None if class_scores(annotations) is None else _alpha(counts, "ordinal", annotations),
        ac1=_gwet(annotations, counts),
        coverage=co_labelling.coverage(annotations),
        graph=graph,
        annotators=co_labelling.annotator_agreement(annotations),
        retest=retest_agreement(annotations),
    )

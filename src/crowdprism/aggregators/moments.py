"""What methods of moments share: which annotators can be used, the order of classes, and the EM that follows.

`GoldVote` measures confusions on gold in place of moments (Snow et al. 2008).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import Aggregator, with_gold_classes
from crowdprism.aggregators.dawid_skene import maximize, model_of_confusions
from crowdprism.aggregators.em import FloatArray, climb
from crowdprism.aggregators.expectation import ConfusionPass
from crowdprism.aggregators.known_annotators import ConfusionPrior
from crowdprism.aggregators.majority_vote import mean_of_labelled, vote_totals
from crowdprism.annotations import Annotations
from crowdprism.annotations.gold import known_classes
from crowdprism.annotations.pairs import CoLabels, co_label_entries
from crowdprism.errors import UnsuitableDataError
from crowdprism.parameters import Allowed, Real, Whole
from crowdprism.results import FitResult, confusion
from crowdprism.results.confusion import class_alignment, confusion_counts, normalize_rows, pooled_confusion

SMALLEST_PROBABILITY = 1e-6  # moments of finite samples give zeros and negatives where probabilities are small
MAX_CLASSES = 64  # third moments have n_classes^3 entries, and items must outnumber them
LEAST_USABLE_SHARE = 0.5  # of annotations by annotators who can be used; below it the rest decides
NO_GOLD = "There is no gold to measure annotators on, so all have the crowd's confusions: this is a vote. Add gold."


@dataclass(frozen=True)
class VoteStart:
    """Confusions by the items' vote shares: a rough reference that fixes which class is which."""

    confusions: FloatArray  # (n_annotators, true class, given label), held near the crowd's
    pooled: FloatArray  # (true class, given label) of the crowd
    prior: FloatArray  # (n_classes,) mean vote shares


def vote_start(annotations: Annotations, *, method: str) -> VoteStart:
    """Measure annotators against vote shares; refuses crowds whose confusions would not fit in memory."""
    require_block_room(annotations.n_annotators, annotations.n_classes, method, of="annotators")
    totals = vote_totals(annotations)
    shares = with_gold_classes(normalize_rows(totals), annotations)
    counts = confusion_counts(annotations, shares)
    pooled = np.asarray(pooled_confusion(counts), dtype=np.float64)
    prior = mean_of_labelled(shares, totals.sum(axis=1) > 0)
    return VoteStart(np.asarray(normalize_rows(counts + pooled), dtype=np.float64), pooled, prior)


def probability_rows(rows: NDArray[Any]) -> FloatArray:
    """Rows that should be probabilities, floored at a small positive value and divided by their sum."""
    return np.asarray(normalize_rows(np.maximum(rows, SMALLEST_PROBABILITY)), dtype=np.float64)


def in_class_order(rows: NDArray[Any], reference: NDArray[Any]) -> FloatArray:
    """Bring confusion rows (true class, given label) found in any order into the order closest to the reference."""
    return np.asarray(rows[class_alignment(rows[None], reference[None])])


def usable_pairs(annotations: Annotations, *, least_shared: int, method: str) -> tuple[CoLabels, NDArray[np.bool_]]:
    """Pairs of annotators with enough shared items, and a mask of who takes part in any; refuse if these are few."""
    entries, given = co_label_entries(annotations), annotations.labels_per_annotator
    common = entries.common()
    keep = common >= least_shared
    usable = np.zeros(annotations.n_annotators, dtype=bool)
    usable[entries.first[keep]] = usable[entries.second[keep]] = True
    share = given[usable].sum() / max(given.sum(), 1)
    if usable.sum() < 3 or share < LEAST_USABLE_SHARE:
        raise UnsuitableDataError(
            f"{method} learns from items that two annotators share and needs pairs with at least {least_shared} of "
            f"them: only {int(usable.sum())} of {annotations.n_annotators} annotators have such a partner (they gave "
            f"{share:.0%} of the annotations; three annotators and {LEAST_USABLE_SHARE:.0%} are needed), and the "
            f"closest pair shares {common.max(initial=0.0):g} items. Use dawid-skene, whose prior pools annotators."
        )
    require_block_room(int(keep.sum()), annotations.n_classes, method)
    return entries.blocks(keep), usable


def require_block_room(count: int, n_classes: int, method: str, *, of: str = "pairs of annotators") -> None:
    """Refuse where one matrix for each of so many pairs (or annotators) would not fit in memory."""
    size = 8 * count * n_classes**2
    if size > confusion.MAX_TABLE_BYTES:
        raise UnsuitableDataError(
            f"{method} keeps a {n_classes} x {n_classes} matrix for each of {count} {of}, "
            f"{size / 2**30:.1f} GiB; the limit is {confusion.MAX_TABLE_BYTES / 2**30:.0f} GiB. Use dawid-skene."
        )


def require_few_classes(annotations: Annotations, method: str) -> None:
    if annotations.n_classes > MAX_CLASSES:
        most = f"{annotations.n_classes} classes are more than {MAX_CLASSES}"
        raise UnsuitableDataError(f"{method} uses moments with n_classes^3 entries; {most}. Use dawid-skene.")


def by_annotator(annotator: NDArray[Any], values: NDArray[Any], n_annotators: int) -> FloatArray:
    """Sum `values` (n, ...) over the rows of each annotator: (n_annotators, ...)."""
    from scipy.sparse import csr_array

    rows = np.arange(len(annotator))
    incidence = csr_array((np.ones(len(annotator)), (annotator, rows)), shape=(n_annotators, len(annotator)))
    flat = values.reshape(len(annotator), int(np.prod(values.shape[1:])))
    return np.asarray(incidence @ flat).reshape(n_annotators, *values.shape[1:])


class MomentAggregator(Aggregator):
    """A method that estimates confusions from moments and then lets a few rounds of EM use every annotation."""

    em_rounds: int
    prior_strength: float
    _allowed: ClassVar[Mapping[str, Allowed]] = {"em_rounds": Whole(0)}

    def _finish(
        self,
        annotations: Annotations,
        confusions: NDArray[Any],
        class_prior: NDArray[Any],
        *,
        pooled: NDArray[Any],
        history: dict[str, list[float]] | None = None,
        notes: tuple[str, ...] = (),
    ) -> FitResult:
        """Class probabilities by the estimate (`em_rounds=0`), or by EM that starts from it."""
        pseudo_counts = self.prior_strength * pooled
        parts = refine_by_em(annotations, confusions, class_prior, pseudo_counts=pseudo_counts, max_iter=self.em_rounds)
        parts["history"] = {**(history or {}), **parts["history"]}
        return self._build_result(annotations, warnings=notes, **parts)


def refine_by_em(
    annotations: Annotations,
    confusions: NDArray[Any],  # (n_annotators, true class, given label)
    class_prior: NDArray[Any],
    *,
    pseudo_counts: NDArray[Any],  # (true class, given label), the same for every annotator
    max_iter: int,
) -> dict[str, Any]:
    """Parts of a result, by Dawid-Skene EM from given confusions and class prior; with `max_iter=0` by these alone."""
    evidence = ConfusionPass(annotations, method="Dawid-Skene")
    cells = evidence.cells
    given = model_of_confusions(confusions, class_prior, cells)
    if max_iter == 0:
        parts = {"class_probabilities": evidence.expect(given).kept, "class_prior": given.class_prior, "history": {}}
        return {**parts, "confusions": np.asarray(confusions, dtype=np.float64)}
    common = ConfusionPrior(np.asarray(pseudo_counts))
    prior = common.on_cells(cells)

    # The first model is the outcome of an M step, so that every objective is comparable.
    start = maximize(evidence.expect(given, keep=False), cells, prior=prior)
    run = climb(evidence, start, lambda _, found: maximize(found, cells, prior=prior), title="EM", max_iter=max_iter)
    last = evidence.expect(run.model)
    estimate = normalize_rows(cells.dense(last.counts) + common.dense(cells.n_annotators))
    parts = {"class_probabilities": last.kept, "confusions": np.asarray(estimate, dtype=np.float64)}
    return {**parts, "class_prior": run.model.class_prior, "history": {"objective": run.objective}}


def unusable_note(unusable: NDArray[np.bool_]) -> tuple[str, ...]:
    """Say how many annotators were measured against votes instead."""
    count, started = int(unusable.sum()), "their confusions started from vote shares"
    return (f"{count} annotators share too few items with others; {started}.",) if count else ()


@dataclass(eq=False, repr=False)
class GoldVote(Aggregator):
    """Measure each annotator on items with gold only, and combine labels by Bayes' rule.

    Unlike `DawidSkene` with gold, labels of other items teach nothing about annotators: the choice where gold is
    plentiful and annotators may agree on the same mistakes. Annotators without labels on gold items have the crowd's
    confusions by vote shares; so do all where there is no gold, and `result_.warnings` says so.

    Parameters
    ----------
    prior_strength
        Pseudo-annotations per confusion row, spread as the crowd errs.

    Examples
    --------
    >>> a = Annotations.from_dense([[0, 1, 1], [1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 1, 1]])
    >>> calibrated = a.with_gold({0: 0, 1: 1, 2: 0, 3: 1})
    >>> int(GoldVote().fit(calibrated).result_.labels()[4])  # the two who agree were wrong on every gold item
    0
    """

    name: ClassVar[str] = "gold-vote"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"prior_strength": Real(0, above=True)}
    prior_strength: float = 1.0

    def _aggregate(self, annotations: Annotations) -> FitResult:
        crowd = vote_start(annotations, method="GoldVote")
        gold = known_classes(annotations)
        truth = np.zeros((annotations.n_items, annotations.n_classes))
        if gold is not None:
            truth[gold >= 0, gold[gold >= 0]] = 1.0
        pseudo_counts = self.prior_strength * crowd.pooled
        confusions = normalize_rows(confusion_counts(annotations, truth) + pseudo_counts)
        parts = refine_by_em(annotations, confusions, crowd.prior, pseudo_counts=pseudo_counts, max_iter=0)
        return self._build_result(annotations, warnings=(NO_GOLD,) if gold is None else (), **parts)

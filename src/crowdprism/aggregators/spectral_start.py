"""What methods of moments share: which annotators can be used, the order of classes, and the EM that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.base import Aggregator
from crowdprism.aggregators.confusion_em import em
from crowdprism.aggregators.majority_vote import vote_shares, vote_totals
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import CoLabelEntries, CoLabels, co_label_entries
from crowdprism.errors import InvalidParameterError, UnsuitableDataError
from crowdprism.results import FitResult
from crowdprism.results.confusion import class_alignment, confusion_counts, normalize_rows, pooled_confusion

SMALLEST_PROBABILITY = 1e-6  # moments of finite samples give zeros and negatives where probabilities are small
LEAST_USABLE_SHARE = 0.5  # of annotations by annotators who can be used; below it the rest decides
MAX_BLOCK_BYTES = 2**31


@dataclass(frozen=True)
class VoteStart:
    """Confusions by the items' vote shares: a rough reference that fixes which class is which.

    Attributes
    ----------
    confusions
        (n_annotators, true class, given label), each row held near the crowd's by one pseudo-annotation.
    pooled
        (true class, given label) of the crowd.
    prior
        (n_classes,) mean vote shares.
    """

    confusions: NDArray[np.float64]
    pooled: NDArray[np.float64]
    prior: NDArray[np.float64]


def vote_start(annotations: Annotations) -> VoteStart:
    """Measure annotators against vote shares."""
    totals = vote_totals(annotations)
    shares = vote_shares(totals, np.full(annotations.n_classes, 1 / annotations.n_classes))
    counts = confusion_counts(annotations, shares)
    pooled = np.asarray(pooled_confusion(counts), dtype=np.float64)
    labelled = totals.sum(axis=1) > 0
    prior = shares[labelled].mean(axis=0) if labelled.any() else shares.mean(axis=0)
    return VoteStart(np.asarray(normalize_rows(counts + pooled), dtype=np.float64), pooled, prior)


def probability_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Rows that should be probabilities, floored at a small positive value and divided by their sum."""
    return np.asarray(normalize_rows(np.maximum(rows, SMALLEST_PROBABILITY)), dtype=np.float64)


def in_class_order(rows: NDArray[Any], reference: NDArray[Any]) -> NDArray[np.float64]:
    """Bring confusion rows (true class, given label) found in any order into the order closest to the reference.

    Examples
    --------
    >>> in_class_order(np.array([[0.1, 0.9], [0.8, 0.2]]), np.eye(2)).tolist()
    [[0.8, 0.2], [0.1, 0.9]]
    """
    return np.asarray(rows[class_alignment(rows[None], reference[None])])


@dataclass(frozen=True)
class UsablePairs:
    """Pairs of annotators with enough shared items, and who takes part in any."""

    co_labels: CoLabels
    usable: NDArray[np.bool_]  # (n_annotators,)


def usable_pairs(annotations: Annotations, *, least_shared: int, method: str) -> UsablePairs:
    """Keep pairs that share at least `least_shared` items; refuse where too few annotators are left."""
    entries = co_label_entries(annotations)
    keep = entries.common() >= least_shared
    usable = np.zeros(annotations.n_annotators, dtype=bool)
    usable[entries.first[keep]] = usable[entries.second[keep]] = True
    require_co_labels(annotations, entries, usable, least_shared=least_shared, method=method)
    require_block_room(int(keep.sum()), annotations.n_classes, method)
    return UsablePairs(entries.blocks(keep), usable)


def require_co_labels(
    annotations: Annotations, entries: CoLabelEntries, usable: NDArray[np.bool_], *, least_shared: int, method: str
) -> None:
    """Refuse where fewer than three annotators, or those who gave less than half the annotations, can be used."""
    given = annotations.labels_per_annotator
    share = given[usable].sum() / max(given.sum(), 1)
    if usable.sum() >= 3 and share >= LEAST_USABLE_SHARE:
        return
    most = entries.common().max(initial=0.0)
    raise UnsuitableDataError(
        f"{method} learns from items that two annotators share and needs pairs with at least {least_shared} of "
        f"them: only {int(usable.sum())} of {annotations.n_annotators} annotators have such a partner (they gave "
        f"{share:.0%} of the annotations; three annotators and {LEAST_USABLE_SHARE:.0%} are needed), and the "
        f"closest pair shares {most:g} items. Use dawid-skene, whose prior pools sparse annotators."
    )


def require_block_room(count: int, n_classes: int, method: str, *, of: str = "pairs of annotators") -> None:
    """Refuse where one matrix for each of so many pairs (or annotators) would not fit in memory."""
    size = 8 * count * n_classes**2
    if size > MAX_BLOCK_BYTES:
        raise UnsuitableDataError(
            f"{method} keeps a {n_classes} x {n_classes} matrix for each of {count} {of}, "
            f"{size / 2**30:.1f} GiB; the limit is {MAX_BLOCK_BYTES / 2**30:.0f} GiB. Use dawid-skene."
        )


def by_annotator(annotator: NDArray[Any], values: NDArray[Any], n_annotators: int) -> NDArray[np.float64]:
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

    def _check_stage(self, annotations: Annotations) -> None:
        if self.em_rounds < 0:
            raise InvalidParameterError(f"em_rounds must be at least 0, not {self.em_rounds}.")
        if not (np.isfinite(self.prior_strength) and self.prior_strength >= 0):
            raise InvalidParameterError(f"prior_strength must be finite and at least 0, not {self.prior_strength}.")
        require_block_room(annotations.n_annotators, annotations.n_classes, type(self).__name__, of="annotators")

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
        fit = em(
            annotations,
            confusions=confusions,
            class_prior=class_prior,
            pseudo_counts=self.prior_strength * pooled,
            max_iter=self.em_rounds,
        )
        parts = {} if history is None else dict(history)
        if fit.objective:
            parts["objective"] = fit.objective
        return self._build_result(
            annotations,
            fit.class_probabilities,
            confusions=fit.confusions,
            class_prior=fit.class_prior,
            history=parts,
            warnings=notes,
        )


def unusable_note(unusable: NDArray[np.bool_]) -> tuple[str, ...]:
    """Say how many annotators were measured against votes instead."""
    n = int(unusable.sum())
    if not n:
        return ()
    return (f"{n} annotators share too few items with others; their confusions started from vote shares.",)

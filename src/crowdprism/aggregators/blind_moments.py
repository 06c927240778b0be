"""Blind moments: confusions fitted to the first three moments of labels at once (Traganitis, Pages-Zamora, Giannakis).

"Blind multiclass ensemble classification", IEEE Transactions on Signal Processing 2018. With class shares p and
confusions C, labels of one annotator have shares p C, those of two the joint shares C' diag(p) D, and those of three a
tensor of rank n_classes. Confusions follow by alternating least squares on the simplex, each by ADMM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.moments import (
    MomentAggregator,
    require_block_room,
    require_few_classes,
    unusable_note,
    usable_pairs,
    vote_start,
)
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import CoLabels, response_matrix
from crowdprism.parameters import Allowed, Whole
from crowdprism.progress import progress
from crowdprism.results import FitResult

TRIPLES_EACH = 3  # third moments that are kept per annotator, with those who share most items
ADMM_STEPS = 10  # per annotator and round; the next round goes on from there


def onto_simplex(rows: FloatArray) -> FloatArray:
    """The nearest probabilities to each row."""
    ordered = -np.sort(-rows, axis=-1)
    excess = (np.cumsum(ordered, axis=-1) - 1) / np.arange(1, rows.shape[-1] + 1)
    last = (ordered > excess).sum(axis=-1, keepdims=True) - 1
    return np.maximum(rows - np.take_along_axis(excess, last, axis=-1), 0.0)


def squares(rows: FloatArray) -> FloatArray:
    """Products of all pairs of rows (..., row, row); not `@`, whose order of sums may follow the number of threads."""
    return np.asarray(np.einsum("...ka,...la->...kl", rows, rows))


def constrained_least_squares(gram: FloatArray, right: FloatArray, start: FloatArray) -> FloatArray:
    """Rows X >= 0 (n_classes, n_labels) that sum to one and minimise tr(X' gram X) / 2 - tr(X' right), by ADMM."""
    size = len(gram)
    pace = max(float(np.trace(gram)) / size, 1e-12)  # the paper's choice of ADMM's step
    factor = np.linalg.inv(gram + pace * np.eye(size))
    found, slack = start, np.zeros_like(start)
    for _ in range(ADMM_STEPS):
        free = factor @ (right + pace * (found - slack))
        found = onto_simplex(free + slack)
        slack = slack + free - found
    return found


@dataclass(frozen=True)
class LabelMoments:
    """Shares of labels, of pairs and of triples of labels, and which annotators they belong to."""

    single: FloatArray  # (n_annotators, label)
    pairs: CoLabels  # both ways; shares instead of counts
    triples: NDArray[np.int64]  # (n_triples, 3) annotators
    third: FloatArray  # (n_triples, label, label, label)

    def normal_equations(self, who: int, confusions: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gram and right side of the least squares for one annotator's confusion, the others' being given."""
        gram = np.outer(prior, prior)
        right = np.outer(prior, self.single[who])
        for place in range(*np.searchsorted(self.pairs.first, [who, who + 1])):
            weighted = prior[:, None] * confusions[self.pairs.second[place]]  # (true class, label of the other)
            gram = gram + squares(weighted)
            right = right + weighted @ self.pairs.counts[place].T
        for row, position in np.argwhere(self.triples == who):
            one, two = (confusions[self.triples[row, other]] for other in range(3) if other != position)
            gram = gram + np.outer(prior, prior) * squares(one) * squares(two)
            tensor = np.moveaxis(self.third[row], position, 0)  # (own label, label of one, label of two)
            right = right + prior[:, None] * np.einsum("lab,ka,kb->kl", tensor, one, two)
        return gram, right

    def error(self, confusions: FloatArray, prior: FloatArray) -> float:
        """Sum of squares between the moments and what the confusions say they are."""
        single = np.square(prior @ confusions - self.single)[self.single.any(axis=1)].sum()
        first, second = confusions[self.pairs.first], confusions[self.pairs.second]
        pairs = np.square(np.einsum("k,pka,pkb->pab", prior, first, second) - self.pairs.counts).sum() / 2
        one, two, three = (confusions[self.triples[:, place]] for place in range(3))
        third = np.square(np.einsum("k,tka,tkb,tkc->tabc", prior, one, two, three, optimize=True) - self.third).sum()
        return float(single + pairs + third)


def label_moments(annotations: Annotations, pairs: CoLabels) -> LabelMoments:
    """Gather the shares of labels, of pairs with enough shared items, and of the triples with most."""
    responses = response_matrix(annotations)
    totals = np.asarray(responses.sum(axis=0)).reshape(annotations.n_annotators, annotations.n_classes)
    single = totals / np.maximum(totals.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    both = pairs.both_ways()
    sizes = both.counts.sum(axis=(1, 2))
    triples, size = closest_triples(both, sizes), annotations.n_classes
    require_block_room(len(triples) * size, size, "BlindMoments", of="labels of triples of annotators")
    third = [third_moment(responses, triple, size) for triple in triples]
    kept = [place for place, tensor in enumerate(third) if tensor.any()]
    return LabelMoments(
        single,
        CoLabels(both.first, both.second, both.counts / sizes[:, None, None]),
        np.array(triples, dtype=np.int64).reshape(-1, 3)[kept],
        np.array([third[place] for place in kept]).reshape(-1, size, size, size),
    )


def closest_triples(both: CoLabels, sizes: FloatArray) -> list[tuple[int, int, int]]:
    """For each annotator, neighbours in the list of partners by shared items; each triple once."""
    found = set()
    for who in np.unique(both.first):
        own = slice(*np.searchsorted(both.first, [who, who + 1]))
        partners = both.second[own][np.argsort(-sizes[own], kind="stable")][: TRIPLES_EACH + 1]
        for one, two in pairwise(partners):
            found.add(tuple(sorted((int(who), int(one), int(two)))))
    return sorted(found)  # type: ignore[arg-type]


def third_moment(responses: Any, triple: tuple[int, int, int], n_classes: int) -> FloatArray:
    """Shares of what three annotators said of the items they all labelled: (label, label, label); zeros without any."""
    one, two, three = (responses[:, who * n_classes : (who + 1) * n_classes] for who in triple)
    tensor = np.stack([(one.multiply(three[:, [label]])).T.dot(two).toarray() for label in range(n_classes)], axis=2)
    return np.asarray(tensor / max(tensor.sum(), np.finfo(float).tiny))


@dataclass(eq=False, repr=False)
class BlindMoments(MomentAggregator):
    """Fit all annotators' confusions to label shares of one, two and three annotators, then run a few rounds of EM.

    Needs annotators who share many items. Confusions start from vote shares, which also fixes which class is which.

    Parameters
    ----------
    em_rounds, prior_strength
        As in `MultiSPA`.
    least_shared
        Fewest shared items of a pair whose shares are used.
    max_iter, tolerance
        Rounds over all annotators; they end when the squared error falls by less than this share of itself.

    Examples
    --------
    >>> from crowdprism.simulate import one_coin, per_item, simulate_annotations
    >>> a = simulate_annotations(np.arange(300) % 3, one_coin([0.9, 0.8, 0.7, 0.9], 3), per_item(300, 4, labels=4))
    >>> bool((BlindMoments(use_gold=False).fit(a).result_.labels() == a.gold).mean() > 0.95)
    True
    """

    name: ClassVar[str] = "blind-moments"
    _allowed: ClassVar[Mapping[str, Allowed]] = {"least_shared": Whole(1)}
    em_rounds: int = 10
    prior_strength: float = 1.0
    least_shared: int = 5
    max_iter: int = 50
    tolerance: float = 1e-3

    def _aggregate(self, annotations: Annotations) -> FitResult:
        require_few_classes(annotations, "BlindMoments")
        pairs, usable = usable_pairs(annotations, least_shared=self.least_shared, method="BlindMoments")
        votes = vote_start(annotations, method="BlindMoments")
        moments = label_moments(annotations, pairs)
        confusions, prior, errors = self._fit_moments(moments, votes.confusions, votes.prior, usable)
        history, notes = {"squared_error": errors}, unusable_note(~usable)
        return self._finish(annotations, confusions, prior, pooled=votes.pooled, history=history, notes=notes)

    def _fit_moments(
        self, moments: LabelMoments, confusions: FloatArray, prior: FloatArray, usable: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray, list[float]]:
        confusions, errors = confusions.copy(), [moments.error(confusions, prior)]
        with progress("BlindMoments", total=self.max_iter) as bar:
            for _ in range(self.max_iter):
                for who in np.flatnonzero(usable):
                    gram, right = moments.normal_equations(int(who), confusions, prior)
                    confusions[who] = constrained_least_squares(gram, right, confusions[who])
                prior = class_shares(moments, confusions, prior)
                errors.append(moments.error(confusions, prior))
                bar.advance(note=f"squared error {errors[-1]:.3g}")
                if errors[-2] - errors[-1] <= self.tolerance * errors[-2]:
                    break
        return confusions, prior, errors[1:]


def class_shares(moments: LabelMoments, confusions: FloatArray, start: FloatArray) -> FloatArray:
    """The class shares that fit the first and second moments best, the confusions being given: (n_classes,)."""
    active = moments.single.any(axis=1)
    first, second = confusions[moments.pairs.first], confusions[moments.pairs.second]
    gram = np.einsum("mka,mla->kl", confusions[active], confusions[active])
    gram += np.einsum("pkl,pkl->kl", squares(first), squares(second))
    right = np.einsum("mka,ma->k", confusions[active], moments.single[active])
    right += np.einsum("pka,pka->k", first, np.einsum("pab,pkb->pka", moments.pairs.counts, second))
    return constrained_least_squares(gram, right, start)

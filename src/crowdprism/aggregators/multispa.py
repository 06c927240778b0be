"""MultiSPA: confusions from what pairs of annotators say of shared items (Ibrahim, Fu, Kargas and Huang 2019).

The joint label distribution of annotators m and j is R = sum over true classes k of prior[k] * confusion of m[k] x
confusion of j[k]. Each column of R, divided by its sum, is a mixture of the confusion rows of m; where some j
gives a label to one class only, the column *is* a row. Successive projection finds those columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators import moments
from crowdprism.aggregators.em import FloatArray
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import CoLabels
from crowdprism.parameters import Allowed, Real
from crowdprism.progress import progress
from crowdprism.results import FitResult

SMALLEST_JOINT = 1e-12  # floor of a modelled label pair: what is divided by must not be zero
VANISHED = 1e-9  # squared length of a remainder, relative to the longest vector, that is zero but for rounding


def successive_projection(vectors: NDArray[Any], n_picks: int) -> NDArray[np.int64]:
    """Pick vectors (n, dimension) that span the cone of all: the longest, then the longest after projecting it out...

    Returns fewer than `n_picks` positions where the vectors span fewer dimensions.
    """
    remainder = np.array(vectors, dtype=np.float64)
    picks: list[int] = []
    longest = float(np.square(remainder).sum(axis=1).max(initial=0.0))
    for _ in range(n_picks):
        lengths = np.square(remainder).sum(axis=1)
        # Equal lengths are taken in order, whatever the last digit of their sums says.
        pick = int(np.argmax(lengths >= lengths.max(initial=0.0) * (1 - 1e-12))) if len(lengths) else 0
        if not len(lengths) or lengths[pick] <= VANISHED * longest:
            break
        picks.append(pick)
        direction = remainder[pick] / np.sqrt(lengths[pick])
        remainder -= np.outer((remainder * direction).sum(axis=1), direction)
    return np.array(picks, dtype=np.int64)


@dataclass(frozen=True)
class PairModel:
    """Confusions (n_annotators, true class, given label) and class prior that explain pairs of labels."""

    confusions: FloatArray
    prior: FloatArray


def anchored_confusions(
    co_labels: CoLabels, *, reference: NDArray[Any], least_mass: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Confusions by successive projection, each annotator's classes in the order closest to the reference.

    Columns count an annotator's labels on items to which a partner gave one label. Those with less than `least_mass`
    are left out: a single shared item always looks like a pure one. Annotators whose columns span too few dimensions
    keep the reference; the mask (n_annotators,) tells who was found.
    """
    n_annotators, n_classes = len(reference), co_labels.n_classes
    pairs = co_labels.both_ways()
    columns = np.swapaxes(pairs.counts, 1, 2)  # (pair, label of partner, label of annotator)
    bounds = np.searchsorted(pairs.first, np.arange(n_annotators + 1))
    least_mass = max(least_mass, np.finfo(np.float64).tiny)
    confusions, found = np.array(reference, dtype=np.float64), np.zeros(n_annotators, dtype=bool)
    with progress("successive projection", total=n_annotators) as bar:
        for annotator in range(n_annotators):
            own = columns[bounds[annotator] : bounds[annotator + 1]].reshape(-1, n_classes)
            mass = own.sum(axis=1)
            shares = own[mass >= least_mass] / mass[mass >= least_mass, None]
            picks = successive_projection(shares, n_classes)
            if len(picks) == n_classes:
                confusions[annotator] = moments.in_class_order(shares[picks], reference[annotator])
                found[annotator] = True
            bar.advance()
    return confusions, found


def pair_prior(co_labels: CoLabels, confusions: NDArray[Any]) -> FloatArray:
    """Class prior by non-negative least squares of all pairs' label shares on the confusions."""
    from scipy.optimize import nnls

    n_classes = co_labels.n_classes
    total = co_labels.counts.sum(axis=(1, 2))
    first, second = confusions[co_labels.first], confusions[co_labels.second]
    alike = (first @ np.swapaxes(first, 1, 2)) * (second @ np.swapaxes(second, 1, 2))  # (pair, class, class)
    gram = (total[:, None, None] * alike).sum(axis=0)
    target = ((first @ co_labels.counts) * second).sum(axis=(0, 2))
    # A common factor keeps the solver's tolerance meaningful whatever the number of annotations.
    shares = nnls(gram / total.sum(), target / total.sum())[0]
    return np.asarray(moments.probability_rows(shares[None] if shares.any() else np.ones((1, n_classes)))[0])


def refine_by_likelihood(
    co_labels: CoLabels, start: PairModel, *, iterations: int, tolerance: float
) -> tuple[PairModel, list[float]]:
    """Maximise the composite likelihood of all label pairs; returns the model and the mean per pair after each round.

    Each round is EM with the true class of a pair as the hidden variable, so the objective never falls.
    """
    model, objective = start, []
    total = co_labels.counts.sum()
    with progress("MultiSPA-KL", total=iterations) as bar:
        for _ in range(iterations):
            model, likelihood = likelihood_step(co_labels, model)
            objective.append(likelihood / total)
            bar.advance(note=f"log likelihood {objective[-1]:.5f}")
            if len(objective) > 1 and objective[-1] - objective[-2] <= tolerance * abs(objective[-2]):
                break
    return model, objective


def likelihood_step(co_labels: CoLabels, model: PairModel) -> tuple[PairModel, float]:
    """One majorisation step; the log likelihood returned is that of the model given."""
    first, second = model.confusions[co_labels.first], model.confusions[co_labels.second]
    weighted = first * model.prior[:, None]  # (pair, true class, label of first)
    joint = np.maximum(np.swapaxes(weighted, 1, 2) @ second, SMALLEST_JOINT)
    ratio = co_labels.counts / joint
    likelihood = float((co_labels.counts * np.log(joint)).sum())
    of_first = weighted * (second @ np.swapaxes(ratio, 1, 2))
    of_second = second * (weighted @ ratio)
    n_annotators = len(model.confusions)
    counts = moments.by_annotator(co_labels.first, of_first, n_annotators)
    counts += moments.by_annotator(co_labels.second, of_second, n_annotators)
    seen = counts.sum(axis=2, keepdims=True) > 0
    confusions = np.where(seen, moments.probability_rows(counts), model.confusions)
    shares = of_first.sum(axis=(0, 2)) / co_labels.counts.sum()
    return PairModel(confusions, np.asarray(moments.probability_rows(shares[None])[0])), likelihood


class ProjectionAggregator(moments.MomentAggregator):
    """What MultiSPA and MultiSPA-KL share."""

    least_shared: int
    least_mass: float | None
    iterations, tolerance = 0, 0.0  # of the refinement
    _allowed: ClassVar[Mapping[str, Allowed]] = {"least_mass": (Real(0), None)}

    def _aggregate(self, annotations: Annotations) -> FitResult:
        votes = moments.vote_start(annotations, method=type(self).__name__)
        pairs, _ = moments.usable_pairs(annotations, least_shared=self.least_shared, method="MultiSPA")
        least_mass = annotations.n_classes + 1 if self.least_mass is None else self.least_mass
        rows, found = anchored_confusions(pairs, reference=votes.confusions, least_mass=least_mass)
        start = PairModel(moments.probability_rows(rows), pair_prior(pairs, moments.probability_rows(rows)))
        model, objective = refine_by_likelihood(pairs, start, iterations=self.iterations, tolerance=self.tolerance)
        history = {"pair_log_likelihood": objective} if objective else {}
        notes = moments.unusable_note(~found & (annotations.labels_per_annotator > 0))
        return self._finish(
            annotations, model.confusions, model.prior, pooled=votes.pooled, history=history, notes=notes
        )


@dataclass(eq=False, repr=False)
class MultiSPA(ProjectionAggregator):
    """Confusions from pairs of annotators by successive projection, then a few rounds of EM.

    Needs annotators who share many items, and for each class and annotator a partner who gives some label (nearly)
    only to that class. Class order comes from the vote shares.

    Parameters
    ----------
    least_shared
        Pairs that share fewer items are left out.
    least_mass
        Columns with fewer counts are left out. None: as many as there are classes, plus one.
    em_rounds
        Rounds of EM after the estimate; 0 takes the estimate as it is.
    prior_strength
        Pseudo-annotations per confusion row in EM, as in `DawidSkene`.

    Examples
    --------
    >>> from crowdprism.simulate import one_coin, per_item, simulate_annotations
    >>> a = simulate_annotations(np.arange(300) % 3, one_coin([0.9, 0.8, 0.7, 0.9], 3), per_item(300, 4, labels=4))
    >>> bool((MultiSPA(use_gold=False).fit(a).result_.labels() == a.gold).mean() > 0.95)
    True
    """

    name: ClassVar[str] = "multispa"
    least_shared: int = 10
    least_mass: float | None = None
    em_rounds: int = 10
    prior_strength: float = 1.0


@dataclass(eq=False, repr=False)
class MultiSPAKL(ProjectionAggregator):
    """MultiSPA, refined so that the modelled label pairs diverge least from the observed ones.

    Pairs weigh by their shared items; the paper weighs all pairs alike, which lets rare pairs add noise.

    Parameters
    ----------
    iterations, tolerance
        Rounds of refinement; they end when the objective gains less than `tolerance` of its size.
    least_shared, least_mass, em_rounds, prior_strength
        As in `MultiSPA`.
    """

    name: ClassVar[str] = "multispa-kl"
    iterations: int = 1000
    tolerance: float = 1e-7
    least_shared: int = 10
    least_mass: float | None = None
    em_rounds: int = 10
    prior_strength: float = 1.0

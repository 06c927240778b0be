"""An account of every annotator: how good, careless or adverse, which class is overused, who is alike, who copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.frames import frame_of_columns
from crowdprism.annotations.names import NameArray
from crowdprism.annotations.pairs import pairs_on_items
from crowdprism.diagnostics.label_evidence import (
    ACCURACY_GRID,
    CHANCE_BAND,
    FLOOR,
    FloatArray,
    LabelEvidence,
    class_probabilities_without,
    columns_of,
    label_evidence,
    log_seen,
    matching,
    require_confusions,
    vote_table,
)
from crowdprism.errors import UnsuitableDataError
from crowdprism.results import FitResult
from crowdprism.results.confusion import cell_counts, normalize_logs

CLEAR = 0.9  # posterior probability from which on a kind is stated
MIN_LABELS_FOR_TREND = 10
TAILS = ((1 - 0.95) / 2, 1 - (1 - 0.95) / 2)  # of the interval of the accuracy
GROUP_DISTANCE = 0.5  # Hellinger distance; 0 is alike, 1 is never the same label
MAX_GROUPED = 5_000  # clustering compares all pairs

MIN_COMMON = 10  # shared items before copying is considered
MIN_PAIRS = 20  # pairs needed to tell what is usual in the crowd
SUSPICIOUS_Z = 5.0  # one in three million pairs goes so far by chance
ENTRIES_AT_ONCE = 2_000_000  # confusion entries gathered for a block of pairs, 16 MB


@dataclass(frozen=True)
class AnnotatorReport:
    """What the labels of each annotator say, judged by features, prior and the other annotators.

    Arrays are (n_annotators,) in the order of `annotators`; NaN is not known. A name in `_z` is in standard errors.
    `spammer_score` is that of Raykar and Yu (2012). Shrinkage pulls it up for spammers with few labels, so kinds follow
    `spammer_probability`.
    """

    annotators: NameArray
    classes: NameArray
    n_labels: NDArray[np.int64]
    quality: FloatArray  # accuracy, with a 95 % credible interval
    quality_low: FloatArray
    quality_high: FloatArray
    information: FloatArray  # bits that one label tells about the true class, by the fitted confusion
    spammer_score: FloatArray  # how far the fitted confusion's rows differ: 0 for a spammer, 1 for a perfect annotator
    spammer_probability: FloatArray  # posterior probability that the labels do not depend on the true class
    kind: NDArray[Any]  # "reliable", "careless" (spammer), "adverse" (against the truth) or "unclear" (few labels)
    overused: NDArray[np.int64]  # the class given more often than it occurs
    overuse: FloatArray  # its excess as a share of labels
    overuse_z: FloatArray
    speed: FloatArray  # rank correlation of being right with time spent
    speed_z: FloatArray
    drift: FloatArray  # rank correlation of being right with time passed
    drift_z: FloatArray

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per annotator, in the user's own names."""
        columns = {"annotator": self.annotators} | vars(self) | {"overused": self.classes[self.overused]}
        del columns["annotators"], columns["classes"]
        return frame_of_columns(columns, kind)


def annotator_report(result: FitResult, annotations: Annotations) -> AnnotatorReport:
    """Judge every annotator by the others.

    Examples
    --------
    >>> from crowdprism.aggregators import make_aggregator
    >>> from crowdprism.simulate import demo_annotations
    >>> a = demo_annotations(np.arange(1300) % 10)
    >>> report = annotator_report(make_aggregator("dawid-skene", use_gold=False).fit(a).result_, a)
    >>> report.kind[0], report.kind[-1]
    ('reliable', 'adverse')
    """
    annotations = matching(result, annotations)
    without = class_probabilities_without(result, annotations)
    evidence = label_evidence(annotations, without)
    right = without[np.arange(len(without)), annotations.label]
    unknown = np.full(result.n_annotators, np.nan)
    confusions = result.confusions
    overused, overuse, overuse_z = bias_direction(annotations, without, evidence.counts)
    speed, speed_z = trend(annotations.annotator, right, annotations.duration, result.n_annotators)
    drift, drift_z = trend(annotations.annotator, right, annotations.timestamp, result.n_annotators)
    cumulative = evidence.accuracy.cumsum(axis=1)  # its tails of 2.5 % lie outside the interval
    low, high = (ACCURACY_GRID[np.minimum((cumulative < tail).sum(axis=1), len(ACCURACY_GRID) - 1)] for tail in TAILS)
    return AnnotatorReport(
        annotators=result.annotators,
        classes=result.classes,
        n_labels=annotations.labels_per_annotator,
        quality=evidence.accuracy @ ACCURACY_GRID,
        quality_low=low,
        quality_high=high,
        information=unknown if confusions is None else label_information(confusions, class_prior_of(result)),
        spammer_score=unknown if confusions is None else spammer_score(confusions),
        spammer_probability=evidence.spammer_probability,
        kind=kinds(evidence),
        overused=overused,
        overuse=overuse,
        overuse_z=overuse_z,
        speed=speed,
        speed_z=speed_z,
        drift=drift,
        drift_z=drift_z,
    )


def kinds(evidence: LabelEvidence) -> NDArray[Any]:
    """Name each annotator's kind: (n_annotators,) strings."""
    n_labels = evidence.counts.sum(axis=(1, 2))
    chance = 1 / evidence.counts.shape[1]
    careless = evidence.spammer_probability
    # Half the band around chance: what others say is itself noisy, so an adversary's accuracy is seen too high.
    below = chance + CHANCE_BAND / 2 * (1 - chance) > ACCURACY_GRID
    against = evidence.accuracy[:, below].sum(axis=1) > 0.5
    named = np.where(careless > 0.5, "careless", np.where(against, "adverse", "reliable"))
    few = (n_labels < MIN_LABELS_FOR_TREND) & (careless > 1 - CLEAR) & (careless < CLEAR)
    return np.where(few, "unclear", named).astype(object)


def class_prior_of(result: FitResult) -> FloatArray:
    """The result's class prior, or the mean of its class probabilities."""
    prior = result.class_probabilities.mean(axis=0) if result.class_prior is None else result.class_prior
    return np.asarray(prior, dtype=float)


def spammer_score(confusions: Any) -> FloatArray:
    """Mean squared difference between rows of each confusion, over 2: 0 if rank one, 1 if perfect."""
    table = np.asarray(confusions, dtype=float)
    spread = np.square(table - table.mean(axis=1, keepdims=True)).sum(axis=(1, 2))
    return np.asarray(spread / (table.shape[1] - 1))


def label_information(confusions: Any, prior: FloatArray) -> FloatArray:
    """Mutual information of true class and given label in bits: (n_annotators,)."""
    table = np.asarray(confusions, dtype=float)
    given = np.einsum("k,mkl->ml", prior, table)
    return np.asarray((entropy(given) - np.einsum("k,mk->m", prior, entropy(table))) / np.log(2))


def entropy(shares: Any) -> FloatArray:
    """Entropy in nats along the last axis."""
    from scipy.special import entr

    return np.asarray(entr(shares).sum(axis=-1))


def bias_direction(
    annotations: Annotations, without: FloatArray, counts: FloatArray
) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """The most overused class of each annotator, the excess as a share of labels, and in standard errors."""
    given, expected = np.rint(counts.sum(axis=1)), counts.sum(axis=2)
    columns = (without * (1 - without)).T
    spread = np.stack([np.bincount(annotations.annotator, column, len(counts)) for column in columns], axis=1)
    n_labels = np.maximum(given.sum(axis=1), 1)
    excess = given - expected
    overused = excess.argmax(axis=1)
    most = (np.arange(len(counts)), overused)
    # A label's own chance variation is added: an annotator who errs at random also misses the expected counts.
    noise = np.sqrt(spread + given * (1 - given / n_labels[:, None]) + 1.0)
    return overused, excess[most] / n_labels, excess[most] / noise[most]


def trend(
    annotator: NDArray[Any], right: FloatArray, when: NDArray[Any] | None, n_annotators: int
) -> tuple[FloatArray, FloatArray]:
    """Rank correlation of being right with a number per annotation, for each annotator; NaN where unknown."""
    correlation = np.full(n_annotators, np.nan)
    if when is None:
        return correlation, correlation
    from scipy.stats import rankdata  # takes long to load, and few data have times

    known = np.flatnonzero(np.isfinite(when))
    order = known[np.argsort(annotator[known], kind="stable")]
    starts = np.searchsorted(annotator[order], np.arange(n_annotators + 1))
    counts = np.diff(starts)
    for person in np.flatnonzero(counts >= MIN_LABELS_FOR_TREND):
        rows = order[starts[person] : starts[person + 1]]
        first, second = rankdata(right[rows]), rankdata(when[rows])
        if first.std() > 0 and second.std() > 0:
            correlation[person] = np.corrcoef(first, second)[0, 1]
    return correlation, correlation * np.sqrt(np.maximum(counts - 1, 0))


def similar_annotators(result: FitResult, *, distance: float = GROUP_DISTANCE) -> NDArray[np.int64]:
    """Groups of annotators with like confusions, numbered from the largest: (n_annotators,).

    Clusters by complete linkage: no two annotators of a group are farther apart than `distance` (Hellinger, weighted
    by the class prior).

    Examples
    --------
    >>> from crowdprism.aggregators import make_aggregator
    >>> a = Annotations.from_dense([[0, 0, 1]] * 20 + [[1, 1, 0]] * 20)
    >>> similar_annotators(make_aggregator("dawid-skene").fit(a).result_).tolist()
    [0, 0, 1]
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    confusions = require_confusions(result, "Grouping annotators")
    if len(confusions) > MAX_GROUPED:
        raise UnsuitableDataError(
            f"Grouping compares all pairs and {len(confusions)} annotators are more than {MAX_GROUPED}. "
            "Leave out annotators with few labels (Annotations.drop_annotators)."
        )
    if len(confusions) < 2:
        return np.zeros(len(confusions), dtype=np.int64)
    weighted = np.sqrt(confusions * class_prior_of(result)[:, None] / 2)
    found = fcluster(linkage(weighted.reshape(len(confusions), -1), "complete"), distance, "distance") - 1
    by_size = np.argsort(-np.bincount(found), kind="stable")
    return np.asarray(np.argsort(by_size)[found], dtype=np.int64)


@dataclass(frozen=True)
class CopyingSuspicion:
    """Pairs of annotators who agree more often than their confusions explain, the most suspicious first."""

    first: NDArray[np.int64]  # (n_pairs,) annotator positions; all others are (n_pairs,) too
    second: NDArray[np.int64]
    common: NDArray[np.int64]  # shared items
    agreements: NDArray[np.int64]
    expected: FloatArray
    z: FloatArray  # excess in standard errors beyond what is usual in this crowd


def copying(annotations: Annotations, *, z: float = SUSPICIOUS_Z) -> CopyingSuspicion:
    """Find pairs who agree beyond what their confusions explain.

    For every item that two annotators share, the chance of agreement follows from their confusions and from what
    everyone else says about the item. Confusions are counted against the votes of the others, because a method that
    learned from the copies believes that the copied annotator is always right. Items that are hard for everyone raise
    the agreement of all pairs, so the excess is compared with the other pairs of the crowd. The outcome is a suspicion
    to look into, not a proof.

    Examples
    --------
    >>> from crowdprism.simulate import one_coin, per_item, simulate_annotations
    >>> honest = simulate_annotations(np.arange(300) % 3, one_coin([0.7] * 6, 3), per_item(300, 6, labels=6))
    >>> table = honest.to_dense()
    >>> found = copying(Annotations.from_dense(np.column_stack([table, table[:, 0]])))
    >>> found.first.tolist(), found.second.tolist()
    ([0], [6])
    """
    confusions, log_items = judged_by_votes(annotations)
    log_labels, n_annotators = columns_of(np.log(confusions), annotations), annotations.n_annotators
    one, two = pairs_on_items(annotations)
    key = annotations.annotator[one].astype(np.int64) * n_annotators + annotations.annotator[two]
    order = np.argsort(key, kind="stable")
    one, two, key = one[order], two[order], key[order]
    is_new = np.diff(key, prepend=-1) > 0
    pair = np.cumsum(is_new) - 1  # the place among pairs of annotators, which are sorted
    often = np.bincount(pair)[pair] >= MIN_COMMON  # most pairs of a large crowd share too few items to be judged
    one, two, key, is_new = one[often], two[often], key[often], is_new[often]
    pair = np.cumsum(is_new) - 1
    first, second = np.divmod(key[is_new], max(n_annotators, 1))
    expected = np.empty(len(pair))
    at_once = max(1, ENTRIES_AT_ONCE // annotations.n_classes**2)
    for start in range(0, len(pair), at_once):
        rows = slice(start, start + at_once)
        begin, end = pair[rows][0], pair[rows][-1] + 1
        equal = np.einsum("pkl,pkl->pk", confusions[first[begin:end]], confusions[second[begin:end]])  # by true class
        log = log_items[annotations.item[one[rows]]] - log_labels[one[rows]] - log_labels[two[rows]]
        expected[rows] = (normalize_logs(log) * equal[pair[rows] - begin]).sum(axis=1)
    same = annotations.label[one] == annotations.label[two]
    return suspicious_pairs((first, second), pair, same, expected, z)


def judged_by_votes(annotations: Annotations) -> tuple[FloatArray, FloatArray]:
    """Confusions counted against the votes of the others, and log class shares of the items that follow from them."""
    votes = vote_table(annotations)
    prior = (votes.sum(axis=0) + 1) / (votes.sum() + annotations.n_classes)
    others = votes[annotations.item] + prior
    others[np.arange(len(others)), annotations.label] -= 1
    counts = cell_counts(annotations, (others / others.sum(axis=1, keepdims=True)).T) + 1 / annotations.n_classes
    confusions = counts / counts.sum(axis=2, keepdims=True)
    return confusions, np.log(prior) + log_seen(annotations, confusions)


def suspicious_pairs(
    people: tuple[NDArray[np.int64], NDArray[np.int64]],  # (n_pairs,) each, the annotators of each pair
    pair: NDArray[np.int64],  # (n_comparisons,) which pair is compared
    same: NDArray[np.bool_],
    expected: FloatArray,
    threshold: float,
) -> CopyingSuspicion:
    """Add up agreements by pair of annotators and keep the pairs far above expectation."""
    n_pairs = len(people[0])
    common = np.bincount(pair, minlength=n_pairs)
    seen = np.bincount(pair, same, n_pairs)
    mean = np.bincount(pair, expected, n_pairs).astype(np.float64)
    spread = np.sqrt(np.bincount(pair, expected * (1 - expected), n_pairs) + FLOOR)
    excess = (seen - mean) / spread
    if n_pairs >= MIN_PAIRS:  # measured from the median of all pairs, in units of their usual scatter
        centre = np.median(excess)
        usual = 1.4826 * np.median(np.abs(excess - centre))  # the median deviation of a normal law, scaled to 1
        excess = (excess - max(centre, 0.0)) / max(usual, 1.0)
    kept = np.flatnonzero(excess > threshold)
    kept = kept[np.argsort(-excess[kept], kind="stable")]
    first, second = (side[kept] for side in people)
    return CopyingSuspicion(first, second, common[kept], seen[kept].astype(np.int64), mean[kept], excess[kept])

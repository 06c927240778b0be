"""Find annotators who answer as one voice.

The search has three steps, each on a bounded sample, and ends at the first that finds nothing:

1. Pairs whose agreement beyond chance is far above that of the same annotators with others.
2. Of these, pairs who agree more than a sceptical Dawid-Skene fit explains. In it the labels of an item count less the
   more their annotators agree in general, so that copies do not decide what is right. Connected pairs form groups.
3. Groups are counted once if that makes the labels clearly likelier, and if the others agree with each other beyond
   what the group says (`one_voice`): guessers beside experts do not.

"The copies are one voice" and "the honest are one voice" explain labels almost equally well. The tighter group is taken
as the voice, which is a bet: results name who was counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators import one_voice
from crowdprism.aggregators.em import FloatArray
from crowdprism.aggregators.sources import OutOfCore
from crowdprism.annotations import Annotations
from crowdprism.annotations.pairs import pairs_on_items, ranked
from crowdprism.errors import InvalidParameterError
from crowdprism.results import FitResult
from crowdprism.results.confusion import normalize_logs
from crowdprism.seeding import stream

Dependence = Literal["auto"] | None | Sequence[Sequence[Any]]

MAX_LABELS_PER_ITEM = 50
MAX_PAIRS = 5 * 10**5  # pairs of labels that the first step compares
MAX_TABLE = 2**23  # entries of all confusions; beyond it nothing is fitted here
MAX_ANNOTATIONS = 20_000  # of the sample that is fitted
LEAST_COMMON = 10  # items that two annotators share
LEAST_KAPPA = 0.6
LEAST_Z, LEAST_Z_BY_FIT = 5.0, 3.0  # standard errors above expected agreement; the second sample is smaller
LEAST_EXCESS = 0.6  # share of the expected disagreement that is missing
EXCESS_SHRINKAGE, KAPPA_SHRINKAGE = 5.0, 10.0  # items' worth
ENTRIES_AT_ONCE = 2**21


def count_once(annotations: Annotations, dependence: Dependence, fit: Callable[[Annotations], FitResult]) -> FitResult:
    """Fit with every voice counted once; the result says who was."""
    if isinstance(annotations, OutOfCore):
        return count_each(annotations, dependence, fit)
    found = voices_of(annotations, dependence)
    if not found.voices:
        result = fit(annotations)
    else:
        merged = one_voice.merge(annotations, found.voices)
        result = one_voice.hand_back(fit(merged.annotations), annotations, found.voices, merged)
    notes = describe_found(annotations, found)
    return replace(result, warnings=(*result.warnings, *notes)) if notes else result


def count_each(data: OutOfCore, dependence: Dependence, fit: Callable[[Any], FitResult]) -> FitResult:
    """Fit with every annotator counted, and say so if a sample shows some who answer as one voice."""
    if dependence not in (None, "auto"):
        raise InvalidParameterError("Out of core there are no voices. Use dependence=None.", parameter="dependence")
    result, found = fit(data), voices_of(data.sample, dependence)
    notes = tuple(
        f"{one_voice.join_names(names)} answer as one in a sample of the items. Out of core each of them is counted."
        for names in one_voice.named(data.sample, found.voices)
    )
    return replace(result, warnings=(*result.warnings, *notes))


def voices_of(annotations: Annotations, dependence: Dependence) -> one_voice.Found:
    """The groups to count once: none, those that are found, or those that the user names."""
    if dependence is None:
        return one_voice.Found()
    if isinstance(dependence, str) and dependence == "auto":
        return find_voices(annotations)
    return one_voice.Found(tuple(one_voice.given_groups(dependence, annotations)))


def describe_found(annotations: Annotations, found: one_voice.Found) -> tuple[str, ...]:
    """Sentences for the user: who is counted once, and who agrees too much without being counted once."""
    names = one_voice.named(annotations, found.voices)
    notes = [one_voice.describe_voices(names, annotations.n_annotators)] if names else []
    notes += [
        f"{one_voice.join_names(group)} agree more than independent annotators would, but less than copies do. They "
        "are not counted as one."
        for group in one_voice.named(annotations, found.looser)
    ]
    return tuple(notes)


def find_voices(annotations: Annotations) -> one_voice.Found:
    """Find groups of annotators who answer as one voice, unless fewer items with gold were right with the voice."""
    counted = annotations
    if annotations.weight is not None:
        counted = replace(counted.select(annotations.weight > 0), weight=None)
    looked_at = sample(counted, largest=MAX_PAIRS, cost=lambda n: n * (n - 1) // 2)
    pairs = far_above_others(compare_pairs(looked_at, least_common=LEAST_COMMON))
    if not pairs.n_pairs or annotations.n_annotators * annotations.n_classes**2 > MAX_TABLE:
        return one_voice.Found()
    suspects = np.zeros(annotations.n_annotators, dtype=bool)
    suspects[pairs.first] = suspects[pairs.second] = True
    some_items = sample(counted, largest=MAX_ANNOTATIONS, cost=np.asarray, suspects=suspects)
    groups = one_voice.connected_groups(*beyond_fit(some_items, pairs), annotations.n_annotators)
    return one_voice.choose(some_items, groups) if groups else one_voice.Found()


def sample(
    annotations: Annotations,
    *,
    largest: int,
    cost: Callable[[NDArray[Any]], NDArray[Any]],  # of an item with so many labels
    suspects: NDArray[np.bool_] | None = None,
) -> Annotations:
    """Items with two labels or more, as many as cost `largest` together, and at most `MAX_LABELS_PER_ITEM` of each.

    Items with labels of two `suspects` come first; if an item has too many labels, half of those kept are of suspects.
    """
    n_labels = np.minimum(annotations.labels_per_item, MAX_LABELS_PER_ITEM).astype(np.int64)
    items = np.flatnonzero(n_labels > 1)
    too_many = cost(n_labels[items]).sum() > largest
    if not too_many and annotations.labels_per_item.max(initial=0) <= MAX_LABELS_PER_ITEM:
        return annotations[items]
    random = stream(0, "copies")
    if too_many:
        items = random.permutation(items)
        if suspects is not None:
            theirs = np.bincount(annotations.item[suspects[annotations.annotator]], minlength=annotations.n_items)
            items = items[np.argsort(theirs[items] < 2, kind="stable")]
        fits = np.searchsorted(np.cumsum(cost(n_labels[items])), largest)
        items = np.sort(items[: max(int(fits), 1)])
    chosen = annotations[items]
    if chosen.labels_per_item.max(initial=0) <= MAX_LABELS_PER_ITEM:
        return chosen
    everybody = np.ones(chosen.n_annotations, dtype=bool)
    parts = [everybody] if suspects is None else [suspects[chosen.annotator], ~suspects[chosen.annotator]]
    kept = np.zeros(chosen.n_annotations, dtype=bool)
    for part in parts:
        kept[thin(np.flatnonzero(part), chosen, MAX_LABELS_PER_ITEM // len(parts), random)] = True
    return chosen.select(kept)


def thin(
    rows: NDArray[np.int64], annotations: Annotations, most: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Of these rows of annotations, all of items with at most `most`, and about so many, drawn evenly, of others."""
    n_rows = np.bincount(annotations.item[rows], minlength=annotations.n_items)
    start = np.cumsum(n_rows) - n_rows
    many = np.flatnonzero(n_rows > most)
    drawn = start[many, None] + (random.random((len(many), most)) * n_rows[many, None]).astype(np.int64)
    few = n_rows[annotations.item[rows]] <= most
    return np.concatenate([rows[few], rows[drawn.reshape(-1)]])


@dataclass(frozen=True, eq=False)
class PairAgreement:
    """(n_pairs,) codes of both annotators, items in common, those with equal labels, share of equal ones by chance."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    common: FloatArray
    equal: FloatArray
    chance: FloatArray

    @property
    def n_pairs(self) -> int:
        return len(self.first)

    def at(self, which: NDArray[Any]) -> PairAgreement:
        return PairAgreement(*(getattr(self, one.name)[which] for one in fields(self)))

    @property
    def kappa(self) -> FloatArray:
        return np.asarray((self.equal / self.common - self.chance) / np.maximum(1 - self.chance, one_voice.SMALLEST))


def compare_pairs(annotations: Annotations, *, least_common: int = 1) -> PairAgreement:
    """How often annotators agree who share enough items; chance is by each annotator's own shares of labels."""
    one, two = pairs_on_items(annotations)
    n_annotators = annotations.n_annotators
    pair, place = ranked(
        annotations.annotator[one].astype(np.int64) * n_annotators + annotations.annotator[two], n_annotators**2
    )
    common = np.bincount(place, minlength=len(pair)).astype(np.float64)
    same = annotations.label[one] == annotations.label[two]
    equal = np.bincount(place[same], minlength=len(pair)).astype(np.float64)
    enough = common >= least_common
    first, second = pair[enough] // n_annotators, pair[enough] % n_annotators
    chance, total = np.zeros(len(first)), np.maximum(annotations.labels_per_annotator, 1)
    for label in np.flatnonzero(np.bincount(annotations.label)):  # class by class: there may be a thousand
        given = annotations.annotator[annotations.label == label]
        share = np.bincount(given, minlength=n_annotators) / total
        chance += share[first] * share[second]
    return PairAgreement(first, second, common[enough], equal[enough], chance)


def far_above_others(pairs: PairAgreement) -> PairAgreement:
    """Pairs who agree far more with each other than either usually does: by the lower quartile of own agreement."""
    kappa = pairs.kappa
    close = np.flatnonzero(kappa > LEAST_KAPPA)
    if not len(close):
        return pairs.at(close)
    usual = np.minimum(*(lower_quartiles(pairs, kappa)[side[close]] for side in (pairs.first, pairs.second)))
    found = pairs.at(close)
    expected = found.chance + (1 - found.chance) * np.clip(usual, 0.0, 1.0)
    n_equal = found.common * expected
    variance = np.maximum(n_equal * (1 - expected), one_voice.SMALLEST)
    few = found.common - found.equal < (1 - LEAST_EXCESS) * (found.common - n_equal)
    return found.at(np.flatnonzero(few & (found.equal - n_equal > LEAST_Z * np.sqrt(variance))))


def lower_quartiles(pairs: PairAgreement, values: FloatArray) -> FloatArray:
    """(largest code + 1,) lower quartile of the values of each annotator's pairs; values lie in -1..1."""
    steps = 2**20  # one sort of whole numbers is quicker than sorting by two keys
    annotator = np.concatenate([pairs.first, pairs.second])
    rank = np.tile(((np.clip(values, -1.0, 1.0) + 1) * steps).astype(np.int64), 2)
    key = np.sort(annotator * 4 * steps + rank)
    start = np.searchsorted(key, np.arange(annotator.max() + 2) * 4 * steps)
    middle = np.minimum(start[:-1] + (np.diff(start) - 1) // 4, len(key) - 1)
    return np.asarray((key[middle] % (4 * steps)) / steps - 1)


def beyond_fit(annotations: Annotations, pairs: PairAgreement) -> tuple[PairAgreement, FloatArray]:
    """Pairs who agree more than the sceptical fit explains, and the share of expected disagreement that is missing."""
    weight = sceptical_weights(annotations)
    fit = one_voice.fit_confusions(replace(annotations, weight=weight.astype(np.float32)))
    log_confusions = np.log(np.maximum(fit.confusions, one_voice.SMALLEST))
    suspects, side = np.unique(np.concatenate([pairs.first, pairs.second]), return_inverse=True)
    side = side.reshape(2, -1)
    row_of = rows_by_annotator(annotations, suspects)
    observed, variance, disagree = (np.zeros(pairs.n_pairs) for _ in range(3))
    at_once = max(1, ENTRIES_AT_ONCE // max(annotations.n_items, 1))
    for begin in range(0, pairs.n_pairs, at_once):
        end = min(begin + at_once, pairs.n_pairs)
        first_row, second_row = row_of[:, side[:, begin:end][0]], row_of[:, side[:, begin:end][1]]
        item, pair = np.nonzero((first_row >= 0) & (second_row >= 0))
        rows = first_row[item, pair], second_row[item, pair]
        log_class = fit.log_joint[item]
        for row in rows:
            own = log_confusions[annotations.annotator[row], :, annotations.label[row]]
            log_class = log_class - weight[row, None] * own
        agree = annotations.label[rows[0]] == annotations.label[rows[1]]
        same = np.einsum("pkl,pkl->pk", fit.confusions[pairs.first[begin:end]], fit.confusions[pairs.second[begin:end]])
        expected = (normalize_logs(log_class) * same[pair]).sum(axis=1)
        observed[begin:end] = np.bincount(pair, agree - expected, end - begin)
        variance[begin:end] = np.bincount(pair, expected * (1 - expected), end - begin)
        disagree[begin:end] = np.bincount(pair, 1 - expected, end - begin)
    z = observed / np.sqrt(np.maximum(variance, one_voice.SMALLEST))
    excess = observed / (disagree + EXCESS_SHRINKAGE)
    kept = (z > LEAST_Z_BY_FIT) & (excess > LEAST_EXCESS)
    return pairs.at(kept), excess[kept]


def rows_by_annotator(annotations: Annotations, annotators: NDArray[np.int64]) -> NDArray[np.int32]:
    """(n_items, len(annotators)) position of the annotation, -1 where there is none; of repeats the last."""
    place = np.full(annotations.n_annotators, -1)
    place[annotators] = np.arange(len(annotators))
    column = place[annotations.annotator]
    theirs = np.flatnonzero(column >= 0)
    rows = np.full((annotations.n_items, len(annotators)), -1, dtype=np.int32)
    rows[annotations.item[theirs], column[theirs]] = theirs
    return rows


def sceptical_weights(annotations: Annotations) -> FloatArray:
    """(n_annotations,) 1 / (1 + sum of agreement beyond chance with the other annotators of the item)."""
    from scipy.sparse import csr_array

    pairs = compare_pairs(annotations)
    usual = float(np.average(pairs.kappa, weights=pairs.common))
    kappa = (pairs.common * pairs.kappa + KAPPA_SHRINKAGE * usual) / (pairs.common + KAPPA_SHRINKAGE)
    n, first, second = annotations.n_annotators, pairs.first, pairs.second
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    links = csr_array((np.tile(np.clip(kappa, 0.0, 1.0), 2), ends), shape=(n, n))
    there = csr_array(
        (np.ones(annotations.n_annotations), (annotations.item, annotations.annotator)), shape=(annotations.n_items, n)
    )
    there.sum_duplicates()
    there.data[:] = 1.0
    together = (there @ links)[annotations.item, annotations.annotator]
    return np.asarray(1.0 / (1.0 + together), dtype=np.float64)

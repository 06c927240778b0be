"""How right are these labels, really? Draw items, have them answered by someone you trust, and measure.

Items are drawn at random within strata of confidence: uncertain items are asked more often, because they say more per
answer. Every figure counts an item by the size of its stratum, so that it holds whatever the model believes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.aggregators import make_aggregator
from crowdprism.annotations import Annotations
from crowdprism.annotations.building import gold_by_item
from crowdprism.annotations.gold import gold_columns
from crowdprism.annotations.names import NameArray, is_missing, plain, positions
from crowdprism.calibration.stratified import Share, answers_to_halve, stratified_share
from crowdprism.errors import InvalidAnnotationsError, InvalidParameterError, some
from crowdprism.results import FitResult
from crowdprism.seeding import stream

N_STRATA = 3  # more strata leave fewer answers each, and the intervals then hold less often than they should
LEAST_PER_STRATUM = 4  # a smaller audit has fewer strata
LEAST_SPREAD = 0.2  # standard deviation of "right" assumed for the surest items: a model may be sure and wrong
MIN_ANSWERS = 10
MIN_FOR_ANNOTATOR = 5  # fewer answers say next to nothing about one annotator
DEFAULT_METHOD = "dawid-skene"


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Which items to ask, and all that is needed to read the answers."""

    items: NameArray
    classes: NameArray
    stated: NDArray[np.int64]  # (n_items,) code of the label under audit
    stratum: NDArray[np.int64]  # (n_items,) 0 for the least certain; `n_strata` where the class was known (gold)
    asked: NDArray[np.int64]  # (n_asked,) positions of the items to ask, in random order
    probability: NDArray[np.float64]  # (n_asked,) with which each was drawn
    seed: int
    n: int
    known: Mapping[Any, Any] = field(default_factory=dict)  # gold by item
    annotations: Annotations | None = None  # those behind the labels: they add the accuracy of annotators

    @property
    def n_strata(self) -> int:
        return int(self.stratum[self.asked].max()) + 1

    @property
    def name(self) -> str:
        """Seed, number of items and a digest of the labels, as `0-40-1f3a9c02`: tells one audit from another."""
        text = repr((self.items.tolist(), self.classes.tolist(), self.stated.tolist(), self.stratum.tolist()))
        return f"{self.seed}-{self.n}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class AuditResult:
    """What the answers say; each share has a value, an interval and the number of answers behind it."""

    accuracy: Share  # of right labels among all items
    classes: Mapping[Any, Share | None]  # of right labels among the items labelled so; None where nothing was answered
    shares: Mapping[Any, Share]  # of items that truly belong to a class
    annotators: Mapping[Any, Share]  # of right labels, by annotator with at least five answered items
    n_answers: int
    n_asked: int
    n_items: int
    more_to_halve: int | None  # answers that would make the accuracy's interval half as wide; None if all is known
    level: float
    answers: Mapping[Any, Any]  # as gold for `Annotations.with_gold`


def audit_plan(
    source: FitResult | Annotations, n: int = 40, seed: int = 0, *, annotations: Annotations | None = None
) -> AuditPlan:
    """Draw the items to ask.

    Parameters
    ----------
    source
        The result whose labels are audited, or annotations: these are aggregated with `"dawid-skene"` first.
    n
        How many items to ask. A larger n with the same seed asks the same items and more.
    annotations
        Those behind a result; they add the accuracy of annotators, and their gold counts as answered.

    Examples
    --------
    >>> labels = Annotations.from_dense(np.tile([[0, 0, 1], [1, 1, 1]], (100, 1)))
    >>> plan = audit_plan(labels, 20, seed=1)
    >>> len(plan.asked), plan.items[plan.asked[:3]].tolist()
    (20, [118, 5, 28])
    """
    if isinstance(n, bool) or int(n) != n or n < MIN_ANSWERS:
        raise InvalidParameterError(
            f"An audit needs at least {MIN_ANSWERS} answers for an interval, not {n}.", parameter="n"
        )
    if isinstance(source, Annotations):
        annotations, source = source, make_aggregator(DEFAULT_METHOD).fit(source).result_
    result: FitResult = source
    if annotations is not None:
        names = {role: getattr(result, role).tolist() for role in ("items", "annotators", "classes")}
        annotations = annotations.reindexed(**names)
    known = {} if annotations is None else annotations.gold_by_name()
    open_items = np.ones(result.n_items, dtype=bool)
    open_items[positions(result.items, list(known))] = False
    if not open_items.any():
        raise InvalidAnnotationsError("Every item has gold: there is nothing to audit. Compare the labels with it.")
    n_strata = max(1, min(N_STRATA, int(n) // LEAST_PER_STRATUM, int(open_items.sum()) // LEAST_PER_STRATUM))
    stratum = np.full(result.n_items, n_strata)
    stated = result.class_probabilities.max(axis=1) if result.confidence is None else result.confidence
    stratum[open_items] = strata_of(np.asarray(stated)[open_items], n_strata)
    sizes = np.bincount(stratum[open_items], minlength=n_strata)
    counts = allocated(int(n), sizes)
    drawn = [
        stream(seed, "audit", place).permutation(np.flatnonzero(stratum == place))[:count]
        for place, count in enumerate(counts.tolist())
    ]
    asked = stream(seed, "order of an audit").permutation(np.concatenate(drawn))
    return AuditPlan(
        items=result.items,
        classes=result.classes,
        stated=np.argmax(result.class_probabilities, axis=1),
        stratum=stratum,
        asked=asked,
        probability=(counts / sizes)[stratum[asked]],
        seed=int(seed),
        n=int(n),
        known=known,
        annotations=annotations,
    )


def strata_of(confidence: NDArray[Any], n_strata: int) -> NDArray[np.int64]:
    """(item,) stratum of each item: by rising confidence, each stratum with the same sum of standard deviations.

    An equal number of answers per stratum is then the allocation of Neyman.
    """
    confidence = np.clip(np.nan_to_num(confidence, nan=0.5), 0.0, 1.0)
    spread = np.maximum(np.sqrt(confidence * (1 - confidence)), LEAST_SPREAD)
    order = np.argsort(confidence, kind="stable")
    middle = np.cumsum(spread[order]) - spread[order] / 2
    stratum = np.empty(len(confidence), dtype=np.int64)
    stratum[order] = np.minimum(middle / spread.sum() * n_strata, n_strata - 1).astype(np.int64)
    return stratum


def allocated(n: int, sizes: NDArray[Any]) -> NDArray[np.int64]:
    """(stratum,) how many to draw: equal numbers, as far as a stratum has that many items."""
    counts = np.zeros(len(sizes), dtype=np.int64)
    for _ in range(min(n, int(sizes.sum()))):
        place = min(np.flatnonzero(counts < sizes).tolist(), key=lambda at: (counts[at], at))
        counts[place] += 1
    return counts


def audit_result(plan: AuditPlan, answers: Any, *, level: float = 0.95) -> AuditResult:
    """Read the answers to an audit.

    Parameters
    ----------
    answers
        True class by item, in any form that `Annotations.with_gold` takes. Items without an answer may be left out.

    Examples
    --------
    >>> labels = Annotations.from_dense(np.tile([[0, 0, 1], [1, 1, 1]], (100, 1)))
    >>> plan = audit_plan(labels, 40)
    >>> truth = {int(item): int(item) % 2 for item in plan.items[plan.asked]}
    >>> found = audit_result(plan, truth)
    >>> found.accuracy.value, round(found.accuracy.low, 2), found.more_to_halve
    (1.0, 0.93, 61)
    """
    given = checked_answers(plan, answers)
    everything = {**plan.known, **given}
    place = positions(plan.items, list(everything))
    truth = np.full(len(plan.items), -1)
    truth[place] = positions(plan.classes, list(everything.values()))
    require_enough(plan, given, truth)
    right = truth == plan.stated
    accuracy = counts(plan.stratum, truth, right)
    codes = {name: code for code, name in enumerate(plan.classes.tolist())}
    return AuditResult(
        accuracy=stratified_share(*accuracy, level=level),
        classes={name: share_within(plan, truth, right, plan.stated == code, level) for name, code in codes.items()},
        shares={name: class_share(plan, truth, code, level) for name, code in codes.items()},
        annotators={} if plan.annotations is None else annotator_shares(plan, truth, level),
        n_answers=len(given),
        n_asked=len(plan.asked),
        n_items=len(plan.items),
        more_to_halve=answers_to_halve(*accuracy),
        level=level,
        answers=given,
    )


def counts(cell: NDArray[np.int64], truth: NDArray[Any], right: NDArray[np.bool_]) -> list[NDArray[Any]]:
    """(cell,) right answers, answers and items of each cell."""
    answered = truth >= 0
    n_cells = int(cell.max()) + 1
    return [np.bincount(cell[mask], minlength=n_cells) for mask in (answered & right, answered, answered | True)]


def share_within(
    plan: AuditPlan, truth: NDArray[Any], right: NDArray[np.bool_], where: NDArray[np.bool_], level: float
) -> Share | None:
    if not (truth[where] >= 0).any():
        return None
    return stratified_share(*counts(plan.stratum[where], truth[where], right[where]), level=level)


def class_share(plan: AuditPlan, truth: NDArray[Any], code: int, level: float) -> Share:
    """Share of items that truly are of a class: the items labelled so are counted apart from the others."""
    cell = plan.stratum * 2 + (plan.stated == code)
    numbers = counts(cell, truth, truth == code)
    labelled_so = np.arange(len(numbers[2])) % 2  # where nobody was asked, the labels stand
    return stratified_share(*numbers, level=level, default=labelled_so, alike=False)


def annotator_shares(plan: AuditPlan, truth: NDArray[Any], level: float) -> dict[Any, Share]:
    """Share of right labels of each annotator with enough answers; of repeated labels the last counts."""
    assert plan.annotations is not None
    annotations, shares = plan.annotations, {}
    answered = np.bincount(annotations.annotator[truth[annotations.item] >= 0], minlength=annotations.n_annotators)
    for code in np.flatnonzero(answered >= MIN_FOR_ANNOTATOR).tolist():
        rows = np.flatnonzero(annotations.annotator == code)
        given = np.full(len(plan.items), -1)
        given[annotations.item[rows]] = annotations.label[rows]
        share = share_within(plan, truth, given == truth, given >= 0, level)
        if share is not None and share.n_answers >= MIN_FOR_ANNOTATOR:
            shares[plain(annotations.annotators[code])] = share
    return shares


def checked_answers(plan: AuditPlan, answers: Any) -> dict[Any, Any]:
    """Answers by item; errors count what is wrong and name the first."""
    items, labels = gold_columns(answers)
    rows = [(plain(item), plain(label)) for item, label in zip(items, labels, strict=True) if not is_missing(label)]
    given = gold_by_item([item for item, _ in rows], [label for _, label in rows]) if rows else {}
    asked = set(plan.items[plan.asked].tolist())
    extra = [item for item in given if item not in asked]
    if extra:
        raise InvalidAnnotationsError(
            f"{len(extra)} of {len(given)} answers are for items that were not asked in the audit {plan.name}; the "
            f"first is {extra[0]!r}.",
            remedy="Pass the labels, {n} and {seed} with which the audit was drawn, and only its items.",
        )
    unknown = [(item, label) for item, label in given.items() if label not in set(plan.classes.tolist())]
    if unknown:
        raise InvalidAnnotationsError(
            f"{len(unknown)} of {len(given)} answers are not among the {len(plan.classes)} classes "
            f"({some(plan.classes.tolist(), 10)}); the first is {unknown[0][1]!r} for item {unknown[0][0]!r}. "
            "Correct them, or leave the cell empty."
        )
    return given


def require_enough(plan: AuditPlan, given: Mapping[Any, Any], truth: NDArray[Any]) -> None:
    needed = min(MIN_ANSWERS, len(plan.asked))
    answered = plan.asked[truth[plan.asked] >= 0]
    empty = np.setdiff1d(np.arange(plan.n_strata), plan.stratum[answered])
    if len(given) >= needed and not len(empty):
        return
    waiting = plan.asked[truth[plan.asked] < 0]
    waiting = waiting[np.argsort(~np.isin(plan.stratum[waiting], empty), kind="stable")]
    missing = max(needed - len(given), len(empty))
    raise InvalidAnnotationsError(
        f"{len(given)} of {len(plan.asked)} items are answered, which is too few for an interval: it needs at least "
        f"{needed} answers, and one in each of the {plan.n_strata} strata. Answer {missing} more, such as "
        f"{some(plan.items[waiting].tolist())}."
    )

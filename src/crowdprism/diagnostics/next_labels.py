"""What to label next, whom to ask, and when to stop, by expected reduction of uncertainty per cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.frames import frame_of_columns
from crowdprism.annotations.names import NameArray
from crowdprism.diagnostics.annotator_accounts import entropy
from crowdprism.diagnostics.label_evidence import FloatArray, matching, require_confusions
from crowdprism.errors import InvalidParameterError
from crowdprism.progress import progress
from crowdprism.results import FitResult

Pairs = tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]  # item, annotator, gain
SMALLEST_ERROR = 1e-9
LEAST_GAIN = 0.01  # bits; a label expected to tell less is not worth asking for
ITEMS_PER_LABEL = 5  # how many uncertain items are considered for each label of the budget
MIN_ITEMS_CONSIDERED = 1_000
CELLS_AT_ONCE = 4_000_000
FAIR = 2  # times an equal share of the labels is the most that one annotator is asked for by default


@dataclass(frozen=True)
class Suggestion:
    """Labels to ask for, the most useful first, and whether to stop asking, with the reason.

    `gain` is the expected reduction of the item's entropy, in bits. The expected accuracies are those of the result's
    account (the mean probability of the labels, if it has none), now and after the first suggested label of each item.
    """

    items: NameArray
    annotators: NameArray
    item: NDArray[np.int64]  # (n,) positions, as the next
    annotator: NDArray[np.int64]
    gain: FloatArray  # (n,)
    cost: FloatArray  # (n,)
    expected_accuracy: float
    expected_accuracy_after: float
    stop: bool
    reason: str

    def __len__(self) -> int:
        return len(self.item)

    def to_frame(self, kind: str = "polars") -> Any:
        """One row per label to ask for, in the user's own names."""
        names = {"item": self.items[self.item], "annotator": self.annotators[self.annotator]}
        return frame_of_columns({**names, "gain": self.gain, "cost": self.cost}, kind)


def suggest(
    result: FitResult,
    annotations: Annotations,
    budget: float,
    *,
    costs: Any = None,
    capacity: Any = None,
    candidates: tuple[Any, Any] | None = None,
    per_item: int = 1,
    target_accuracy: float | None = None,
    least_gain: float = LEAST_GAIN,
) -> Suggestion:
    """Choose items to label next and annotators to ask, by expected reduction of entropy per cost.

    Parameters
    ----------
    budget
        What may be spent; a number of labels if `costs` is not given.
    costs
        (n_annotators,) price of one label.
    capacity
        (n_annotators,) or one number: labels each annotator can give now; by default twice an equal share of the
        budget, so that not everything is asked of the best annotator. `math.inf` sets no limit.
    candidates
        Positions of the items and annotators that can be asked; by default any annotator about any item.
    per_item
        Most labels to ask for one item before fitting again; each further one counts less.
    target_accuracy, least_gain
        Stop at this expected accuracy; ask for no label with a smaller gain (in bits).

    Examples
    --------
    >>> from crowdprism.aggregators import make_aggregator
    >>> a = Annotations.from_dense([[0, 0, -1], [1, -1, -1], [0, 1, -1], [1, 1, 1], [0, 0, 0]])
    >>> next_labels = suggest(make_aggregator("dawid-skene").fit(a).result_, a, budget=1)
    >>> a.items[next_labels.item].tolist(), a.annotators[next_labels.annotator].tolist()
    ([2], [2])
    """
    annotations = matching(result, annotations)
    confusions = require_confusions(result, "Suggesting labels")
    if not budget > 0:
        raise InvalidParameterError(f"The budget must be above 0, not {budget}.")
    n_annotators = len(confusions)
    price = np.ones(n_annotators) if costs is None else np.asarray(costs, dtype=float)
    if price.shape != (n_annotators,) or not (np.isfinite(price) & (price > 0)).all():
        raise InvalidParameterError(f"costs must be {n_annotators} numbers above 0, one per annotator.")
    if capacity is None:
        capacity = max(1, math.ceil(FAIR * budget / float(price.sum())))
    room = np.minimum(np.asarray(capacity, dtype=float), np.iinfo(np.int32).max)
    room = np.full(n_annotators, room) if room.ndim == 0 else room
    if room.shape != (n_annotators,) or (room < 0).any():
        raise InvalidParameterError(f"capacity must be one number or {n_annotators} numbers of at least 0.")
    shares = np.asarray(result.class_probabilities, dtype=float)
    if candidates is None:
        item, annotator, gain = free_pairs(shares, confusions, annotations, price, budget, per_item)
    else:
        item, annotator, gain = given_pairs(shares, confusions, candidates)
    worth = gain > least_gain
    item, annotator, gain = item[worth], annotator[worth], gain[worth]
    chosen, discounted = choose(shares, item, annotator, gain, price, room, budget=budget, per_item=per_item)
    item, annotator = item[chosen], annotator[chosen]
    accuracy, after = expected_accuracies(result, shares, confusions, item, annotator)
    stop, reason = when_to_stop(accuracy, target_accuracy, len(chosen), least_gain)
    return Suggestion(
        items=annotations.items,
        annotators=annotations.annotators,
        item=item,
        annotator=annotator,
        gain=discounted,
        cost=price[annotator],
        expected_accuracy=accuracy,
        expected_accuracy_after=after,
        stop=stop,
        reason=reason,
    )


def label_gain(shares: FloatArray, confusions: FloatArray) -> FloatArray:
    """Mutual information of each item's true class and each annotator's label, in bits: (n_items, n_annotators)."""
    n_annotators, n_classes = confusions.shape[:2]
    wide = confusions.transpose(1, 0, 2).reshape(n_classes, n_annotators * n_classes)
    given = (shares @ wide).reshape(len(shares), n_annotators, n_classes)
    return np.asarray(np.maximum((entropy(given) - shares @ entropy(confusions).T) / np.log(2), 0.0))


def free_pairs(
    shares: FloatArray,
    confusions: FloatArray,
    annotations: Annotations,
    price: FloatArray,
    budget: float,
    per_item: int,
) -> Pairs:
    """Pairs to consider if any annotator can be asked about any item they have not labelled yet."""
    most = int(min(len(shares), max(MIN_ITEMS_CONSIDERED, ITEMS_PER_LABEL * budget / price.min())))
    considered = np.sort(np.argsort(-entropy(shares), kind="stable")[:most])
    n_annotators, n_classes = confusions.shape[:2]
    step = max(1, CELLS_AT_ONCE // (n_annotators * n_classes))
    kept_each = min(n_annotators, 50 * per_item)
    done = np.unique(annotations.item.astype(np.int64) * n_annotators + annotations.annotator)
    parts: list[tuple[Any, Any, Any]] = []
    with progress("gains", total=-(-len(considered) // step)) as bar:
        for start in range(0, len(considered), step):
            items = considered[start : start + step]
            gain = label_gain(shares[items], confusions)
            gain[np.isin(items[:, None] * n_annotators + np.arange(n_annotators), done)] = -1.0
            best = np.argsort(-gain / price, axis=1, kind="stable")[:, :kept_each]
            parts.append((np.repeat(items, kept_each), best.reshape(-1), np.take_along_axis(gain, best, 1).reshape(-1)))
            bar.advance()
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]


def given_pairs(shares: FloatArray, confusions: FloatArray, candidates: tuple[Any, Any]) -> Pairs:
    item, annotator = (np.asarray(part, dtype=np.int64) for part in candidates)
    if item.shape != annotator.shape or item.ndim != 1:
        raise InvalidParameterError("candidates must be two lists of equal length: item and annotator positions.")
    gain = np.empty(len(item))
    step = max(1, CELLS_AT_ONCE // confusions.shape[1] ** 2)
    for start in range(0, len(item), step):
        rows = slice(start, start + step)
        given = np.einsum("pk,pkl->pl", shares[item[rows]], confusions[annotator[rows]])
        noise = (shares[item[rows]] * entropy(confusions)[annotator[rows]]).sum(axis=1)
        gain[rows] = np.maximum((entropy(given) - noise) / np.log(2), 0.0)
    return item, annotator, gain


def choose(
    shares: FloatArray,
    item: NDArray[np.int64],
    annotator: NDArray[np.int64],
    gain: FloatArray,
    price: FloatArray,
    room: FloatArray,
    *,
    budget: float,
    per_item: int,
) -> tuple[NDArray[np.int64], FloatArray]:
    """Take pairs by gain per cost within budget, capacity and labels per item; further labels of an item count less.

    Returns positions of the pairs, and their gain after that discount.
    """
    uncertain = np.maximum(entropy(shares) / np.log(2), 1e-12)
    left, room = uncertain.copy(), room.astype(np.int64)
    taken, cheapest = np.zeros(len(shares), dtype=np.int64), price.min()
    chosen: list[tuple[int, float]] = []
    waiting = np.argsort(-gain / price[annotator], kind="stable")
    for _ in range(per_item):
        scaled = gain * (left / uncertain)[item]
        order = waiting[np.argsort(-(scaled / price[annotator])[waiting], kind="stable")]
        level = taken.copy()
        skipped = []
        for pair in order.tolist():
            i, m = item[pair], annotator[pair]
            if price[m] > budget or room[m] == 0 or taken[i] > level[i]:
                skipped.append(pair)
                continue
            chosen.append((pair, float(scaled[pair])))
            budget -= price[m]
            room[m] -= 1
            taken[i] += 1
            left[i] = max(left[i] - scaled[pair], 0.0)
            if budget < cheapest:
                break
        waiting = np.array(skipped, dtype=np.int64)
    return np.array([pair for pair, _ in chosen], dtype=np.int64), np.array([value for _, value in chosen])


def expected_accuracies(
    result: FitResult, shares: FloatArray, confusions: FloatArray, item: NDArray[np.int64], annotator: NDArray[np.int64]
) -> tuple[float, float]:
    """Now, and after the labels: they remove the share of all errors that the model expects them to remove of its own.

    The model is too sure that its labels are right, so its own errors are not those of the account.
    """
    best = shares.max(axis=1)  # probability of the best class
    before = float(best.mean())
    items, first = np.unique(item, return_index=True)
    if len(items):  # the first suggested label of each item
        joint = shares[items][:, :, None] * confusions[annotator[first]]
        best[items] = joint.max(axis=1).sum(axis=1)
    after = float(best.mean())
    if result.expected_accuracy is None:
        return before, after
    removed = (after - before) / max(1 - before, SMALLEST_ERROR)
    now = result.expected_accuracy.value
    return now, now + (1 - now) * min(max(removed, 0.0), 1.0)


def when_to_stop(accuracy: float, target: float | None, n_chosen: int, least_gain: float) -> tuple[bool, str]:
    if target is not None and accuracy >= target:
        return True, f"The expected accuracy {accuracy:.3f} has reached the target {target:.3f}."
    if n_chosen == 0:
        return True, f"No further label is expected to tell more than {least_gain} bits."
    wanted = "" if target is None else f" (target {target:.3f})"
    return False, f"The expected accuracy is {accuracy:.3f}{wanted}; {n_chosen} more labels are worth asking for."

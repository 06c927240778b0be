"""Items that a person should look at, each with its reasons."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.diagnostics.item_accounts import item_report
from crowdprism.report.names_shown import shown_name
from crowdprism.report.report_records import Review, ReviewRow
from crowdprism.results import FitResult

MOST_ITEMS = 200
UNCERTAIN = 0.75  # below this, one label in four or more is expected to be wrong
MUCH_HARDER = 0.5  # half of an item's labels wrong beyond what its annotators' skill explains
WRONG_GOLD, HARD = "the gold label may be wrong", "harder than its annotators' skill explains"
MOST_GIVEN = 6

Mask = NDArray[np.bool_]


def review_reasons(result: FitResult, annotations: Annotations | None) -> dict[str, Mask]:
    """(n_items,) masks by reason, the weightiest first.

    Examples
    --------
    >>> from crowdprism import Annotations, make_aggregator
    >>> a = Annotations.from_dense([[0, 1], [1, 1]])
    >>> masks = review_reasons(make_aggregator("majority-vote").fit(a).result_, a)
    >>> masks["two classes are nearly as likely"].tolist()
    [True, False]
    """
    ordered = np.sort(result.class_probabilities, axis=1)
    top = ordered[:, -1]
    second = ordered[:, -2] if result.n_classes > 1 else np.zeros(result.n_items)
    close = (top < UNCERTAIN) & (second > top / 2)
    masks: dict[str, Mask] = {}
    if annotations is not None:
        best = np.argmax(result.class_probabilities, axis=1)
        known = item_report(result, annotations)
        if annotations.gold is not None:
            differs = np.ma.filled(annotations.gold != best, False).astype(bool)
            masks[WRONG_GOLD] = known.likely_mislabelled
            masks["differs from the gold label"] = differs & ~masks[WRONG_GOLD]
        masks[HARD] = np.nan_to_num(known.difficulty) > MUCH_HARDER
        own, most = votes_for(annotations, best)
        masks["the label has fewer votes than another"] = own < most
    masks["two classes are nearly as likely"] = close
    masks["no class is likely"] = (top < UNCERTAIN) & ~close
    if annotations is None:
        return masks
    # Of items that nobody labelled there is nothing to review; the overview counts them.
    return {reason: mask & (annotations.labels_per_item > 0) for reason, mask in masks.items()}


def votes_for(annotations: Annotations, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(n_items,) annotations that gave the chosen class, and those that gave the most frequent label."""
    key = annotations.item.astype(np.int64) * annotations.n_classes + annotations.label
    cells, counts = np.unique(key, return_counts=True)
    item = cells // annotations.n_classes
    most = np.zeros(annotations.n_items, dtype=np.int64)
    np.maximum.at(most, item, counts)
    own = np.bincount(
        annotations.item, weights=annotations.label == chosen[annotations.item], minlength=annotations.n_items
    ).astype(np.int64)
    return own, most


def build_review(result: FitResult, annotations: Annotations | None) -> Review:
    """The items with the most reasons and the least certain labels."""
    masks = review_reasons(result, annotations)
    n_reasons = np.sum(list(masks.values()), axis=0) if masks else np.zeros(result.n_items)
    suspect = np.flatnonzero(n_reasons)
    top = result.class_probabilities.max(axis=1)
    gold_first = -sum(
        (mask.astype(int) for reason, mask in masks.items() if "gold" in reason), np.zeros(result.n_items)
    )
    order = suspect[np.lexsort((top[suspect], gold_first[suspect]))][:MOST_ITEMS]
    rows = tuple(review_row(result, annotations, int(place), masks) for place in order)
    note = "" if len(rows) == len(suspect) else f"The {len(rows)} most doubtful of {len(suspect)} are listed."
    return Review(rows, len(suspect), note)


def review_row(result: FitResult, annotations: Annotations | None, place: int, masks: dict[str, Mask]) -> ReviewRow:
    """One item with its reasons."""
    probabilities = result.class_probabilities[place]
    order = np.argsort(-probabilities, kind="stable")
    second = ""
    if result.n_classes > 1 and probabilities[order[1]] >= 0.005:  # less would show as 0 %
        second = f"{shown_name(result.classes[order[1]])} {probabilities[order[1]]:.0%}"
    return ReviewRow(
        item=shown_name(result.items[place]),
        label=shown_name(result.classes[order[0]]),
        probability=float(probabilities[order[0]]),
        second=second,
        given="" if annotations is None else given_labels(annotations, place),
        reasons=tuple(reason for reason, mask in masks.items() if mask[place]),
    )


def given_labels(annotations: Annotations, place: int) -> str:
    """What annotators said about one item: `cat 3, dog 1`."""
    labels = annotations.label[annotations.item_start[place] : annotations.item_start[place + 1]]
    counts = np.bincount(labels, minlength=annotations.n_classes)
    order = [code for code in np.argsort(-counts, kind="stable").tolist() if counts[code]]
    listed = [f"{shown_name(annotations.classes[code])}\u00a0×{counts[code]}" for code in order[:MOST_GIVEN]]  # noqa: RUF001
    return ", ".join(listed) + (", …" if len(order) > MOST_GIVEN else "")

"""Items that a person should review, each with its reasons."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.names import plain
from crowdprism.annotations.notebook import display_name
from crowdprism.diagnostics.item_accounts import item_report
from crowdprism.diagnostics.label_evidence import vote_table
from crowdprism.formats.item_content import ItemContent, Shown
from crowdprism.report.report_records import ReportOptions, Review, ReviewRow
from crowdprism.results import FitResult

MOST_ITEMS = 200
UNCERTAIN = 0.75  # a confidence below this expects one label in four or more to be wrong
UNDECIDED = 0.75  # the model's probability of a label below this
MUCH_HARDER = 0.5  # half of an item's labels are wrong beyond what the accuracy of its annotators explains
WRONG_GOLD, HARD = "the gold label may be wrong", "annotators who are usually right disagree on it"
MOST_GIVEN = 6
MOST_WHO = 30
MOST_TEXT = 1500  # characters of one text
THUMBNAIL = 240  # pixels

Mask = NDArray[np.bool_]


def review_reasons(result: FitResult, annotations: Annotations | None) -> dict[str, Mask]:
    """(n_items,) masks by reason, the most important first."""
    ordered = np.sort(result.class_probabilities, axis=1)
    top = ordered[:, -1]
    second = ordered[:, -2] if result.n_classes > 1 else np.zeros(result.n_items)
    close = (top < UNDECIDED) & (second > top / 2)
    masks: dict[str, Mask] = {}
    if annotations is not None:
        best = np.argmax(result.class_probabilities, axis=1)
        known = item_report(result.blind, annotations)
        if annotations.gold is not None:
            differs = np.ma.filled(annotations.gold != known.label, False).astype(bool)
            masks[WRONG_GOLD] = known.likely_mislabelled
            masks["differs from the gold label"] = differs & ~masks[WRONG_GOLD]
        masks[HARD] = np.nan_to_num(known.difficulty) > MUCH_HARDER
        votes = vote_table(annotations)
        masks["the label has fewer votes than another"] = votes[np.arange(len(best)), best] < votes.max(axis=1)
    masks["a second class is likely too"] = close
    masks["no class stands out"] = (top < UNDECIDED) & ~close
    if annotations is None:
        return masks
    # Items without labels have nothing to review; the overview counts them.
    return {reason: mask & (annotations.labels_per_item > 0) for reason, mask in masks.items()}


def review_queue(result: FitResult, masks: dict[str, Mask]) -> NDArray[np.int64]:
    """Positions of items with a reason for review: those with doubtful gold first, then those of least confidence."""
    suspect = np.flatnonzero(np.any(list(masks.values()), axis=0))
    top = result.class_probabilities.max(axis=1)
    doubt = top if result.confidence is None else result.confidence
    by_gold = sum((mask for reason, mask in masks.items() if "gold" in reason), np.zeros(len(top), dtype=bool))
    return suspect[np.lexsort((top[suspect], doubt[suspect], ~by_gold[suspect]))]


def build_review(result: FitResult, annotations: Annotations | None, options: ReportOptions | None = None) -> Review:
    """The most doubtful items of the review queue, with what there is to see of them."""
    masks = review_reasons(result, annotations)
    suspect = review_queue(result, masks)
    order = suspect[:MOST_ITEMS]
    content = (options or ReportOptions()).content
    if not isinstance(content, ItemContent):
        content = content(result.items[order].tolist())
    rows = tuple(review_row(result, annotations, int(place), masks, content) for place in order)
    note = "" if len(rows) == len(suspect) else f"The table lists the {len(rows)} most doubtful."
    return Review(rows, len(suspect), note)


def review_row(
    result: FitResult, annotations: Annotations | None, place: int, masks: dict[str, Mask], content: ItemContent
) -> ReviewRow:
    probabilities = result.class_probabilities[place]
    order = np.argsort(-probabilities, kind="stable")
    second = ""
    if result.n_classes > 1 and probabilities[order[1]] >= 0.005:  # less is no choice
        second = display_name(result.classes[order[1]])
    return ReviewRow(
        item=display_name(result.items[place]),
        label=display_name(result.classes[order[0]]),
        confidence=None if result.confidence is None else float(result.confidence[place]),
        second=second,
        given="" if annotations is None else given_labels(annotations, place),
        reasons=tuple(reason for reason, mask in masks.items() if mask[place]),
        shown=tuple(short(one) for one in content.shown(plain(result.items[place]), pixels=THUMBNAIL)),
        who=() if annotations is None else who_said(annotations, place),
    )


def short(shown: Shown) -> Shown:
    is_long = shown.kind == "text" and len(shown.value) > MOST_TEXT
    value = f"{shown.value[:MOST_TEXT]} …" if is_long else shown.value
    return shown._replace(column=display_name(shown.column), value=value)


def who_said(annotations: Annotations, place: int) -> tuple[tuple[str, str], ...]:
    """Annotators of one item with the label of each; the first of many."""
    begin, end = annotations.item_start[place : place + 2]
    rows = slice(begin, min(end, begin + MOST_WHO))
    people, labels = annotations.annotators[annotations.annotator[rows]], annotations.classes[annotations.label[rows]]
    return tuple(zip(map(display_name, people), map(display_name, labels), strict=True))


def votes_at(annotations: Annotations, place: int) -> list[tuple[int, int]]:
    """Classes that were given to one item, each with its number of labels, most often first."""
    labels = annotations.label[annotations.item_start[place] : annotations.item_start[place + 1]]
    counts = np.bincount(labels, minlength=annotations.n_classes)
    return [(code, int(counts[code])) for code in np.argsort(-counts, kind="stable").tolist() if counts[code]]


def given_labels(annotations: Annotations, place: int) -> str:
    """What annotators said about one item: `cat ×3, dog ×1`."""
    votes = votes_at(annotations, place)
    listed = [f"{display_name(annotations.classes[code])}\u00a0×{count}" for code, count in votes[:MOST_GIVEN]]  # noqa: RUF001
    return ", ".join(listed) + (", …" if len(votes) > MOST_GIVEN else "")

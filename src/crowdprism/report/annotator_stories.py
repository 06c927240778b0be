"""What an annotator did, in plain numbers: how often they agree with the labels found, examples, speed and trend."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdprism.annotations import Annotations
from crowdprism.annotations.notebook import display_name
from crowdprism.results import FitResult

MOST_EXAMPLES = 3
LEAST_FOR_TREND = 20  # labels; halves of fewer differ by chance


class Story(NamedTuple):
    """One annotator, in the order that `page.js` expects."""

    n_agreeing: int  # labels that equal the label found
    seconds: float | None = None  # per label
    early: float | None = None  # share of labels that equal the label found, in the first half by time
    late: float | None = None  # and in the second
    examples: tuple[tuple[str, int, int], ...] = ()  # item, given label, label found; the most certain first


def tell_stories(result: FitResult, annotations: Annotations) -> list[Story]:
    best = np.argmax(result.class_probabilities, axis=1)
    agrees = annotations.label == best[annotations.item]
    n = annotations.n_annotators
    agreeing = np.bincount(annotations.annotator, weights=agrees, minlength=n).astype(int)
    seconds, halves = median_seconds(annotations), halves_of(annotations, agrees)
    examples = mistakes(result, annotations, best, agrees)
    return [
        Story(n_agreeing, seconds[place], *halves[place], tuple(examples.get(place, ())))
        for place, n_agreeing in enumerate(agreeing.tolist())
    ]


def by_annotator(annotations: Annotations, *keys: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Annotations sorted by annotator and then by keys (the first matters most), and where each annotator begins."""
    order = np.lexsort((*keys[::-1], annotations.annotator))
    return order, np.concatenate([[0], np.cumsum(annotations.labels_per_annotator)])


def median_seconds(annotations: Annotations) -> list[float | None]:
    """(annotator) median seconds per label; None where no time is known."""
    if annotations.duration is None:
        return [None] * annotations.n_annotators
    order, start = by_annotator(annotations, annotations.duration)
    sorted_times = annotations.duration[order]  # unknown times come last
    known = np.bincount(annotations.annotator[~np.isnan(annotations.duration)], minlength=annotations.n_annotators)
    return [
        float(np.median(sorted_times[begin : begin + n])) if n else None
        for begin, n in zip(start.tolist(), known.tolist(), strict=False)
    ]


def halves_of(annotations: Annotations, agrees: NDArray[np.bool_]) -> list[tuple[float | None, float | None]]:
    """(annotator) share of agreeing labels in the first and the second half by time; None without enough times."""
    found: list[tuple[float | None, float | None]] = [(None, None)] * annotations.n_annotators
    if annotations.timestamp is None or np.isnan(annotations.timestamp).any():
        return found
    order, start = by_annotator(annotations, annotations.timestamp)
    for place in np.flatnonzero(annotations.labels_per_annotator >= LEAST_FOR_TREND).tolist():
        own = agrees[order[start[place] : start[place + 1]]]
        early, late = np.split(own, [len(own) // 2])
        found[place] = (float(early.mean()), float(late.mean()))
    return found


def mistakes(
    result: FitResult, annotations: Annotations, best: NDArray[np.int64], agrees: NDArray[np.bool_]
) -> dict[int, list[tuple[str, int, int]]]:
    """By annotator, the labels that contradict the most certain labels found."""
    wrong = np.flatnonzero(~agrees)
    item, annotator, label = annotations.item[wrong], annotations.annotator[wrong], annotations.label[wrong]
    certainty = result.class_probabilities[item, best[item]]
    order = np.lexsort((-certainty, annotator))
    rank = np.arange(len(order)) - np.searchsorted(annotator[order], annotator[order])
    found: dict[int, list[tuple[str, int, int]]] = {}
    for place in order[rank < MOST_EXAMPLES].tolist():
        example = (display_name(annotations.items[item[place]]), int(label[place]), int(best[item[place]]))
        found.setdefault(int(annotator[place]), []).append(example)
    return found
